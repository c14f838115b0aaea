"""A benchmark's tables as Parquet: its rows and no other's, whole or not at all."""

from pathlib import Path

import duckdb
import pytest

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.storage.export import export_benchmark


@pytest.fixture
def connection():
    with duckdb.connect() as found:
        found.execute("create schema marts; create schema raw; create schema studies")
        found.execute(
            "create table marts.toy as select * from (values ('a', 1.5), ('a', null), ('b', 2.0)) t(benchmark_id, x)"
        )
        found.execute("create view raw.seen as select * from (values ('b', 'é')) t(benchmark_id, name)")
        found.execute("create table studies.world as select 1 as n")
        yield found


def test_rows_of_the_benchmark_come_out_as_they_are(connection, tmp_path):
    found = export_benchmark(connection, "a", tmp_path / "out")
    assert [(entry.table, entry.n_rows) for entry in found] == [("marts.toy", 2)]
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {
        "out/marts/toy.parquet"
    }
    assert connection.execute(f"select x from '{found[0].path}' order by x").fetchall() == [(1.5,), (None,)]


def test_views_are_exported_too(connection, tmp_path):
    export_benchmark(connection, "b", tmp_path / "out")
    assert connection.execute(f"select name from '{tmp_path}/out/raw/seen.parquet'").fetchall() == [("é",)]


def test_a_folder_with_something_in_it_is_refused_and_left_alone(connection, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(CapevalError, match="expected a new folder"):
        export_benchmark(connection, "a", tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "notes.txt"]


def test_a_table_that_cannot_be_read_leaves_nothing_behind(connection, tmp_path):
    connection.execute("create view raw.torn as select 'a' as benchmark_id, error('torn') as x")
    with pytest.raises(CapevalError, match="torn"):
        export_benchmark(connection, "a", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_one_stands_in_is_a_folder_too(connection, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found = export_benchmark(connection, "a", Path("."))
    assert [entry.path for entry in found] == [tmp_path / "here" / "marts" / "toy.parquet"]
    assert found[0].path.is_file()
