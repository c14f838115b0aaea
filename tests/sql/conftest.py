"""Rows in, rows out: every table in memory, empty until a test fills it, and the SQL models run over them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from capeval_pipeline.storage.sql_models import SqlProject, load_project, parameter_statements
from capeval_pipeline.storage.tables import TABLES

Rows = Sequence[Mapping[str, Any]]

DEFAULTS: dict[str, Any] = {
    "benchmark_id": "B",
    "name": "B",
    "score_low": 0.0,
    "score_high": 1.0,
    "higher_is_better": True,
    "status": "ok",
    "generation_id": 0,
    "cost_source": "unknown",
    "file_id": "file",
    "draw": 0,
    "split": "train",
}
"""What a column holds in a row that does not mention it; every other column is NULL."""


class MemoryTables:
    """All tables of the contract and all SQL models, empty, in one connection."""

    def __init__(self, project: SqlProject) -> None:
        self.project = project
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("set timezone = 'UTC'")
        for layer in sorted({key.split(".")[0] for key in (*TABLES, *project.models)}):
            self.connection.execute(f"create schema {layer}")
        for table in TABLES.values():
            nullable = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
            self._create(table.key, nullable.empty_table())
        for model in project.models.values():
            self.connection.execute(f"create table {model.key} as {model.sql}")

    def _create(self, key: str, table: pa.Table) -> None:
        self.connection.register("given", table)
        self.connection.execute(f"create table {key} as select * from given")
        self.connection.unregister("given")

    def fill(self, key: str, rows: Rows) -> None:
        """Add rows; columns left out take DEFAULTS, else NULL."""
        described = self.connection.sql(f"select * from {key} limit 0").to_arrow_table().schema
        for row in rows:
            assert set(row) <= set(described.names), f"{key} has no column {set(row) - set(described.names)}"
        columns = {
            field.name: pa.array([row.get(field.name, DEFAULTS.get(field.name)) for row in rows], field.type)
            for field in described
        }
        self.connection.register("given", pa.table(columns))
        self.connection.execute(f"insert into {key} select * from given")
        self.connection.unregister("given")

    def begin(self) -> None:
        self.connection.execute("begin")

    def undo(self) -> None:
        """Empty as at first: making some sixty tables anew takes longer than a test does."""
        self.connection.execute("rollback")
        for parameter in {name for model in self.project.models.values() for name in model.parameters}:
            self.connection.execute(f"reset variable {parameter}")

    def set(self, **parameters: object) -> None:
        for statement in parameter_statements(parameters):
            self.connection.execute(statement)

    def run(self, key: str) -> list[dict[str, Any]]:
        """Rows of the model over what is filled in, by grain; also kept as the table of that name."""
        model = self.project.models[key]
        self.connection.execute(f"create or replace table {key} as {model.sql}")
        return self.rows(f"select * from {key} order by {', '.join(model.grain)}")

    def run_all(self, *keys: str) -> list[dict[str, Any]]:
        """Run several models in that order; rows of the last."""
        return [self.run(key) for key in keys][-1]

    def rows(self, query: str) -> list[dict[str, Any]]:
        return self.connection.sql(query).to_arrow_table().to_pylist()

    def broken_claims(self, key: str) -> list[str]:
        """Names of the model's claims that return rows."""
        return [claim.name for claim in self.project.models[key].claims if self.rows(claim.sql)]

    def broken_assertion(self, name: str) -> list[dict[str, Any]]:
        claim = next(claim for claim in self.project.assertions if claim.name == name)
        return self.rows(claim.sql)


@pytest.fixture(scope="session")
def sql_project() -> SqlProject:
    return load_project()


@pytest.fixture(scope="session")
def all_tables(sql_project: SqlProject) -> Iterator[MemoryTables]:
    memory = MemoryTables(sql_project)
    yield memory
    memory.connection.close()


@pytest.fixture
def tables(all_tables: MemoryTables) -> Iterator[MemoryTables]:
    all_tables.begin()
    yield all_tables
    all_tables.undo()


@pytest.fixture
def pick() -> Callable[..., list[Any]]:
    """pick(rows, "a", "b") → the values of these columns as tuples (of one column, as they are)."""

    def values(rows: Rows, *names: str) -> list[Any]:
        return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in rows]

    return values
