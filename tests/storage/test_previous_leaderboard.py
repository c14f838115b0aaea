"""Ranks before the strengths last changed, carried from one published database to the next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from capeval_pipeline.storage.tables import TABLES
from capeval_pipeline.storage.warehouse import previous_leaderboard

KEPT = TABLES["meta.previous_leaderboard"]
Ranks = Mapping[str, int]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "capeval.duckdb"


def publish(database: Path, ranks: Mapping[str, tuple[str, Ranks]], kept: pa.Table | None = None) -> None:
    """A database with leaderboards: benchmark → (version of its strengths, model → rank); and what it kept itself."""
    database.unlink(missing_ok=True)
    with duckdb.connect(str(database)) as connection:
        connection.execute("create schema meta")
        connection.execute("create schema marts")
        connection.register("kept", kept if kept is not None else KEPT.arrow_schema.empty_table())
        connection.execute("create table meta.previous_leaderboard as select * from kept")
        connection.execute(
            'create table meta.data_versions (benchmark_id varchar, "schema" varchar, "table" varchar, '
            "data_version varchar)"
        )
        connection.execute(
            "create table marts.leaderboard (benchmark_id varchar, model_id varchar, rank bigint, rank_lower bigint, "
            "rank_upper bigint, mean_score double)"
        )
        for name, (version, models) in ranks.items():
            connection.execute(
                "insert into meta.data_versions values (?, 'estimates', 'strengths', ?)", [name, version]
            )
            for model, rank in models.items():
                row = [name, model, rank, rank, rank, 1 / rank]
                connection.execute("insert into marts.leaderboard values (?, ?, ?, ?, ?, ?)", row)


def test_of_a_damaged_database_no_ranks_are_carried_on(database):
    database.write_bytes(b"no database at all" * 1000)
    assert previous_leaderboard(database, {"arc": "v1"}).num_rows == 0


def ranks_of(table: pa.Table) -> dict[str, tuple[str, dict[str, int]]]:
    found: dict[str, tuple[str, dict[str, int]]] = {}
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        found.setdefault(row["benchmark_id"], (row["data_version"], {}))[1][row["model_id"]] = row["rank"]
    return found


def test_before_the_first_publish_there_is_nothing_before(database):
    assert previous_leaderboard(database, {"arc": "v1"}).num_rows == 0


def test_ranks_become_the_previous_ones_when_the_strengths_change_and_stay_so_until_they_change_again(database):
    publish(database, {"arc": ("v1", {"a": 1, "b": 2})})
    second = previous_leaderboard(database, {"arc": "v2"})
    assert ranks_of(second) == {"arc": ("v1", {"a": 1, "b": 2})}

    publish(database, {"arc": ("v2", {"b": 1, "a": 2})}, second)
    same = previous_leaderboard(database, {"arc": "v2"})  # something else of it changed: what was before stays before
    assert ranks_of(same) == {"arc": ("v1", {"a": 1, "b": 2})}
    assert ranks_of(previous_leaderboard(database, {"arc": "v3"})) == {"arc": ("v2", {"b": 1, "a": 2})}


def test_a_benchmark_that_did_not_change_keeps_its_own_previous_ranks(database):
    kept = pa.Table.from_pylist(
        [{"benchmark_id": "desk", "data_version": "d0", "model_id": "x", "rank": 2}], KEPT.arrow_schema
    )
    publish(database, {"arc": ("v1", {"a": 1}), "desk": ("d1", {"x": 1})}, kept)
    found = ranks_of(previous_leaderboard(database, {"arc": "v2", "desk": "d1"}))
    assert found == {"arc": ("v1", {"a": 1}), "desk": ("d0", {"x": 2})}
