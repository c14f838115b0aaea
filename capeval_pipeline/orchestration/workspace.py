"""The resource every asset works on: the workspace's settings and its lake, and the facts of a benchmark."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from capeval_pipeline.errors import UsageError
from capeval_pipeline.settings import Settings
from capeval_pipeline.stage_settings import STAGE_SETTINGS
from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.locks import UNFINISHED_SUFFIX, benchmark_lock, file_lock, unfinished_note
from capeval_pipeline.storage.unfinished import noted_benchmark, put_back

if TYPE_CHECKING:
    from capeval_pipeline.storage.lake import Lake


@dataclass(frozen=True)
class Workspace:
    """Settings and lake of one data folder."""

    settings: Settings
    _toml_blocks: dict[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def lake(self) -> Lake:
        """The tables of its benchmarks."""
        from capeval_pipeline.storage.lake import lake_of

        return lake_of(self.settings)

    def limits(self, *, n_threads: int = 1) -> ComputeLimits:
        """DuckDB limits of this workspace; one thread unless the result cannot depend on their number."""
        return ComputeLimits(self.settings.memory_limit, n_threads, self.settings.cache / "spill")

    def benchmarks(self) -> dict[str, dict[str, Any]]:
        """The row of raw.benchmarks of every benchmark, `settings` parsed; empty before the first ingest."""
        return self._facts(None)

    def benchmark(self, benchmark_id: str) -> dict[str, Any]:
        """The row of raw.benchmarks of one benchmark, `settings` parsed; empty before its first ingest."""
        return self._facts(benchmark_id).get(benchmark_id, {})

    def _facts(self, benchmark_id: str | None) -> dict[str, dict[str, Any]]:
        if not self.lake.has_table("raw.benchmarks"):
            return {}
        rows = self.lake.read("raw.benchmarks", benchmark_id).to_pylist()
        return {row["benchmark_id"]: {**row, "settings": json.loads(row["settings"] or "{}")} for row in rows}

    def stage_settings(
        self, stage: str, facts: Mapping[str, Any] | None, overrides: Mapping[str, Any] | None = None
    ) -> BaseModel | None:
        """Effective settings of a stage: defaults < capeval.toml < the benchmark's own block < overrides of one run.

        None for stages without settings. Raises UsageError naming the field, its value and what is expected.
        """
        model = STAGE_SETTINGS.get(stage)
        if model is None:
            return None
        if stage not in self._toml_blocks:
            self._toml_blocks[stage] = dict(self.settings.stage_block(stage))
        own = (facts or {}).get("settings", {}).get(stage) or {}
        chosen = {**self._toml_blocks[stage], **own, **(overrides or {})}
        try:
            return model(**chosen)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            known = ", ".join(model.model_fields)
            raise UsageError(f"{stage}.{name} is {first.get('input')!r}: {first['msg']}; fields are {known}") from error

    @contextmanager
    def benchmark_lock(self, benchmark_id: str) -> Iterator[None]:
        """Hold the benchmark for one step: two runs of it take turns, runs of others do not wait."""
        with benchmark_lock(self.settings.root, benchmark_id):
            yield

    def unfinished_note(self, benchmark_id: str) -> Path:
        """Where it is noted that tables of a benchmark are being changed together."""
        return unfinished_note(self.settings.root, benchmark_id)

    @contextmanager
    def staging_folder(self, progress: Callable[[str], None] = lambda _: None) -> Iterator[Path]:
        """Path of a folder for temporary readings, gone afterwards. One ingest at a time holds it.

        What is read rests on what the ledger says, so nobody may write to the ledger between reading and committing:
        the second of two would put out rows that it never saw. Folders of ingests that were killed go as well.
        """
        temporary = self.settings.temporary
        with file_lock(self.settings.root / "locks" / "ingest.lock", lambda: progress("waiting for another ingest")):
            for left in temporary.glob("ingest-*"):
                shutil.rmtree(left, ignore_errors=True)
            for note in sorted((self.settings.root / "locks").glob(f"*{UNFINISHED_SUFFIX}")):
                with self.benchmark_lock(noted_benchmark(note) or ""):
                    put_back(note, self.lake)  # the ledger must say what is there; Dagster is told before the commit
            folder = temporary / f"ingest-{os.getpid()}-{time.time_ns()}"
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
