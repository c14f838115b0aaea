"""The lake: parts are replaced whole, versions follow content, damage is named."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from capeval_pipeline.errors import LakeError
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.lake import Lake, benchmark_key
from capeval_pipeline.storage.stored_rows import StoredRows

PROJECT = Path(__file__).resolve().parents[2]


def rows(*scores: float | None, benchmark: str = "arc") -> pa.Table:
    return pa.table(
        {
            "benchmark_id": pa.array([benchmark] * len(scores), pa.string()),
            "item_id": pa.array([f"q{i}" for i in range(len(scores))], pa.string()),
            "score": pa.array(scores, pa.float64()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_what_was_written_is_read_back(lake):
    lake.write("raw.generations", "arc", rows(1.0, None, 0.5))
    assert lake.read("raw.generations", "arc").to_pydict()["score"] == [1.0, None, 0.5]


def test_writing_a_benchmark_leaves_the_others_alone(lake):
    lake.write("raw.generations", "arc", rows(1.0))
    lake.write("raw.generations", "mmlu", rows(0.0, benchmark="mmlu"))
    lake.write("raw.generations", "arc", rows(0.25, 0.75))
    assert lake.read("raw.generations", "mmlu").to_pydict()["score"] == [0.0]
    assert lake.read("raw.generations", "arc").to_pydict()["score"] == [0.25, 0.75]


def test_a_part_written_again_keeps_its_files_though_the_root_is_reached_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    lake = Lake(tmp_path / "link" / "lake")
    lake.write("raw.generations", "arc", rows(1.0))
    before = lake.paths("raw.generations", "arc")
    lake.write("raw.generations", "arc", lake.stored("raw.generations", rows().schema, "arc"))
    assert lake.paths("raw.generations", "arc") == before and all(Path(path).exists() for path in before)
    assert lake.table_in(before[0]) == "raw.generations"


def test_an_empty_part_keeps_the_columns(lake):
    lake.write("raw.generations", "arc", rows())
    found = lake.read("raw.generations", "arc")
    assert found.num_rows == 0
    assert found.column_names == ["benchmark_id", "item_id", "score"]


def test_a_new_column_does_not_take_anything_from_older_parts(lake):
    lake.write("raw.generations", "arc", rows(1.0))
    wider = rows(0.5, benchmark="mmlu").append_column("cost_usd", pa.array([0.01]))
    lake.write("raw.generations", "mmlu", wider)
    old = lake.read("raw.generations", "arc")
    assert old.to_pydict()["score"] == [1.0]
    assert old.to_pydict()["cost_usd"] == [None]


def test_a_part_without_a_column_does_not_take_it_from_the_others(lake):
    lake.write("raw.generations", "arc", rows(1.0))
    wider = rows(0.5, benchmark="mmlu").append_column("cost_usd", pa.array([0.01]))
    lake.write("raw.generations", "mmlu", wider)
    lake.write("raw.generations", "arc", rows(0.0))
    assert lake.read("raw.generations", "mmlu").to_pydict()["cost_usd"] == [0.01]


def test_only_files_that_nothing_names_are_removed(lake):
    def on_disk() -> set[str]:
        return {
            str(path) for path in Path(lake.uri("raw.generations")).rglob("*.parquet") if "_delta_log" not in str(path)
        }

    lake.write("raw.generations", "arc", rows(1.0))
    old = lake.paths("raw.generations")
    lake.write("raw.generations", "arc", rows(0.0))
    assert lake.remove_unreferenced("raw.generations") == 0, "within the retention"
    assert lake.remove_unreferenced("raw.generations", keep=old, retention_hours=0) == 0, "a published view names it"
    assert on_disk() == {*old, *lake.paths("raw.generations")}
    assert lake.remove_unreferenced("raw.generations", retention_hours=0) == 1
    assert on_disk() == set(lake.paths("raw.generations"))
    assert lake.read("raw.generations", "arc").to_pydict()["score"] == [0.0]


def test_the_version_does_not_depend_on_the_order_of_rows():
    table = rows(1.0, None, 0.5)
    assert content_version(table) == content_version(table.take([2, 0, 1]))


@pytest.mark.parametrize(
    "other",
    [rows(1.0, None, 0.25), rows(1.0, None), rows(1.0, 0.0, 0.5), rows(1.0, None, 0.5).rename_columns(["b", "i", "s"])],
    ids=["a value", "a row less", "zero for unknown", "column names"],
)
def test_the_version_changes_with_a_value_a_row_a_null_or_a_name(other):
    assert content_version(rows(1.0, None, 0.5)) != content_version(other)


def test_no_rows_have_one_version_however_they_come(tmp_path):
    """In a file without rows, in no file, in memory: one is looked into, the others are not."""
    nothing = rows()
    pq.write_table(nothing, tmp_path / "nothing.parquet")
    files = StoredRows(nothing.schema, (str(tmp_path / "nothing.parquet"),))
    assert content_version(files) == content_version(StoredRows(nothing.schema)) == content_version(nothing)


def test_clock_columns_do_not_count():
    table = rows(1.0)
    first = table.append_column("fit_seconds", pa.array([1.0]))
    second = table.append_column("fit_seconds", pa.array([2.0]))
    assert content_version(first, without=["fit_seconds"]) == content_version(second, without=["fit_seconds"])


@pytest.mark.parametrize("name", ["a/b c", "数学" * 60, "x" * 200, "..", "A B", "a b"])
def test_any_name_makes_a_folder_safe_key(name, lake):
    key = benchmark_key(name)
    assert key.isascii()
    assert "/" not in key
    assert len(key) <= 51
    lake.write("raw.generations", name, rows(1.0, benchmark=name))
    assert lake.read("raw.generations", name).to_pydict()["benchmark_id"] == [name]


@pytest.mark.parametrize("name", ["my results", "it's", "数据 ü", "100%", "a#b?c*d", "{x} & y;z"])
def test_a_workspace_may_lie_in_a_folder_of_almost_any_name(name, tmp_path):
    lake = Lake(tmp_path / name / "lake")
    lake.write("raw.generations", "arc", rows(1.0))
    lake.write("raw.generations", "arc", rows(0.5))
    assert lake.read("raw.generations", "arc").to_pydict()["score"] == [0.5]
    assert [Path(path).is_file() for path in lake.paths("raw.generations")] == [True]


@pytest.mark.parametrize("name", ["results [old]", "a|b", "a%20b"])
def test_a_folder_that_tables_cannot_be_kept_under_is_refused_by_name(name, tmp_path):
    with pytest.raises(LakeError, match=r"cannot be kept under a folder with .* in its name; name another one"):
        Lake(tmp_path / name / "lake")


def test_names_that_slug_alike_have_different_keys():
    assert benchmark_key("A B") != benchmark_key("a b")


def test_a_deleted_file_is_named_with_the_command_that_repairs_it(lake):
    lake.write("raw.generations", "arc", rows(1.0))
    Path(lake.paths("raw.generations", "arc")[0]).unlink()
    with pytest.raises(LakeError, match=r"raw\.generations.*capeval run --rebuild raw\.generations"):
        lake.read("raw.generations", "arc")


def test_a_truncated_file_is_named_too(lake):
    lake.write("raw.generations", "arc", rows(1.0))
    path = Path(lake.paths("raw.generations", "arc")[0])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(LakeError, match="cannot be read"):
        lake.read("raw.generations", "arc")


@pytest.mark.parametrize(
    ("key", "repair"),
    [
        ("estimates.strengths", r"delete .*/estimates/strengths, and `capeval run --rebuild estimates\.strengths`"),
        ("readings.items", r"delete .*/readings/items, and `capeval ingest --forget`"),
        ("readings.files", r"delete \S+/lake/readings and .*/lake/raw, then ingest all files again"),
    ],
)
def test_a_log_cut_short_is_named_with_what_repairs_it(lake, key, repair):
    lake.write(key, "arc", rows(1.0))
    [*_, last] = sorted((Path(lake.uri(key)) / "_delta_log").glob("*.json"))
    last.write_text(last.read_text()[:40])
    with pytest.raises(LakeError, match=rf"{key}: its log cannot be read .*\. So {repair}"):
        lake.read(key, "arc")
    shutil.rmtree(lake.uri(key))
    lake.write(key, "arc", rows(0.5))
    assert lake.read(key, "arc").to_pydict()["score"] == [0.5]


WRITER = """
import sys, pyarrow as pa
from capeval_pipeline.storage.lake import Lake
from tests.e2e.dies_at import die_at
die_at(sys.argv[1])
columns = {"benchmark_id": ["arc"] * 100, "item_id": [f"q{i}" for i in range(100)], "score": [1.0] * 100}
Lake(sys.argv[2]).write("raw.generations", "arc", pa.table(columns))
"""
COMMIT = "deltalake:DeltaTable.create_write_transaction"


@pytest.mark.parametrize("place", ["<pyarrow.parquet:write_table", "pyarrow.parquet:write_table", f"<{COMMIT}", COMMIT])
def test_a_writer_killed_around_a_commit_leaves_the_old_part_or_the_new_one(lake, place):
    lake.write("raw.generations", "arc", rows(*[0.0] * 100))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path])}
    done = subprocess.run([sys.executable, "-c", WRITER, place, lake.root], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert lake.read("raw.generations", "arc").to_pydict()["score"] == [float(place == COMMIT)] * 100


def others_write_before(n_commits: int, lake: Lake, monkeypatch) -> list[float]:
    """Another process replaces the same part just before each of the next commits; gives what it wrote, as it does."""
    original, written = DeltaTable.create_write_transaction, []

    def commit(opened: DeltaTable, *args, **kwargs):
        if len(written) < n_commits:
            written.append(0.5)
            with monkeypatch.context() as patch:
                patch.setattr(DeltaTable, "create_write_transaction", original)
                Lake(lake.root).write("raw.generations", "arc", rows(*written))
        return original(opened, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return written


def test_a_part_that_others_replaced_meanwhile_is_replaced_all_the_same(lake, monkeypatch):
    lake.write("raw.generations", "arc", rows(0.0))
    lake.write("raw.generations", "mmlu", rows(0.25, benchmark="mmlu"))
    written = others_write_before(3, lake, monkeypatch)
    lake.write("raw.generations", "arc", rows(1.0, 1.0))
    assert len(written) == 3
    assert sorted(lake.read("raw.generations").to_pydict()["score"]) == [0.25, 1.0, 1.0]


def test_a_writer_that_always_loses_says_so_and_changes_nothing(lake, monkeypatch):
    lake.write("raw.generations", "arc", rows(0.0))
    written = others_write_before(100, lake, monkeypatch)
    with pytest.raises(
        LakeError, match=r"raw\.generations: 8 writes of benchmark 'arc' lost against another run; run again"
    ):
        lake.write("raw.generations", "arc", rows(1.0, 1.0))
    assert lake.read("raw.generations").to_pydict()["score"] == written
