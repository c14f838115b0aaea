"""The gate in front of the lake: a frame becomes the table its contract describes, or is refused in one sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import TableContractError
from capeval_pipeline.storage.connections import quoted, scratch_connection
from capeval_pipeline.storage.stored_rows import STREAMED, StoredRows, find_repeated
from capeval_pipeline.storage.tables.contract import Table


def conform(table: Table, frame: pd.DataFrame | pa.Table, benchmark_id: str | None) -> pa.Table:
    """Columns in the contract's order and types, NaN as NULL, rows sorted by grain, benchmark_id filled in.

    Raises TableContractError naming the table and the first column or key at fault: a column missing or unknown, a
    value that does not fit the type, a NULL where none may be, two rows of one key.
    """
    given = _arrow(frame)
    if table.is_partitioned and "benchmark_id" not in given.column_names:
        given = given.append_column("benchmark_id", pa.array([benchmark_id] * given.num_rows, pa.string()))
    missing = [name for name in table.column_names if name not in given.column_names]
    unknown = [name for name in given.column_names if name not in table.column_names]
    if missing or unknown:
        raise TableContractError(
            f"{table.key}: "
            + (f"column {missing[0]!r} is missing" if missing else f"column {unknown[0]!r} is not in the contract")
            + f"; expected {', '.join(table.column_names)}"
        )
    columns = [_cast(table.key, given.column(column.name), column.name, column.type) for column in table.columns]
    conformed = pa.table(columns, schema=pa.schema([pa.field(c.name, c.type) for c in table.columns]))
    for column in table.columns:
        if not column.nullable and conformed.column(column.name).null_count:
            n_missing = conformed.column(column.name).null_count
            raise TableContractError(
                f"{table.key}: no {column.name} in {counted(n_missing, 'row')}; expected one in every row"
            )
    check_grain(table.key, conformed, table.grain)
    return sort_by_grain(conformed, table.grain)


def conform_stored(table: Table, rows: StoredRows) -> StoredRows:
    """The same rows, if they are what the contract describes; whoever wrote them has sorted them.

    Raises TableContractError as `conform` does. Keys are compared by hashes in runs, so nothing large is held.
    """
    expected = pa.schema([pa.field(column.name, column.type) for column in table.columns])
    if not rows.schema.equals(expected):
        raise TableContractError(f"{table.key}: has columns {rows.schema.names}; expected {expected.names} in order")
    if not rows.paths:
        return rows
    relation = rows.relation()
    required = [column.name for column in table.columns if not column.nullable]
    with scratch_connection(STREAMED) as connection:
        counts = ", ".join(f"count(*) - count({quoted(name)})" for name in required)
        found = connection.execute(f"select {counts} from {relation}").fetchall()[0] if required else ()
        for name, n_missing in zip(required, found, strict=True):
            if n_missing:
                raise TableContractError(
                    f"{table.key}: no {name} in {counted(n_missing, 'row')}; expected one in every row"
                )
        if table.grain and find_repeated(connection, relation, [quoted(name) for name in table.grain], "repeated"):
            first = dict(zip(table.grain, connection.execute("from repeated limit 1").fetchall()[0], strict=True))
            named = ", ".join(f"{name}={value!r}" for name, value in first.items())
            raise TableContractError(f"{table.key}: several rows for {named}; expected 1")
    return rows


def check_grain(key: str, table: pa.Table, grain: Sequence[str]) -> None:
    """Raise TableContractError naming the first key that two rows share."""
    if not grain or table.num_rows < 2:
        return
    counted = table.select(list(grain)).group_by(list(grain), use_threads=False).aggregate([([], "count_all")])
    if counted.num_rows == table.num_rows:
        return
    first = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).to_pylist()[0]
    named = ", ".join(f"{name}={first[name]!r}" for name in grain)
    raise TableContractError(f"{key}: {first['count_all']} rows for {named}; expected 1")


def sort_by_grain(table: pa.Table, grain: Sequence[str]) -> pa.Table:
    """Rows in the order of their keys, so that the same rows are the same bytes."""
    sortable = [name for name in grain if not pa.types.is_list(table.schema.field(name).type)]
    if not sortable or table.num_rows < 2:
        return table.combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in sortable])
    if bool(pc.all(pc.equal(order, pa.array(np.arange(table.num_rows, dtype=np.uint64))))):
        return table  # no copy where SQL has sorted already
    return table.take(order).combine_chunks()


def empty(table: Table) -> pa.Table:
    """The table without rows."""
    return pa.schema([pa.field(column.name, column.type) for column in table.columns]).empty_table()


def _arrow(frame: pd.DataFrame | pa.Table) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    arrays: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name]
        values = column.to_numpy(dtype=object) if column.dtype == object else column
        if column.dtype == object:
            values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
            arrays[str(name)] = pa.array(values, from_pandas=True)
        else:
            arrays[str(name)] = pa.Array.from_pandas(values)
    return pa.table(arrays) if arrays else pa.table({})


def _cast(key: str, column: pa.ChunkedArray, name: str, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), type_)])
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TableContractError(f"{key}: column {name!r} holds {column.type}; expected {type_}: {error}") from error
