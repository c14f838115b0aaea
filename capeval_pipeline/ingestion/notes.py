"""What is told about the records of one file while it is read: kept in Parquet files, for there may be millions."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.formats.protocol import Note, rejection_rows
from capeval_pipeline.ingestion.numbering import DUPLICATE, REJECTED, Records
from capeval_pipeline.storage.stored_rows import StoredRows, copied, find_repeated

NOTE_ROWS = pa.schema(
    [
        ("record", pa.int64()),
        ("severity", pa.string()),
        ("location", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
    ]
)


class Notes:
    """Rejections, repetitions and warnings in the order they are told; records they speak of are marked."""

    def __init__(self, folder: Path, records: Records) -> None:
        self._folder, self._records = folder, records
        self._writer: pq.ParquetWriter | None = None
        self._paths: list[str] = []

    def add(self, notes: Sequence[Note]) -> None:
        """Add notes one has at hand."""
        if notes:
            self.add_table(rejection_rows(notes))

    def add_table(self, rows: pa.Table) -> None:
        """Add notes in the columns of a chunk's rejections."""
        rows = rows.select(NOTE_ROWS.names).cast(NOTE_ROWS)
        if not rows.num_rows:
            return
        if self._writer is None:
            path = self._folder / "notes.parquet"
            self._writer = pq.ParquetWriter(path, NOTE_ROWS, compression="zstd", compression_level=1)
            self._paths.insert(0, str(path))
        self._writer.write_table(rows)
        severity = rows.column("severity").to_numpy()
        told = rows.column("record").is_valid().to_numpy()
        for word, flag in (("rejected", REJECTED), ("duplicate", DUPLICATE)):
            chosen = told & (severity == word)
            self._records.mark(np.asarray(rows.column("record").fill_null(0).to_numpy()[chosen], np.int64), flag)

    def add_query(self, connection: duckdb.DuckDBPyConnection, sql: str) -> np.ndarray:
        """Add the notes a query gives; returns the records they speak of, which are not marked."""
        rows = copied(connection, sql, NOTE_ROWS, self._folder / f"notes{len(self._paths)}-found.parquet")
        self._paths += rows.paths
        found = connection.sql(f"select record from {rows.relation()} where record is not null").fetchnumpy()
        return np.asarray(found["record"], np.int64)

    def close(self) -> StoredRows:
        """End writing; all notes, first told first."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return StoredRows(NOTE_ROWS, tuple(self._paths))


def one_a_place(connection: duckdb.DuckDBPyConnection, relation: str, place: str) -> str:
    """SQL of notes with one row for each `place` (columns that name a place and reason): the first of its messages.

    relation : columns of `place`, severity, message, and `number`, which orders what is told of one place. Further
    ones are counted in the message. Nearly all places are told of once, so those that are not are found first.
    """
    columns = place.split(", ")
    if not find_repeated(connection, relation, columns, "told_often"):
        return f"select {place}, severity, message from {relation}"
    named = "(" + ", ".join(f"notes.{column}" for column in columns) + ")"
    often = f"{named} in (select ({place}) from told_often)"
    return f"""select {place}, severity, message from {relation} as notes where not {often}
        union all by name
        select
            {place}, arg_min(severity, number) as severity,
            left(arg_min(message, number), 270) || ' (and ' || (count(*) - 1) || ' more)' as message
        from {relation} as notes where {often} group by {place}"""
