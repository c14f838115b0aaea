"""`capeval ingest` as a user calls it: counts, exit codes, JSON; nothing written where nothing should be."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from capeval_pipeline import cli
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.lake import Lake
from tests.formats.reading import write

GOOD = "item_id,model,score\nq1,elm,1\nq2,elm,0\n"


@pytest.fixture
def ingest(tmp_path, monkeypatch, capsys):
    """Call the command on a workspace of its own; gives exit code, stdout and stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(tmp_path / "ws"), "ingest", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return call


def contents(folder: Path) -> dict[str, int]:
    """Every file and folder below, with the time of its last change; a folder's says whether something came or went."""
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*")}


def lake_of(tmp_path: Path) -> Lake:
    return Lake(load_settings(tmp_path / "ws").lake_root)


def test_a_refused_file_does_not_keep_the_others_out(ingest, tmp_path):
    write(tmp_path / "runs" / "good.csv", GOOD)
    write(tmp_path / "runs" / "empty.csv", "")
    code, out, err = ingest(tmp_path / "runs", "--json")
    assert code == 1
    entries = {Path(entry["path"]).name: entry for entry in json.loads(out)}
    assert [entries[name]["status"] for name in ("good.csv", "empty.csv")] == ["read", "refused"]
    assert {name: value for name, value in entries["good.csv"].items() if name not in ("path", "file_id")} == {
        "format": "long",
        "benchmark_ids": ["runs"],
        "status": "read",
        "n_read": 2,
        "n_kept": 2,
        "n_rejected": 0,
        "n_duplicate": 0,
        "rejections": [],
        "warnings": [],
        "n_rejections_listed": 0,
    }
    assert err.strip().startswith("empty.csv: file: has 0 bytes; expected results.")
    assert lake_of(tmp_path).read("raw.generations", "runs").num_rows == 2

    versions = {key: lake_of(tmp_path).delta_version(key) for key in ("raw.generations", "raw.files", "readings.files")}
    code, out, _ = ingest(tmp_path / "runs" / "good.csv", "--json")
    assert (code, json.loads(out)[0]["status"]) == (0, "unchanged")
    assert {key: lake_of(tmp_path).delta_version(key) for key in versions} == versions

    code, out, _ = ingest("--forget", tmp_path / "runs" / "good.csv", "--json")
    assert (code, json.loads(out)[0]["status"]) == (0, "forgotten")
    assert lake_of(tmp_path).read("raw.generations", "runs").num_rows == 0


def test_the_first_faults_are_told_with_place_and_fix_and_strict_says_why_it_fails(ingest, tmp_path):
    wrong = "".join(f"q{item},ash,1.7\n" for item in range(5))
    path = write(tmp_path / "runs" / "scores.csv", GOOD + wrong)
    code, out, err = ingest(path, "--dry-run", "--strict")
    assert code == 1
    assert err == "capeval: --strict: 5 records rejected\n"
    told = [line for line in out.splitlines() if line.startswith("scores.csv: line ")]
    assert [line.split(": ")[1] for line in told] == ["line 4", "line 5", "line 6"]
    assert "expected a number from 0 to 1" in told[0]
    assert out.endswith(
        "and 2 more; once published, `select location, message from raw.rejections` lists all\n"
        "nothing is written: --dry-run\n"
    )
    code, out, err = ingest(path)
    assert (code, err) == (0, "")
    assert out.endswith("next: `capeval run` computes and publishes what changed\n")


