"""A workspace for tests of ingest: the lake is a dict of readings by benchmark."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from capeval_pipeline.ingestion.batch import Batch, forget, ledger_of, read_batch
from capeval_pipeline.ingestion.discovery import Place
from capeval_pipeline.ingestion.parts import PART_TABLES, reading_schema
from capeval_pipeline.ingestion.reading import Request
from capeval_pipeline.ingestion.resolution import check_ledger, resolve
from capeval_pipeline.storage.stored_rows import StoredRows, as_table, stored

NO_READINGS = {name: StoredRows(reading_schema(name)) for name in PART_TABLES}


class MemoryWorkspace:
    """Ingests paths as the command does, without dagster and without Delta tables."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.place = Place(data, data / "inbox")
        self.readings: dict[str, dict[str, StoredRows]] = {}
        self.raw: dict[str, dict[str, pa.Table]] = {}
        self.n_batches = 0
        self.folder = data / "tmp"
        self.folder.mkdir(parents=True, exist_ok=True)

    def ingest(self, paths: Sequence[Path], request: Request | None = None) -> Batch:
        self.n_batches += 1
        folder = self.data / "tmp" / f"batch{self.n_batches}"
        batch = read_batch(paths, request or Request(), self.place, self._ledger(), folder)
        self._apply(batch)
        shutil.rmtree(folder, ignore_errors=True)
        return batch

    def forget(self, paths: Sequence[Path]) -> Batch:
        batch = forget(paths, self.place, self._ledger())
        self._apply(batch)
        return batch

    def _ledger(self):
        return [
            row
            for benchmark_id, tables in self.readings.items()
            for row in ledger_of(tables["files"].table(), self.raw[benchmark_id]["raw.files"])
        ]

    def _apply(self, batch: Batch) -> None:
        for benchmark_id, change in batch.changes.items():
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            readings = change.applied_to(self.readings.get(benchmark_id, NO_READINGS), folder / "readings")
            self.readings[benchmark_id] = {
                name: stored(rows.table(), folder / f"{name}.parquet") for name, rows in readings.items()
            }
            raw = resolve(self.readings[benchmark_id], folder / "raw")
            self.raw[benchmark_id] = {key: as_table(rows) for key, rows in raw.items()}
            check_ledger(self.raw[benchmark_id]["raw.files"])
        batch.complete(self.raw)

    def rows(self, key: str) -> list[dict]:
        """Rows of a raw table over all benchmarks."""
        return [row for tables in self.raw.values() for row in tables[key].to_pylist()]
