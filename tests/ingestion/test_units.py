"""From paths to units: gates, skips, links, companions, and the names of formats."""

import json
import os
import pickle
import stat

import pytest

from capeval_pipeline.errors import UsageError
from capeval_pipeline.formats.mapping_skeleton import skeleton
from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.benchmark_file import load_benchmark_file
from capeval_pipeline.ingestion.detection import detect
from capeval_pipeline.ingestion.discovery import Place, discover, is_skipped
from capeval_pipeline.ingestion.reading import Request
from tests.formats.reading import write
from tests.formats.zips import write_zip
from tests.ingestion.workspaces import MemoryWorkspace

GOOD = "item_id,model,score\nq1,elm,1\nq2,elm,0\n"


@pytest.mark.parametrize(
    "name",
    [".DS_Store", "~$x.csv", "x.csv~", "x.tmp", "x.part", "x.partial", "x.crdownload", ".x.swp", "#x#", "4913",
     "Thumbs.db", "desktop.ini", "__MACOSX"],
)  # fmt: skip
def test_leftovers_are_skipped_by_name(name):
    assert is_skipped(name)


def found_in(folder, data):
    return discover([folder], Place(data, data / "inbox"))


def reasons(workspace_reports) -> dict[str, str]:
    return {
        report.path.rsplit("/", 1)[-1]: report.rejections[0].reason
        for report in workspace_reports
        if report.status == "refused"
    }


def test_hostile_files_are_refused_one_by_one_and_the_good_one_beside_them_is_read(tmp_path):
    folder = tmp_path / "inbox" / "mixed"
    write(folder / "good.csv", GOOD)
    write(folder / "empty.csv", "")
    write(folder / "junk.bin", bytes(range(256)) * 20)
    write(folder / "data.pkl", pickle.dumps([1]))
    write(folder / "disguised.csv", pickle.dumps({"a": 1}))
    write(folder / "sheet.xlsx", b"PK\x03\x04" + bytes(50))
    write(folder / "deep.jsonl", "[" * 5000)
    write(folder / "totals.csv", "model,score,ci\nelm,71.2,0.5\n")
    write(folder / "latin.json", '{"a": "caf\xe9"}'.encode("latin-1"))
    write(folder / "notes.md", "# notes")
    os.symlink("/etc/hostname", folder / "out.csv")
    os.symlink(folder, folder / "loop")
    os.mkfifo(folder / "pipe.csv")
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([folder])
    assert reasons(batch.reports) == {
        "empty.csv": "empty_file",
        "junk.bin": "unknown_format",
        "data.pkl": "pickle_refused",
        "disguised.csv": "pickle_refused",
        "sheet.xlsx": "unknown_format",
        "deep.jsonl": "nesting_too_deep",
        "totals.csv": "aggregate_only",
        "latin.json": "unknown_format",
        "out.csv": "link_refused",
        "pipe.csv": "not_a_file",
    }
    assert batch.has_refusals
    assert {(row["item_id"], row["score"]) for row in workspace.rows("raw.generations")} == {("q1", 1.0), ("q2", 0.0)}
    for report in batch.reports:
        assert report.n_read == report.n_kept + report.n_rejected + report.n_duplicate
        assert all(len(remark.message) <= 300 for remark in report.rejections)
    assert stat.S_ISFIFO((folder / "pipe.csv").stat().st_mode)


def test_an_unknown_format_shows_its_keys_and_the_three_nearest_formats(tmp_path):
    path = write(tmp_path / "a.json", '{"doc_id": 1, "target": 2, "something": 3}')
    with pytest.raises(FileRefused) as caught:
        detect(path)
    assert "doc_id, target, something" in str(caught.value)
    assert "Nearest: lm_eval, " in str(caught.value)
    assert str(caught.value).count(",") >= 4


