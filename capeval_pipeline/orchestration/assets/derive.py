"""Staging and intermediate tables: each SQL model is a step, run in memory over a benchmark's files in the lake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from capeval_pipeline.errors import CapevalError, LakeError, TableContractError
from capeval_pipeline.orchestration.stages import CLAIMS_CHECK, CheckOutcome, Part, StageAsset, StageResult
from capeval_pipeline.storage.sql_models import SqlModel, parameter_statements
from capeval_pipeline.storage.tables import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LAYERS = ("staging", "intermediate")


def derive_steps(models: Iterable[SqlModel]) -> list[StageAsset]:
    """A step for each model of the layers that are kept in the lake."""
    return [_step(model) for model in models if model.schema in LAYERS]


def _step(model: SqlModel) -> StageAsset:
    def body(part: Part, settings: BaseModel | None) -> StageResult:
        table, outcome = run_model(part, model, {} if settings is None else settings.model_dump())
        return StageResult(tables={model.key: table}, checks=[outcome])

    return StageAsset(
        name=model.key.replace(".", "_"),
        stage="derive",
        tables=(model.key,),
        inputs=tuple(model.references),
        body=body,
        code_version=model.code_version,
        description=f"{model.description}\n\n```sql\n{model.sql}\n```",
        kinds=frozenset({"duckdb", "deltalake", "sql"}),
        check_names={model.key: (CLAIMS_CHECK,)},
        sql_model=model,
    )


def run_model(part: Part, model: SqlModel, parameters: dict[str, Any]) -> tuple[pa.Table, CheckOutcome]:
    """Rows of a model for one benchmark, sorted by its grain, and whether its claims hold.

    Raises CapevalError if the SQL fails, TableContractError if two rows share a key.
    """
    import duckdb

    from capeval_pipeline.storage.conformity import check_grain, sort_by_grain
    from capeval_pipeline.storage.connections import memory_connection

    values = parameters | {"error_policy": part.workspace.settings.error_policy}
    with memory_connection(part.workspace.limits()) as connection:
        for key in model.references:
            _bring_in(connection, part, key)
        for statement in parameter_statements({name: values.get(name) for name in model.parameters}):
            connection.execute(statement)
        try:
            connection.execute(f"create schema if not exists {model.schema}")
            connection.execute(f"create table {model.key} as {model.sql}")
        except duckdb.Error as error:
            raise CapevalError(
                f"{model.key}: its SQL failed for benchmark {part.benchmark_id!r}: {str(error).splitlines()[0]}"
            ) from error
        table = connection.sql(f"select * from {model.key}").to_arrow_table()
        check_grain(model.key, table, model.grain)
        outcome = claims_outcome(connection, model)
    if not outcome.passed:
        raise TableContractError(outcome.description)
    return sort_by_grain(table, model.grain), outcome


def claims_outcome(connection: duckdb.DuckDBPyConnection, model: SqlModel) -> CheckOutcome:
    """What the claims of a model's .yml find in the table of that name: each is a query for the rows that break it."""
    from capeval_pipeline.storage.claims import claims_found

    passed, found = claims_found(connection, model.claims)
    return CheckOutcome(model.key, CLAIMS_CHECK, passed, found)


def _bring_in(connection: duckdb.DuckDBPyConnection, part: Part, key: str) -> None:
    """A referenced table of the benchmark: a view over its files, or an empty table of its schema."""
    from capeval_pipeline.storage.lake import parquet_scan

    schema, name = key.split(".", 1)
    connection.execute(f"create schema if not exists {schema}")
    import duckdb

    lake = part.workspace.lake
    paths = lake.paths(key, part.benchmark_id)
    if paths:
        rows = part.stored(key).relation() if key in TABLES else f"({parquet_scan(paths)})"
        try:
            connection.execute(f"create view {schema}.{name} as select * from {rows}")
        except duckdb.Error as error:
            raise LakeError(
                f"{key}: a file of benchmark {part.benchmark_id!r} cannot be read ({str(error).splitlines()[0]}); "
                f"expected a whole Parquet file. {lake.repair(key)}"
            ) from error
        return
    connection.register(f"{schema}_{name}_empty", part.arrow(key))
    connection.execute(f"create table {schema}.{name} as select * from {schema}_{name}_empty")
