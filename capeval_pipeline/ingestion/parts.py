"""What one file says of one benchmark, while it is read: rows in temporary Parquet, items and models numbered.

Nothing here grows with the file but a few bytes a record and an item.
"""

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.formats.cells import encoded, plain
from capeval_pipeline.formats.protocol import Chunk, Note
from capeval_pipeline.ingestion.discovery import Unit
from capeval_pipeline.ingestion.identity import model_id_of
from capeval_pipeline.ingestion.items_of_file import ItemsOfFile
from capeval_pipeline.ingestion.notes import Notes, one_a_place
from capeval_pipeline.ingestion.numbering import DUPLICATE, HAS_METRIC, HAS_VERDICT, Records
from capeval_pipeline.ingestion.repetitions import KEYS, RowsOfFile, number_draws, repeated_records, settle_rows
from capeval_pipeline.storage.connections import ComputeLimits, scratch_connection, text_literal
from capeval_pipeline.storage.stored_rows import copied
from capeval_pipeline.storage.tables.contract import Table
from capeval_pipeline.storage.tables.readings import (
    READ_FILES,
    READ_GENERATIONS,
    READ_ITEMS,
    READ_JUDGMENTS,
    READ_METRIC_VALUES,
    READ_MODELS,
    READ_REJECTIONS,
)

PART_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        READ_FILES, READ_ITEMS, READ_MODELS, READ_GENERATIONS, READ_JUDGMENTS, READ_METRIC_VALUES, READ_REJECTIONS,
    )
}  # fmt: skip
MEMORY_LIMIT = "300MB"


def reading_schema(name: str) -> pa.Schema:
    """Columns of a readings table; any may be NULL while it is made."""
    return pa.schema([pa.field(column.name, column.type) for column in PART_TABLES[name].columns])