def test_of_nine_broken_files_and_a_good_one_the_good_one_is_in_and_nine_reasons_are_told(
    ingest, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    write(folder / "good.csv", GOOD)
    broken: dict[str, tuple[str, str | bytes]] = {
        "empty.csv": ("empty_file", ""),
        "answers.pkl": ("pickle_refused", b"\x80\x04."),
        "board.csv": ("aggregate_only", "model,score\nelm,1\n"),
        "other.jsonl": ("unknown_format", '{"a": 1}\n'),
        "wide16.csv": ("bad_encoding", GOOD.encode("utf-16-le")),
        "twice.csv.gz": ("archive_limit", gzip.compress(gzip.compress(b"x"))),
        "columns.csv": ("columns_missing", "item_id,score\nq,1\n"),
        "repeated.csv": ("duplicate_column", "item_id,model,score,score\nq,elm,1,0\n"),
        "total.csv": ("summary_row", "item_id,elm,oak\nq,1,0\naverage,1,0\n"),
    }
    for name, (_, content) in broken.items():
        write(folder / name, content)
    code, out, err = ingest("runs")
    assert code == 1
    told = {line.split()[0].rpartition("/")[2]: line for line in out.splitlines() if "  refused  " in line}
    assert {name: line.split()[-1] for name, line in told.items()} == {name: code for name, (code, _) in broken.items()}
    assert sorted(line.partition(":")[0] for line in err.splitlines()) == sorted(broken)
    lake = lake_of(tmp_path)
    rejections = lake.read("raw.rejections", "runs").to_pylist()
    assert sorted(row["reason"] for row in rejections) == sorted(code for code, _ in broken.values())
    assert all(row["message"] in err for row in rejections)
    files = {Path(row["path"]).name: row for row in lake.read("raw.files", "runs").to_pylist()}
    assert {name for name, row in files.items() if row["status"] == "refused"} == set(broken)
    assert (files["good.csv"]["n_kept"], lake.read("raw.generations", "runs").num_rows) == (2, 2)


def test_two_empty_files_do_not_keep_a_good_one_out(ingest, tmp_path):
    for name, content in {"a.csv": "", "b.csv": "", "good.csv": GOOD}.items():
        write(tmp_path / "runs" / name, content)
    code, out, err = ingest(tmp_path / "runs", tmp_path / "runs", "--json")
    assert code == 1
    assert [entry["status"] for entry in json.loads(out)] == ["refused", "refused", "read"]
    assert [line.partition(":")[0] for line in err.splitlines()] == ["a.csv", "b.csv"]
    assert lake_of(tmp_path).read("raw.files", "runs").num_rows == 3


def test_a_dry_run_says_the_same_and_writes_nothing(ingest, tmp_path):
    path = write(tmp_path / "runs" / "a.csv", GOOD + "q3,elm,1.7\n")
    code, out, _ = ingest(path, "--dry-run", "--json")
    entry = json.loads(out)[0]
    assert code == 0
    assert (entry["n_read"], entry["n_kept"], entry["n_rejected"]) == (3, 2, 1)
    assert entry["rejections"][0]["reason"] == "score_out_of_range"
    assert ingest(path, "--dry-run", "--strict")[0] == 1
    assert not (tmp_path / "ws").exists()
    assert ingest(path)[0] == 0
    before = contents(tmp_path / "ws")
    write(tmp_path / "runs" / "b.csv", GOOD.replace("elm", "oak"))
    code, out, _ = ingest(tmp_path / "runs", "--dry-run", "--json")
    assert (code, [entry["status"] for entry in json.loads(out)]) == (0, ["unchanged", "read"])
    assert ingest("--forget", path, "--dry-run")[0] == 0
    assert contents(tmp_path / "ws") == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/no/such/path"], "no such file or folder"),
        (["a\nb"], "no such file or folder"),
        ([""], "an empty PATH"),
        (["--format", "foo", "."], "no format 'foo'; expected one of canonical"),
        (["--benchmark", " ", "."], "--benchmark"),
        (["--benchmark", "x" * 300, "."], "expected printable text of 1 to 200 characters"),
        (["--model", "\n", "."], "--model '\\n'"),
        (["--metric", "", "."], "--metric ''"),
        (["--forget", "never.csv"], "no file in the lake came from there"),
    ],
)
def test_wrong_use_ends_with_two_and_one_line(ingest, words, told):
    code, out, err = ingest(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_one_line_says_whether_everything_was_read(ingest, tmp_path):
    write(tmp_path / "runs" / "good.csv", GOOD)
    write(tmp_path / "runs" / "more.csv", GOOD.replace("elm", "oak") + "q2,oak,0\nq3,oak,much\n")
    write(tmp_path / "runs" / "empty.csv", "")
    _, out, _ = ingest(tmp_path / "runs", "--dry-run")
    assert "3 files: 2 read, 1 refused; 6 records = 4 kept + 1 rejected + 1 duplicate\n" in out
    _, out, _ = ingest(tmp_path / "runs" / "good.csv", "--dry-run")
    assert "1 file" not in out


def test_reading_tells_how_much_lies_behind_it(tmp_path):
    from capeval_pipeline.ingestion.batch import read_batch
    from capeval_pipeline.ingestion.discovery import Place
    from capeval_pipeline.ingestion.reading import Request

    write(tmp_path / "runs" / "a.csv", GOOD)
    write(tmp_path / "runs" / "b.csv", GOOD * 2)
    said: list[tuple[str, float, float]] = []
    place = Place(tmp_path / "ws", tmp_path / "ws" / "inbox")
    read_batch([tmp_path / "runs"], Request(), place, [], tmp_path / "staged", lambda *told: said.append(told))
    assert said == [
        ("reading a.csv (1/2)", 0, 3 * len(GOOD)),
        ("reading b.csv (2/2)", len(GOOD), 3 * len(GOOD)),
    ]


def test_files_of_one_name_and_faults_of_what_lies_beside_are_told_with_their_paths(ingest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run, content in (("run1", ""), ("run2", GOOD + "q3,elm,much\n")):
        write(tmp_path / "runs" / run / "scores.csv", content)
    write(tmp_path / "runs" / "run3" / "benchmark.yml", "scorerange: [0, 1]\n")
    write(tmp_path / "runs" / "run3" / "other.csv", GOOD)
    code, out, err = ingest("runs", "--dry-run")
    assert code == 1
    assert [line.split(": ")[:2] for line in err.splitlines()] == [
        ["runs/run1/scores.csv", "file"], ["runs/run3/other.csv", "benchmark.yml"],
    ]  # fmt: skip
    assert "runs/run2/scores.csv: line 4: score is 'much'" in out
