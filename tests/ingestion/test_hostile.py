"""Hostile and careless files among good ones: refused alone, by name, and nothing else is harmed."""

import gzip
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.benchmark_file import load_benchmark_file
from capeval_pipeline.ingestion.parts import Part
from capeval_pipeline.ingestion.reading import Request
from capeval_pipeline.ingestion.report import NOT_READ
from capeval_pipeline.storage.tables import TABLES
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

GOOD = "item_id,model,score\ng1,elm,1\ng2,elm,0\n"


@pytest.fixture
def workspace(tmp_path) -> MemoryWorkspace:
    return MemoryWorkspace(tmp_path / "data")


def fates(batch) -> dict[str, str]:
    """Name → status of a unit, or the reason it was refused."""
    return {
        report.path.rsplit("/", 1)[-1]: report.rejections[0].reason if report.status in NOT_READ else report.status
        for report in batch.reports
    }


def check_grains(workspace: MemoryWorkspace) -> None:
    """Each key once: what a lake would refuse."""
    for tables in workspace.raw.values():
        for key in ("raw.files", "raw.rejections"):
            rows = [tuple(row[name] for name in TABLES[key].grain) for row in tables[key].to_pylist()]
            assert len(rows) == len(set(rows)), key


def test_two_files_of_the_same_bytes_have_a_ledger_row_each(tmp_path, workspace):
    folder = tmp_path / "runs"
    for name in ("a.csv", "b.csv"):
        write(folder / name, "")
    write(folder / "good.csv", GOOD)
    for _ in range(2):
        batch = workspace.ingest([folder])
        assert fates(batch)["a.csv"] == fates(batch)["b.csv"] == "empty_file"
        assert len(workspace.rows("raw.files")) == 3
        check_grains(workspace)
    assert fates(batch)["good.csv"] == "unchanged"


def test_the_same_answers_of_two_models_are_both_kept(tmp_path, workspace):
    first, second = (write(tmp_path / "runs" / name, "item_id,score\nq1,1\nq2,0\n") for name in ("elm.csv", "oak.csv"))
    workspace.ingest([first], Request(model="elm"))
    workspace.ingest([second], Request(model="oak"))
    assert {(row["model_id"], row["item_id"]) for row in workspace.rows("raw.generations")} == {
        (model, item) for model in ("elm", "oak") for item in ("q1", "q2")
    }
    check_grains(workspace)
    assert fates(workspace.ingest([second], Request(model="oak"))) == {"oak.csv": "unchanged"}
    workspace.ingest([second], Request(model="fir"))  # said again otherwise: what the file said before leaves
    assert {row["model_id"] for row in workspace.rows("raw.generations")} == {"elm", "fir"}