class Part:
    """Rows of one file for one benchmark: add chunks, end, settle, finish; the folder then holds the readings."""

    def __init__(
        self,
        benchmark_id: str,
        folder: Path,
        file_id: str,
        unit: Unit,
        model_settings: Mapping[str, Mapping[str, Any]],
        canonical_names: Mapping[str, str],
    ) -> None:
        self.benchmark_id, self.folder, self.file_id, self.unit = benchmark_id, folder, file_id, unit
        self.model_settings, self.canonical_names = model_settings, canonical_names
        folder.mkdir(parents=True, exist_ok=True)
        # one folder for all units of a batch, for which one database is then opened
        self._limits = ComputeLimits(MEMORY_LIMIT, 2, folder.parents[1] / "spill")
        self.n_kept = self.n_rejected = self.n_duplicate = 0
        self.records = Records()
        self._notes = Notes(folder, self.records)
        self._items = ItemsOfFile(folder, benchmark_id, file_id)
        self._model_numbers: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        # rows are compressed and written while the next ones are read; one chunk waits at most
        self._background = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None

    # -- adding ---------------------------------------------------------------------------------------------------

    def add(self, chunk: Chunk) -> None:
        """Number the rows of a chunk and write them."""
        if chunk.items.num_rows:
            self._items.add(chunk.items)
        for name in ("generations", "metric_values"):
            rows: pa.Table = getattr(chunk, name)
            if rows.num_rows:
                added = {
                    "item_number": self._items.numbers_of(rows),
                    "model_number": self._models_of(rows.column("model")),
                }
                self._write(name, rows, added, chunk.place_format)
        if chunk.judgments.num_rows:
            rows = chunk.judgments
            added = {
                "item_number": self._items.numbers_of(rows),
                "model_a_number": self._models_of(rows.column("model_a")),
                "model_b_number": self._models_of(rows.column("model_b")),
            }
            renamed = rows.rename_columns(["judge_id" if name == "judge" else name for name in rows.column_names])
            self._write("judgments", renamed, added, chunk.place_format)
        self._notes.add_table(chunk.rejections)

    def note(self, notes: list[Note]) -> None:
        """Add rejections, repetitions and warnings."""
        self._notes.add(notes)

    def _models_of(self, column: pa.ChunkedArray) -> np.ndarray:
        """Number of each row's model; spellings of one model share a number."""
        names = encoded(column)
        numbers = []
        for raw in names.dictionary.to_pylist():
            if raw not in self._names:
                model_id = model_id_of(raw, self.model_settings.get(raw, {}), self.canonical_names)
                self._names[raw] = self._model_numbers.setdefault(model_id, len(self._model_numbers))
            numbers.append(self._names[raw])
        return np.array(numbers, np.int64)[names.indices.to_numpy(zero_copy_only=False)]

    def _write(self, name: str, rows: pa.Table, added: Mapping[str, np.ndarray], place_format: str) -> None:
        flag = HAS_METRIC if name == "metric_values" else HAS_VERDICT
        self.records.mark(rows.column("record").to_numpy(), flag)
        self._written()
        self._writing = self._background.submit(self._write_rows, name, rows, added, place_format)

    def _written(self) -> None:
        """Wait for the rows that are being written; raises what writing them raised."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def _write_rows(self, name: str, rows: pa.Table, added: Mapping[str, np.ndarray], place_format: str) -> None:
        n_rows = rows.num_rows
        shared = {"benchmark_id": self.benchmark_id, "file_id": self.file_id, "place_format": place_format}
        columns, schema = [], _written_schema(name)
        for field in schema:
            if field.name in added:
                array = pa.array(added[field.name], field.type)
            elif field.name in shared:
                codes = pa.array(np.zeros(n_rows, np.int32))
                array = pa.DictionaryArray.from_arrays(codes, pa.array([shared[field.name]]))
            else:
                array = _as_written(rows.column(field.name), field.type)
            columns.append(array)
        if name not in self._writers:
            self._writers[name] = pq.ParquetWriter(
                self._path(name), schema, compression="zstd", compression_level=1, store_schema=False
            )
        self._writers[name].write_table(pa.table(columns, schema=schema))

    def end(self) -> None:
        """All chunks are added: close the files of rows; raises what writing them raised."""
        self._written()
        for writer in self._writers.values():
            writer.close()

    def stop(self) -> None:
        """Nothing writes to the folder any more, however reading ended."""
        self._background.shutdown()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    # -- settling -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Find repeated keys, keep one row of each, refuse contradictions, and count the records.

        Each record counts once: rejected, else duplicate if all its verdict rows are repetitions, else kept. Metric
        rows speak for a record only where it has no other row (a line of another filter).
        """
        written, self._writers = [name for name in KEYS if name in self._writers], {}
        file = Path(self.unit.shown_path).name
        with scratch_connection(self._limits) as connection:
            gone = []
            for name in sorted(written, key=["generations", "judgments", "metric_values"].index):
                rows = RowsOfFile(name, self._path(name), PART_TABLES[name], file)
                if name == "judgments":
                    number_draws(connection, rows)
                if settle_rows(connection, rows, self.records, self._notes):
                    gone.append(name)
            verdicts = {name: self._path(name) for name in written if name != "metric_values"}
            if lost := [name for name in gone if name != "metric_values"]:
                self.records.mark(repeated_records(connection, verdicts, lost), DUPLICATE)
            if "metric_values" in gone:
                found = repeated_records(connection, {"metric_values": self._path("metric_values")}, ["metric_values"])
                alone = (self.records.flags[found] & HAS_VERDICT) == 0
                self.records.mark(found[alone], DUPLICATE)
        self.n_kept, self.n_rejected, self.n_duplicate = self.records.counts()

    # -- finishing ------------------------------------------------------------------------------------------------

    def finish(self, ledger_row: dict[str, Any]) -> None:
        """Write the small tables: items, models, rejections and the ledger row."""
        self._items.close(self._path("items"), self._limits)
        by_number = {number: model_id for model_id, number in self._model_numbers.items()}
        models = [
            {
                "model_number": number,
                "raw_name": raw,
                "model_id": by_number[number],
                "settings": json.dumps(self.model_settings.get(raw, {}), sort_keys=True, default=str),
            }
            for raw, number in self._names.items()
        ]
        self._save("models", models)
        self._save_rejections()
        self._save("files", [ledger_row])
        for name in KEYS:
            if not self._path(name).exists():
                self._save(name, [])

    def _save(self, name: str, rows: list[dict[str, Any]]) -> None:
        filled = [{"benchmark_id": self.benchmark_id, "file_id": self.file_id, **row} for row in rows]
        pq.write_table(pa.Table.from_pylist(filled, reading_schema(name)), self._path(name), compression="zstd")

    def _save_rejections(self) -> None:
        """One row a location and reason, the further ones counted in the message."""
        told = self._notes.close()
        if not told.paths:
            self._save("rejections", [])
            return
        with scratch_connection(self._limits) as connection:
            numbered = f"(select *, row_number() over () as number from {told.relation()})"
            grouped = one_a_place(connection, numbered, "location, reason")
            owner = f"{text_literal(self.benchmark_id)} as benchmark_id, {text_literal(self.file_id)} as file_id"
            schema = reading_schema("rejections")
            copied(connection, f"select {owner}, * from ({grouped})", schema, self._path("rejections"))


def _written_schema(name: str) -> pa.Schema:
    """Texts as codes: they repeat, and Parquet keeps them so anyway."""
    return pa.schema(
        [
            pa.field(field.name, pa.dictionary(pa.int32(), pa.string()) if field.type == pa.string() else field.type)
            for field in reading_schema(name)
        ]
    )


def _as_written(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(type_):
        return plain(column).cast(type_)
    codes = encoded(column)
    return pa.DictionaryArray.from_arrays(codes.indices.cast(pa.int32()), codes.dictionary.cast(pa.string()))
