"""The version of a table's content: the same rows have the same one, whoever wrote them, in whatever order."""

import hashlib
import json
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from capeval_pipeline.storage.connections import quoted, scratch_connection, text_literal
from capeval_pipeline.storage.stored_rows import STREAMED, StoredRows


def content_version(table: pa.Table | StoredRows, *, without: Sequence[str] = ()) -> str:
    """Hash of a table's rows in any order, their number, and its schema; the columns in `without` do not count.

    The sum of 60 bits of each row's MD5: adding is order-free, so files and rows may come in any order. A column with
    one value in all rows (an unknown, the benchmark, the file) is hashed once and not once a row.
    """
    fields = [field for field in table.schema if field.name not in without]
    schema = ",".join(f"{field.name}:{type_name(field.type)}" for field in fields)
    if _has_no_rows(table):  # as of the query below, without the query: of three hundred benchmarks it is thousands
        return _version(schema, 0, json.dumps(dict.fromkeys((field.name for field in fields), "null")), 0)
    with scratch_connection(STREAMED) as connection:
        if isinstance(table, StoredRows):
            relation = table.relation()
        else:
            connection.register("counted", table)
            relation = "counted"
        n_rows, constants, varying = _told_apart(connection, relation, [field.name for field in fields])
        total = 0
        if varying:
            row = ", ".join(f"{text_literal(name)}: {quoted(name)}" for name in varying)
            found = connection.execute(
                f"select coalesce(sum((md5_number(to_json({{{row}}})::varchar) >> 68)::hugeint), 0) from {relation}"
            ).fetchall()
            total = int(found[0][0])
    return _version(schema, n_rows, constants, total)


def _version(schema: str, n_rows: int, constants: str, total: int) -> str:
    return hashlib.sha256(f"{schema}|{n_rows}|{constants}|{total}".encode()).hexdigest()[:24]


def _has_no_rows(table: pa.Table | StoredRows) -> bool:
    return not (table.paths if isinstance(table, StoredRows) else table.num_rows)


def _told_apart(
    connection: duckdb.DuckDBPyConnection, relation: str, names: Sequence[str]
) -> tuple[int, str, list[str]]:
    """Number of rows, the columns with one value in all rows with it (JSON), and the other columns."""
    columns = [
        f"case when count({name}) = 0 then 'null' when count({name}) = count(*) and min({name}) = max({name}) "
        f"then to_json(min({name}))::varchar end"
        for name in map(quoted, names)
    ]
    row = connection.execute(f"select {', '.join(['count(*)', *columns])} from {relation}").fetchall()[0]
    constants = {name: value for name, value in zip(names, row[1:], strict=True) if value is not None}
    return int(row[0]), json.dumps(constants), [name for name in names if name not in constants]


def type_name(type_: pa.DataType) -> str:
    """A type's name without the name of a list's element, which differs between writers and means nothing."""
    return f"list<{type_name(type_.value_type)}>" if pa.types.is_list(type_) else str(type_)
