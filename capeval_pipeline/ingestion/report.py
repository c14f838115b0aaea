"""What is told about each unit after reading: status, counts, what was refused and what is doubtful."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LISTED = 100
"""Rejections and warnings listed of one file; all of them are in raw.rejections."""


@dataclass(frozen=True)
class Remark:
    """A rejection, a repetition or a warning, with its place in the file."""

    location: str
    reason: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"location": self.location, "reason": self.reason, "message": self.message}


@dataclass
class UnitReport:
    """One unit's fate. n_read = n_kept + n_rejected + n_duplicate, always."""

    path: str
    format: str | None = None
    file_id: str | None = None
    benchmark_ids: list[str] = field(default_factory=list)
    status: str = "read"
    n_read: int = 0
    n_kept: int = 0
    n_rejected: int = 0
    n_duplicate: int = 0
    rejections: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    content_id: str | None = None
    """Hash of the content; `file_id` is the same unless another path brought this content and was read otherwise."""

    def as_json(self) -> dict[str, Any]:
        """Entry of `capeval ingest --json`."""
        return {
            "path": self.path,
            "format": self.format,
            "file_id": self.file_id,
            "benchmark_ids": self.benchmark_ids,
            "status": self.status,
            "n_read": self.n_read,
            "n_kept": self.n_kept,
            "n_rejected": self.n_rejected,
            "n_duplicate": self.n_duplicate,
            "rejections": [remark.as_json() for remark in self.rejections[:LISTED]],
            "warnings": [remark.as_json() for remark in self.warnings[:LISTED]],
            "n_rejections_listed": min(len(self.rejections), LISTED),
        }

    def take_from_tables(self, files: Iterable[Mapping[str, Any]], rejections: Iterable[Mapping[str, Any]]) -> None:
        """Put in the final counts and remarks of raw.files and raw.rejections, which know of the other files."""
        counted = list(files)
        for name in ("n_read", "n_kept", "n_rejected", "n_duplicate"):
            setattr(self, name, sum(row[name] for row in counted))
        self.rejections, self.warnings = [], []
        for row in rejections:
            remark = Remark(row["location"], row["reason"], row["message"])
            if row["severity"] == "rejected":
                self.rejections.append(remark)
            elif row["severity"] == "warning":
                self.warnings.append(remark)