def test_a_damaged_member_refuses_its_folder_and_not_the_batch(tmp_path, workspace):
    folder = tmp_path / "runs"
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"item_id": ["q"], "model": ["elm"], "score": [1.0]}), path)
    whole = path.read_bytes()
    write(folder / "cut" / "results.parquet.gz", gzip.compress(whole + os.urandom(200_000))[:-100])
    write(folder / "bomb" / "results.parquet.gz", gzip.compress(whole + bytes(30_000_000)))
    write(folder / "half" / "results.parquet", whole[:-9])
    write(folder / "half.parquet", whole[: len(whole) // 2])
    write(folder / "good.csv", GOOD)
    assert fates(workspace.ingest([folder])) == {
        "cut": "truncated",
        "bomb": "archive_limit",
        "half": "truncated",
        "half.parquet": "truncated",
        "good.csv": "read",
    }


def test_what_keeps_text_from_being_read_is_named(tmp_path, workspace):
    folder = tmp_path / "runs"
    write(folder / "utf16.csv", GOOD.encode("utf-16-le"))
    write(folder / "marked.csv", b"\xff\xfe" + GOOD.replace("elm", "oak").encode("utf-16-le"))
    write(folder / "utf32.csv", GOOD.encode("utf-32"))
    write(folder / "blank.csv", " \n\n")
    write(folder / "nothing.csv.gz", gzip.compress(b""))
    write(folder / "old.csv", GOOD.replace("\n", "\r"))
    write(folder / "packed.csv.gz", gzip.compress(pickle.dumps({"a": 1})))
    batch = workspace.ingest([folder])
    assert fates(batch) == {
        "utf16.csv": "bad_encoding",
        "marked.csv": "read",
        "utf32.csv": "bad_encoding",
        "blank.csv": "empty_file",
        "nothing.csv.gz": "empty_file",
        "old.csv": "unknown_format",
        "packed.csv.gz": "pickle_refused",
    }
    assert any(
        "lines end in \\r alone" in report.rejections[0].message for report in batch.reports if report.rejections
    )


def test_links_out_of_the_folder_are_no_part_of_a_unit_and_no_declaration(tmp_path, workspace):
    outside = write(tmp_path / "outside" / "secret.csv", GOOD)
    declared = write(tmp_path / "outside" / "benchmark.yml", "name: secret\n")
    folder = tmp_path / "runs"
    write(folder / "unit" / "items.csv", "item_id,prompt\ng1,a\ng2,b\n")
    os.symlink(outside, folder / "unit" / "results.csv")
    write(folder / "governed" / "a.csv", GOOD)
    os.symlink(declared, folder / "governed" / "benchmark.yml")
    write(folder / "piped" / "b.csv", GOOD)
    os.mkfifo(folder / "piped" / "benchmark.yml")
    batch = workspace.ingest([folder])
    assert fates(batch) == {
        "unit": "link_refused", "a.csv": "link_refused", "benchmark.yml": "link_refused", "b.csv": "config_invalid",
    }  # fmt: skip
    assert workspace.rows("raw.generations") == []


@pytest.mark.parametrize(
    "content",
    [
        "name: !!int ''\n",
        "name: !!bool x\n",
        "name: !!timestamp x\n",
        "name: 2020-13-45\n",
        "score_range: [0, 0x" + "f" * 6000 + "]\n",
        "name: 0x" + "f" * 6000 + "\n",
        "name: " + "9" * 6000 + "\n",
        "instances: " + "a" * 300 + "\n",
        "prices: loop.yml\n",
        "prices: [a]\n",
        "models: {'': [a]}\n",
        "models: {a: [[b]]}\n",
        "name: a\nname: b\n",
        "name: &a [*a]\n",
        "score_range: " + "[" * 3000 + "\n",
        "score_range: &i [&a [x, x], *a, *a]\n",
        "derive: {<<: {seed: 1}}\n",
        "models:\n  a: [\n" + "x,\n" * 400_000 + "]\n",
    ],
    ids=range(18),
)
def test_yaml_meant_to_break_the_loader_is_an_invalid_declaration(tmp_path, content):
    os.symlink("loop.yml", tmp_path / "loop.yml")
    with pytest.raises(FileRefused) as caught:
        load_benchmark_file(write(tmp_path / "benchmark.yml", content))
    assert caught.value.reason == "config_invalid"
    assert len(str(caught.value)) <= 300
    assert "object has no attribute" not in str(caught.value)


def test_a_declaration_that_grows_when_printed_does_not_hang(tmp_path):
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    content = "score_range:\n" + "\n".join(f"  {level}" for level in levels)
    with pytest.raises(FileRefused, match="key score_range"):
        load_benchmark_file(write(tmp_path / "benchmark.yml", content))


def test_names_of_files_are_text_that_can_be_stored_and_printed(tmp_path, workspace):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number, name in enumerate([b"a\nb.csv", b"bad\xff.csv", b"\x1b[31m.csv", b"x" * 251 + b".csv"]):
        path = os.path.join(os.fsencode(folder), name)
        with open(path, "wb") as stream:
            stream.write(f"item_id,model,score\nq{number},elm,1\nq{number},elm,0\nq{number},oak,7\n".encode())
    with open(os.path.join(os.fsencode(folder), b"junk\xfe.csv"), "wb") as stream:
        stream.write(b"junk")
    batch = workspace.ingest([folder])
    assert set(fates(batch)) == {"a\\x0ab.csv", "bad\\xff.csv", "\\x1b[31m.csv", "x" * 251 + ".csv", "junk\\xfe.csv"}
    remarks = [remark for report in batch.reports for remark in report.rejections]
    assert len(remarks) == 4 * 3 + 1
    assert all(remark.message.isprintable() and len(remark.message) <= 300 for remark in remarks)
    assert set(fates(workspace.ingest([folder])).values()) == {"unchanged", "unknown_format"}
    check_grains(workspace)


def test_a_time_of_change_beyond_all_calendars_is_unknown(tmp_path, workspace):
    path = write(tmp_path / "runs" / "a.csv", GOOD)
    try:
        os.utime(path, (2**40, 2**40))
    except OSError:
        pytest.skip("this file system keeps no such time")
    assert fates(workspace.ingest([path])) == {"a.csv": "read"}


def test_a_row_whose_benchmark_cannot_be_called_so_is_refused_alone(tmp_path, workspace):
    header = "item_id,model,score,benchmark,metric\n"
    rows = f"q1,elm,1,a...b,acc\nq1,elm,1, arc ,acc\nq2,elm,1,  ,acc\nq3,elm,0,{'x' * 300},acc\nq4,elm,9,a...b,acc\n"
    write(tmp_path / "runs" / "a.csv", header + rows)
    batch = workspace.ingest([tmp_path / "runs"])
    report = batch.reports[0]
    assert (report.status, report.n_read, report.n_kept, report.n_rejected) == ("read", 5, 2, 3)
    assert sorted((remark.reason, remark.location) for remark in report.rejections) == [
        ("bad_row", "line 2"), ("bad_row", "line 5"), ("score_out_of_range", "line 6"),
    ]  # fmt: skip
    assert "benchmark is 'a...b'; expected printable text" in report.rejections[0].message
    assert sorted(workspace.raw) == ["arc", "runs"]
    assert {row["item_id"] for row in workspace.rows("raw.generations")} == {"q1", "q2"}


def test_a_file_whose_own_benchmark_cannot_be_called_so_is_listed_under_a_name_that_can(tmp_path, workspace):
    write(tmp_path / "a...b" / "d.csv", GOOD)
    assert fates(workspace.ingest([tmp_path / "a...b"])) == {"d.csv": "config_invalid"}
    assert sorted(workspace.raw) == ["a…b"]


def test_a_name_under_which_nothing_could_be_read_makes_no_benchmark(tmp_path, workspace):
    write(tmp_path / "runs" / "empty.csv", "")
    write(tmp_path / "mix" / "a.csv", "item_id,model,score,benchmark\nq1,elm,1,arc\n,elm,1,\n")
    workspace.ingest([tmp_path / "runs", tmp_path / "mix"])
    assert [row["benchmark_id"] for row in workspace.rows("raw.benchmarks")] == ["arc"]
    told = {(row["benchmark_id"], row["reason"]) for row in workspace.rows("raw.rejections")}
    assert told == {("runs", "empty_file"), ("mix", "key_missing")}
    assert {row["benchmark_id"] for row in workspace.rows("raw.files")} == {"arc", "mix", "runs"}
    write(tmp_path / "runs" / "empty.csv", GOOD)
    workspace.ingest([tmp_path / "runs"])
    assert sorted(row["benchmark_id"] for row in workspace.rows("raw.benchmarks")) == ["arc", "runs"]


NAMELESS = {
    "wide": ("a.csv", "sample_id,elm,oak\n,1,0\n"),
    "long": ("a.csv", "item_id,model,score\n,elm,1\n,oak,0\n"),
    "long lines": ("a.jsonl", '{"item_id": null, "model": "elm", "score": 1}\n{"item_id": "", "model": "oak"}'),
    "judgments": ("a.csv", "item_id,model_a,model_b,winner\n,elm,oak,model_a\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMELESS)
@pytest.mark.parametrize("beside", [False, True])
def test_a_row_that_names_no_item_makes_none(tmp_path, workspace, kind, beside):
    name, text = NAMELESS[kind]
    write(tmp_path / "runs" / name, text)
    if beside:
        write(tmp_path / "runs" / "good.csv", GOOD)
    workspace.ingest([tmp_path / "runs"])
    assert {row["item_id"] for row in workspace.rows("raw.items")} == ({"g1", "g2"} if beside else set())
    assert {row["n_kept"] for row in workspace.rows("raw.files") if row["path"].endswith(name)} == {0}
    assert "key_missing" in {row["reason"] for row in workspace.rows("raw.rejections")}


ODD_COLUMNS = {
    "rejected cells": 'item_id,"el\nm",oak\nq1,maybe,1\nq2,0,1\n',
    "named twice": 'item_id,"el\nm","el\nm"\nq1,1,1\n',
    "a name of a thousand letters": f"item_id,{'m' * 1000},oak\nq1,maybe,1\nq2,0,1\n",
}


@pytest.mark.parametrize("kind", ODD_COLUMNS)
def test_a_place_is_one_line_whatever_a_column_is_called(tmp_path, workspace, kind):
    workspace.ingest([write(tmp_path / "runs" / "a.csv", ODD_COLUMNS[kind])])
    told = workspace.rows("raw.rejections")
    assert any("column" in row["location"] for row in told)
    for row in told:
        assert row["location"].isprintable() and len(row["location"]) <= 120
        assert row["message"].isprintable() and len(row["message"]) <= 300


def test_a_disk_full_of_rows_ends_the_batch_with_one_sentence(tmp_path, workspace, monkeypatch):
    def full(part, *words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Part, "_write_rows", full)
    with pytest.raises(CapevalError, match=r"no space left for temporary readings in .*; nothing of these files is in"):
        workspace.ingest([write(tmp_path / "runs" / "a.csv", GOOD)])


def test_the_workspace_as_a_path_means_what_people_put_there_and_not_its_own_tables(tmp_path, workspace):
    for name in ("lake", "warehouse", "dagster", "tmp", "reports"):
        write(workspace.data / name / "table.csv", GOOD)
    write(workspace.data / "inbox" / "arc" / "a.csv", GOOD)
    assert [report.path for report in workspace.ingest([workspace.data]).reports] == ["inbox/arc/a.csv"]
    assert workspace.ingest([workspace.data / "lake"]).reports == []


def test_a_file_that_changes_while_it_is_read_is_refused_and_read_the_next_time(tmp_path, workspace, monkeypatch):
    path = write(tmp_path / "runs" / "a.csv", GOOD)
    add = Part.add

    def written_to(part, chunk):
        write(path, GOOD + "g3,elm,1\n")
        add(part, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(Part, "add", written_to)
        batch = workspace.ingest([path])
    assert fates(batch) == {"a.csv": "changed_while_reading"}
    assert batch.reports[0].rejections[0].message.endswith("expected a file at rest. Try again.")
    assert workspace.rows("raw.generations") == []
    assert fates(workspace.ingest([path])) == {"a.csv": "read"}
    assert len(workspace.rows("raw.generations")) == 3


def test_a_repetition_is_told_with_the_first_place(tmp_path, workspace):
    workspace.ingest([write(tmp_path / "runs" / "a.csv", GOOD + "g1,elm,1\n")])
    row = workspace.rows("raw.rejections")[0]
    assert (row["severity"], row["reason"], row["location"]) == ("duplicate", "duplicate", "line 4")
    assert row["message"] == "a.csv: line 4: repeats line 2; expected each key once."


def test_a_fault_that_no_reader_foresaw_refuses_the_file_only(tmp_path, workspace, monkeypatch):
    write(tmp_path / "runs" / "a.csv", GOOD)
    write(tmp_path / "runs" / "good.csv", GOOD.replace("elm", "oak"))
    settle = Part.settle

    def broken(part):
        if part.unit.path.name == "a.csv":
            raise MemoryError("no more")
        settle(part)

    monkeypatch.setattr(Part, "settle", broken)
    assert fates(workspace.ingest([tmp_path / "runs"])) == {"a.csv": "unknown_format", "good.csv": "read"}
    assert {row["model_id"] for row in workspace.rows("raw.generations")} == {"oak"}


def test_a_file_that_goes_or_is_exchanged_while_it_is_read_is_told_as_that(tmp_path, workspace, monkeypatch):
    for name in ("cut.csv", "gone.csv", "swapped.csv", "zz.csv"):
        write(tmp_path / "runs" / name, GOOD.replace("elm", name[:-4]))
    add = Part.add

    def disturbed(part, chunk):
        path = part.unit.path
        if path.name == "gone.csv":
            path.unlink()
        elif path.name == "swapped.csv":  # another file of the same size and date
            status = path.stat()
            other = write(path.with_name(".other"), GOOD.replace("elm", "swoaked"))
            os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.replace(other, path)
        elif path.name == "cut.csv":
            write(path, "item_id,mo")
            raise ValueError("half a row")
        add(part, chunk)

    monkeypatch.setattr(Part, "add", disturbed)
    batch = workspace.ingest([tmp_path / "runs"])
    changed = dict.fromkeys(["cut.csv", "gone.csv", "swapped.csv"], "changed_while_reading")
    assert fates(batch) == {**changed, "zz.csv": "read"}
    assert "went away while it was read" in batch.reports[1].rejections[0].message
    assert {row["model_id"] for row in workspace.rows("raw.generations")} == {"zz"}


def test_folders_that_may_not_be_opened_are_refused_alone(tmp_path, workspace, monkeypatch):
    for name in ("closed", "names_only", "open"):
        write(tmp_path / "runs" / name / "a.csv", GOOD.replace("elm", name))
    listdir, stat = os.listdir, os.stat

    def no_listing(path):
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    def no_stat(path, **options):
        if str(path).endswith("names_only/a.csv"):
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(os, "listdir", no_listing)
    monkeypatch.setattr(os, "stat", no_stat)
    batch = workspace.ingest([tmp_path / "runs"])
    told = {report.path.removeprefix(f"{tmp_path}/runs/"): report for report in batch.reports}
    assert {name: report.status for name, report in told.items()} == {
        "closed": "refused", "names_only/a.csv": "refused", "open/a.csv": "read",
    }  # fmt: skip
    message = told["closed"].rejections[0].message
    assert message == "closed: file: cannot be opened (Permission denied); expected a readable file or folder."
    assert told["names_only/a.csv"].rejections[0].reason == "not_a_file"


def test_a_full_disk_is_no_fault_of_the_file_and_ends_the_batch(tmp_path, workspace, monkeypatch):
    write(tmp_path / "runs" / "a.csv", GOOD)

    def full(part):
        raise RuntimeError("cannot write") from OSError(28, "No space left on device")

    monkeypatch.setattr(Part, "settle", full)
    with pytest.raises(CapevalError, match="no space left"):
        workspace.ingest([tmp_path / "runs"])
    assert workspace.raw == {}
