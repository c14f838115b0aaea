"""Parts that another release wrote under another contract: read where nothing can be misread, else refused.

A column that did not exist then is NULL if it may be; one that is no more is passed over. Where a column has another
type, or one that every row needs is missing, nobody can say what the rows mean now: they have to be made again.
"""

from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.errors import LakeError, one_sentence
from capeval_pipeline.storage.connections import quoted
from capeval_pipeline.storage.stored_rows import sql_type
from capeval_pipeline.storage.tables.contract import Table


def as_declared(table: Table, rows: pa.Table, folder: str) -> pa.Table:
    """Rows of the lake in the columns of the table's contract; it lies in `folder`. Raises LakeError."""
    check_columns(table, rows.schema, folder)
    if rows.column_names == list(table.column_names):
        return rows
    columns = [
        rows.column(column.name) if column.name in rows.column_names else pa.nulls(rows.num_rows, column.type)
        for column in table.columns
    ]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def check_files(table: Table, paths: Sequence[str], folder: str) -> None:
    """Raises LakeError unless the files, which are local, can be read under the table's contract."""
    for path in paths:
        if "://" not in path:
            try:
                found = pq.read_schema(path)
            except (OSError, pa.ArrowException) as error:
                again = AGAIN if table.schema == "readings" else f"`capeval run --rebuild {table.key}` makes it again"
                raise LakeError(f"{table.key}: {path} cannot be read ({one_sentence(error)}); {again}") from error
            check_columns(table, found, folder)


def check_columns(table: Table, found: pa.Schema, folder: str) -> None:
    """Raises LakeError unless rows of these columns can be read under the table's contract."""
    for column in table.columns:
        if column.name not in found.names:
            if not column.nullable:
                raise LakeError(_refusal(table, column.name, "missing", str(column.type), folder))
        elif not _same(found.field(column.name).type, column.type):
            raise LakeError(_refusal(table, column.name, str(found.field(column.name).type), str(column.type), folder))


def complete(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table], folder_of: Callable[[str], str]) -> None:
    """Give relations of a database the columns of their contracts that they lack, NULL. Raises LakeError."""
    found: dict[str, dict[str, str]] = {}
    query = "select schema_name || '.' || table_name, column_name, data_type from duckdb_columns() where not internal"
    for key, name, type_ in connection.execute(query).fetchall():
        found.setdefault(key, {})[name] = type_
    for table in tables:
        columns = found.get(table.key, {})
        for column in table.columns:
            expected = DUCKDB_NAMES.get(sql_type(column.type), sql_type(column.type).upper())
            if column.name in columns and columns[column.name] != expected:
                raise LakeError(_refusal(table, column.name, columns[column.name], expected, folder_of(table.key)))
            if column.name not in columns and not column.nullable:
                raise LakeError(_refusal(table, column.name, "missing", expected, folder_of(table.key)))
        if columns and set(columns) < {*table.column_names}:
            _add(connection, table, columns)


DUCKDB_NAMES = {"timestamptz": "TIMESTAMP WITH TIME ZONE"}


def _add(connection: duckdb.DuckDBPyConnection, table: Table, columns: dict[str, str]) -> None:
    key = f"{quoted(table.schema)}.{quoted(table.name)}"
    missing = [column for column in table.columns if column.name not in columns]
    [(kind, sql)] = connection.execute(
        "select 'view', sql from duckdb_views() where schema_name = $1 and view_name = $2 "
        "union all select 'table', '' from duckdb_tables() where schema_name = $1 and table_name = $2",
        [table.schema, table.name],
    ).fetchall()
    if kind == "table":
        for column in missing:
            connection.execute(f"alter table {key} add column {quoted(column.name)} {sql_type(column.type)}")
        return
    select = sql[sql.upper().index(" AS ") + 4 :].rstrip().rstrip(";")
    nulls = ", ".join(f"null::{sql_type(column.type)} as {quoted(column.name)}" for column in missing)
    connection.execute(f"create or replace view {key} as select *, {nulls} from ({select})")


def _same(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_list(found) and pa.types.is_list(expected):
        return bool(found.value_type == expected.value_type)
    return bool(found == expected) or (pa.types.is_large_string(found) and pa.types.is_string(expected))


def _refusal(table: Table, name: str, found: str, expected: str, folder: str) -> str:
    repair = f"delete {folder}, and `capeval run --rebuild {table.key}` makes it again"
    if table.schema == "readings":
        repair = AGAIN
    return f"{table.key}: another release wrote it, column {name!r} is {found}; expected {expected}. So {repair}"


AGAIN = "`capeval ingest --forget` takes the benchmark's files out, then ingest them again"
"""Readings are made of files alone."""