@pytest.mark.parametrize("n_records", [3, 20_000])
def test_a_document_of_an_unknown_kind_that_was_cut_off_is_called_so(tmp_path, n_records):
    whole = json.dumps({"made_by": "someone", "trials": [{"stage": i, "went": "well"} for i in range(n_records)]})
    with pytest.raises(FileRefused) as caught:
        detect(write(tmp_path / "a.json", whole))
    assert caught.value.reason == "unknown_format"
    for kept in (whole[:-20], whole[: len(whole) // 2]):
        with pytest.raises(FileRefused, match=r"ends in '.*', inside an unfinished value") as caught:
            detect(write(tmp_path / f"{len(kept)}.json", kept))
        assert caught.value.reason == "truncated"


@pytest.mark.parametrize("text", ["[INFO] started\n[INFO] ended\n", "{ not json at all }\n", '{"a": 1} and more'])
def test_what_is_no_json_is_not_called_cut_off(tmp_path, text):
    with pytest.raises(FileRefused) as caught:
        detect(write(tmp_path / "a.json", text))
    assert caught.value.reason == "unknown_format"


@pytest.mark.parametrize(
    ("spent", "each"),
    [
        ({"input_tokens": 3, "output_tokens": 9}, None),
        ({"elm": 0.5, "oak": 1}, "spent"),
        ({"total": 1.2, "latency_s": 3}, None),
    ],
)
def test_numbers_of_tokens_and_times_are_not_proposed_as_scores(tmp_path, spent, each):
    path = write(tmp_path / "a.json", json.dumps([{"session_id": "s1", "spent": spent}] * 2))
    assert (f"each: {each}" in skeleton(path)) == (each is not None) and ("each" in skeleton(path)) == (
        each is not None
    )


def test_a_missing_path_is_wrong_use(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        found_in(tmp_path / "nothing", tmp_path)


def test_a_folder_with_results_and_other_tables_is_read_file_by_file(tmp_path):
    folder = tmp_path / "runs"
    write(folder / "results.csv", GOOD)
    write(folder / "more.csv", GOOD.replace("elm", "oak"))
    assert len(found_in(folder, tmp_path / "data").units) == 2
    (folder / "more.csv").unlink()
    units = found_in(folder, tmp_path / "data").units
    assert [unit.is_folder for unit in units] == [True]


def test_a_named_readme_is_refused_and_one_in_a_folder_passed_over(tmp_path):
    path = write(tmp_path / "runs" / "README.md", "# about\n")
    workspace = MemoryWorkspace(tmp_path / "data")
    assert workspace.ingest([path.parent]).reports == []
    assert [report.status for report in workspace.ingest([path]).reports] == ["refused"]


@pytest.mark.parametrize(
    ("content", "where", "advice"),
    [
        ("score_rnage: [0, 1]\n", "key score_rnage", "Did you mean score_range?"),
        ("score_range: [1, 0]\n", "key score_range", "low < high"),
        ("error_policy: maybe\n", "key error_policy", "one of ignore, wrong"),
        ("has_true_generations: 1\n", "key has_true_generations", "true or false"),
        ("derive: {tie_marjin: 1}\n", "key derive.tie_marjin", "Did you mean tie_margin?"),
        ("prices: ../prices.yml\n", "key prices", "in this folder"),
        ("models: {a: [x], b: [x]}\n", "key models", "each raw name once"),
        ("{a: [", "file", "no YAML"),
        ("- a\n", "file", "keys and values"),
        ("name: !!python/object/apply:os.system ['true']\n", "file", "no YAML"),
    ],
)
def test_benchmark_yml_is_checked_key_by_key(tmp_path, content, where, advice):
    path = write(tmp_path / "benchmark.yml", content)
    with pytest.raises(FileRefused) as caught:
        load_benchmark_file(path)
    assert caught.value.reason == "config_invalid"
    assert where in str(caught.value)
    assert advice in str(caught.value)


def test_a_broken_benchmark_yml_refuses_what_it_governs_and_nothing_else(tmp_path):
    write(tmp_path / "runs" / "bad" / "benchmark.yml", "nmae: x\n")
    write(tmp_path / "runs" / "bad" / "a.csv", GOOD)
    write(tmp_path / "runs" / "good" / "b.csv", GOOD.replace("elm", "oak"))
    batch = MemoryWorkspace(tmp_path / "data").ingest([tmp_path / "runs"])
    assert reasons(batch.reports) == {"a.csv": "config_invalid"}
    assert [report.status for report in batch.reports if report.path.endswith("b.csv")] == ["read"]


def test_the_benchmark_is_asked_for_declared_the_inbox_folder_said_or_the_folder(tmp_path):
    data = tmp_path / "data"
    inbox = data / "inbox" / "arc"
    write(inbox / "a.csv", GOOD)
    write(inbox / "named" / "benchmark.yml", "name: declared\nversion: 2\n")
    write(inbox / "named" / "b.csv", GOOD.replace("elm", "oak"))
    write(tmp_path / "elsewhere" / "c.csv", GOOD.replace("elm", "fir"))
    workspace = MemoryWorkspace(data)
    workspace.ingest([data / "inbox", tmp_path / "elsewhere" / "c.csv"])
    assert sorted(workspace.raw) == ["arc", "declared@2", "elsewhere"]
    workspace.ingest([tmp_path / "elsewhere" / "c.csv"], Request(benchmark="asked@7"))
    assert "asked@7" in workspace.raw
    assert workspace.rows("raw.benchmarks")[-1]["version"] == "7"


def test_rows_that_name_their_benchmark_go_to_it(tmp_path):
    content = "item_id,model,score,benchmark,benchmark_version\nq1,elm,1,a,1\nq1,elm,0,b,\nq2,,1,b,\n,elm,0,,\n"
    path = write(tmp_path / "mix" / "a.csv", content)
    workspace = MemoryWorkspace(tmp_path / "data")
    batch = workspace.ingest([path])
    assert batch.reports[0].benchmark_ids == ["a@1", "b", "mix"]
    counts = {
        row["benchmark_id"]: (row["n_read"], row["n_kept"], row["n_rejected"]) for row in workspace.rows("raw.files")
    }
    assert counts == {"a@1": (1, 1, 0), "b": (1, 1, 0), "mix": (2, 0, 2)}
    again = workspace.ingest([path])
    assert (again.reports[0].status, again.reports[0].n_duplicate) == ("unchanged", 4)


def test_an_archive_in_an_archive_is_not_opened(tmp_path):
    inner = write_zip(tmp_path / "inner.zip", [("scores.csv", GOOD.encode())]).read_bytes()
    folder = tmp_path / "inbox" / "packed"
    folder.mkdir(parents=True)
    write_zip(folder / "outer.eval", [("notes.txt", b"x"), ("logs/inner.eval", inner)])
    write_zip(folder / "results.zip", [("scores.csv", GOOD.encode())])
    batch = MemoryWorkspace(tmp_path).ingest([folder])
    assert reasons(batch.reports) == {"outer.eval": "archive_limit", "results.zip": "unknown_format"}
    messages = [report.rejections[0].message for report in batch.reports]
    assert "'logs/inner.eval'" in messages[0]
    assert all("Unpack it and give the folder." in message for message in messages)
