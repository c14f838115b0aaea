"""A file read by one reader, whole: what tests of readers look at."""

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from capeval_pipeline.formats.protocol import Reading, ReadOptions


class WholeReading:
    """All chunks of a reading put together."""

    def __init__(self, reading: Reading) -> None:
        chunks = list(reading.chunks)
        self.facts = reading.facts
        self.n_read = sum(chunk.n_read for chunk in chunks)
        for name in ("items", "generations", "judgments", "metric_values", "rejections"):
            parts = [getattr(chunk, name) for chunk in chunks]
            rows = [row for part in parts for row in part.to_pylist()]
            setattr(self, name, rows)
        self.n_chunks = len(chunks)

    def reasons(self, severity: str = "rejected") -> Counter:
        return Counter(row["reason"] for row in self.rejections if row["severity"] == severity)

    def locations(self) -> list[str]:
        return [row["location"] for row in self.rejections if row["severity"] == "rejected"]

    def accounted(self) -> set[int]:
        """Records that are in a row or in a rejection."""
        rows = [*self.generations, *self.judgments, *self.metric_values, *self.rejections]
        return {row["record"] for row in rows if row["record"] is not None}


def read_whole(reader: ModuleType, path: Path, **options: Any) -> WholeReading:
    return WholeReading(reader.read(path, ReadOptions(**options)))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def text_array(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())
