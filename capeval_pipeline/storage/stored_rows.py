"""Rows of one table in Parquet files, for what is too big to be held: read, counted, hashed and compared by DuckDB.

A step may give such rows back instead of an Arrow table; the lake takes the files over as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.storage.connections import ComputeLimits, quoted, scratch_connection, text_literal

HASHES_AT_ONCE = 32_000_000
"""Rows whose keys' hashes are held at once (8 bytes a row) while repeated keys are looked for."""

BATCH_ROWS = 65_536
if TYPE_CHECKING:
    import duckdb

STREAMED = ComputeLimits("300MB", 2)
"""What reading rows through needs."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of the columns in `schema`, in the order of the files; columns that no file has are NULL."""

    schema: pa.Schema
    paths: tuple[str, ...] = ()

    def relation(self) -> str:
        """SQL of a relation with exactly these columns, in brackets."""
        listed = ", ".join(text_literal(path) for path in self.paths)
        if not self.paths:
            columns = ", ".join(f"null::{sql_type(field.type)} as {quoted(field.name)}" for field in self.schema)
            return f"(select {columns} where false)"
        present = self._present()
        columns = ", ".join(
            quoted(field.name) if field.name in present else f"null::{sql_type(field.type)} as {quoted(field.name)}"
            for field in self.schema
        )
        return (
            f"(select {columns} from read_parquet([{listed}], hive_partitioning = false"
            f"{', union_by_name = true' if len(self.paths) > 1 else ''}))"
        )

    def _present(self) -> set[str]:
        if all("://" not in path for path in self.paths):
            return {name for path in self.paths for name in pq.read_schema(path).names}
        listed = ", ".join(text_literal(path) for path in self.paths)
        with scratch_connection() as connection:
            found = connection.execute(f"select distinct name from parquet_schema([{listed}])").fetchall()
        return {name for (name,) in found}

    @property
    def num_rows(self) -> int:
        """Number of rows, from the files' footers."""
        if all("://" not in path for path in self.paths):
            return sum(pq.read_metadata(path).num_rows for path in self.paths)
        with scratch_connection() as connection:
            return int(connection.execute(f"select count(*) from {self.relation()}").fetchall()[0][0])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order, BATCH_ROWS at a time."""
        with scratch_connection(ComputeLimits(STREAMED.memory_limit, 1)) as connection:
            for batch in connection.sql(f"select * from {self.relation()}").to_arrow_reader(BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [batch.column(field.name).cast(field.type) for field in self.schema], schema=self.schema
                )

    def table(self) -> pa.Table:
        """All rows as one Arrow table."""
        if any("://" in path for path in self.paths):
            return pa.Table.from_batches(self.batches(), self.schema)
        return pa.concat_tables([self.schema.empty_table(), *(self._read(path) for path in self.paths)])

    def _read(self, path: str) -> pa.Table:
        found = pq.ParquetFile(path).read()
        columns = [
            found.column(field.name).cast(field.type)
            if field.name in found.column_names
            else pa.nulls(found.num_rows, field.type)
            for field in self.schema
        ]
        return pa.table(columns, schema=self.schema)


def as_table(rows: pa.Table | StoredRows) -> pa.Table:
    """Rows as an Arrow table, wherever they are."""
    return rows.table() if isinstance(rows, StoredRows) else rows


def stored(table: pa.Table, path: Path) -> StoredRows:
    """An Arrow table written to a Parquet file; without rows there is no file."""
    if not table.num_rows:
        return StoredRows(table.schema)
    pq.write_table(table, path, compression="zstd", compression_level=1)
    return StoredRows(table.schema, (str(path),))


def copied(connection: duckdb.DuckDBPyConnection, sql: str, schema: pa.Schema, path: Path) -> StoredRows:
    """The result of a query in a Parquet file, in the query's order; without rows there is no file."""
    columns = ", ".join(f"{quoted(field.name)}::{sql_type(field.type)} as {quoted(field.name)}" for field in schema)
    written = connection.execute(
        f"copy (select {columns} from ({sql})) to {text_literal(str(path))} "
        "(format parquet, compression zstd, compression_level 1)"
    ).fetchall()[0][0]
    if not written:
        path.unlink(missing_ok=True)
        return StoredRows(schema)
    return StoredRows(schema, (str(path),))


def sql_type(type_: pa.DataType) -> str:
    """DuckDB's name of an Arrow type that tables here may have. Raises ValueError for any other."""
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    names = {
        pa.string(): "varchar", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean",
        pa.timestamp("us", "UTC"): "timestamptz",
    }  # fmt: skip
    if type_ not in names:
        raise ValueError(f"no table here has a column of {type_}")
    return names[type_]


def find_repeated(connection: duckdb.DuckDBPyConnection, relation: str, key: Sequence[str], name: str) -> int:
    """Make table `name` with the keys that more than one row of a relation has; returns how many there are.

    Keys are compared as 64-bit hashes, sorted, 8 bytes a row; only rows whose hash is there twice are compared as
    they are. NULL equals NULL, as in a grain.
    """
    columns = ", ".join(key)
    hashes = _repeated_hashes(connection, relation, columns)
    connection.register(f"{name}_hashes", pa.table({"key_hash": pa.array(hashes, pa.uint64())}))
    connection.execute(
        f"""create or replace table {name} as
        select {columns} from {relation} where hash({columns}) in (from {name}_hashes)
        group by all having count(*) > 1"""
        if len(hashes)
        else f"create or replace table {name} as select {columns} from {relation} limit 0"
    )
    connection.unregister(f"{name}_hashes")
    return int(connection.execute(f"select count(*) from {name}").fetchall()[0][0])


def _repeated_hashes(connection: duckdb.DuckDBPyConnection, relation: str, columns: str) -> np.ndarray:
    """Hashes of keys that more than one row has, each once."""
    runs = _sorted_hashes(connection, relation, columns)
    found = [np.unique(hashes[1:][hashes[1:] == hashes[:-1]]) for hashes in runs]
    return np.concatenate([np.empty(0, np.uint64), *found])


def count_different(connection: duckdb.DuckDBPyConnection, relation: str, key: Sequence[str]) -> int:
    """Number of different keys of a relation, by their 64-bit hashes: one in 10^5 counts of 10 million is one short."""
    runs = _sorted_hashes(connection, relation, ", ".join(key))
    return sum(int(np.count_nonzero(hashes[1:] != hashes[:-1])) + 1 for hashes in runs if len(hashes))


def _sorted_hashes(connection: duckdb.DuckDBPyConnection, relation: str, columns: str) -> Iterator[np.ndarray]:
    """Hashes of the keys of all rows in sorted runs; equal ones are in one run."""
    n_rows = int(connection.execute(f"select count(*) from {relation}").fetchall()[0][0])
    n_parts = -(-n_rows // HASHES_AT_ONCE)
    for part in range(n_parts):
        share = f"where key_hash % {n_parts} = {part}" if n_parts > 1 else ""
        hashes = np.empty(n_rows if n_parts == 1 else 2 * n_rows // n_parts + 1024, np.uint64)
        n_hashes = 0
        reader = connection.sql(
            f"select key_hash from (select hash({columns}) as key_hash from {relation}) {share}"
        ).to_arrow_reader(BATCH_ROWS)
        for batch in reader:
            if n_hashes + batch.num_rows > len(hashes):  # many rows of few keys
                hashes = np.concatenate([hashes, np.empty(len(hashes) + batch.num_rows, np.uint64)])
            hashes[n_hashes : n_hashes + batch.num_rows] = batch.column(0).to_numpy()
            n_hashes += batch.num_rows
        hashes = hashes[:n_hashes]
        hashes.sort()
        yield hashes
