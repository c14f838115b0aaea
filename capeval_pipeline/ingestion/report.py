"""What is told about each unit after reading: status, counts, what was refused and what is doubtful."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from capeval_pipeline.storage.connections import scratch_connection
from capeval_pipeline.storage.stored_rows import STREAMED, StoredRows

LISTED = 100
"""Rejections and warnings listed of one file; all of them are in raw.rejections."""


NOT_READ = frozenset({"refused", "waiting"})
"""Statuses of units of which nothing is in."""


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
    reasons: dict[str, int] = field(default_factory=dict)
    """Rejections and warnings by reason, those that are not listed as well."""
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

    def take_from_tables(self, files: Iterable[Mapping[str, Any]], told: Iterable["Told"]) -> None:
        """Put in the final counts and remarks of raw.files and raw.rejections, which know of the other files."""
        counted = list(files)
        if counted and all(row["status"] == "refused" for row in counted):
            self.status = "refused"
        for name in ("n_read", "n_kept", "n_rejected", "n_duplicate"):
            setattr(self, name, sum(row[name] for row in counted))
        self.rejections, self.warnings, self.reasons = [], [], {}
        for remarks in told:
            self.rejections += remarks.rejections
            self.warnings += remarks.warnings
            for reason, n in remarks.reasons.items():
                self.reasons[reason] = self.reasons.get(reason, 0) + n


@dataclass
class Told:
    """What raw.rejections tells of one file in one benchmark: at most LISTED of each kind, and how many by reason."""

    rejections: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)


def told_of_files(rejections: pa.Table | StoredRows) -> dict[str, Told]:
    """File_id → what is told of it; places in the order they have in the file, what is about the whole file first."""
    found: dict[str, Told] = {}
    if not rejections.num_rows:
        return found
    place = r"coalesce(try_cast(regexp_extract(location, '(\d+)', 1) as bigint), -1)"
    with scratch_connection(STREAMED) as connection:
        if isinstance(rejections, StoredRows):
            relation = rejections.relation()
        else:
            connection.register("rejections", rejections)
            relation = "rejections"
        counts = connection.execute(
            f"""select file_id, reason, count(*) from {relation} where severity in ('rejected', 'warning')
            group by all order by all"""
        ).fetchall()
        for file_id, reason, n in counts:
            found.setdefault(file_id, Told()).reasons[reason] = n
        rows = connection.execute(
            f"""with ranked as (
                select file_id, severity, location, reason from {relation} where severity in ('rejected', 'warning')
                qualify row_number() over (
                    partition by file_id, severity order by {place}, location, reason
                ) <= {LISTED}
            )
            select file_id, severity, location, reason, message from {relation}
            inner join ranked using (file_id, severity, location, reason)
            order by file_id, severity, {place}, location, reason"""
        ).fetchall()
    for file_id, severity, location, reason, message in rows:
        told = found[file_id]
        listed = told.rejections if severity == "rejected" else told.warnings
        listed.append(Remark(location, reason, message))
    return found


def check_counts(file: str, *, n_read: int, n_kept: int, n_rejected: int, n_duplicate: int) -> None:
    """Raise AssertionError unless read = kept + rejected + duplicate: else a record was lost or counted twice."""
    if n_read != n_kept + n_rejected + n_duplicate:
        raise AssertionError(
            f"{file}: read {n_read}, but {n_kept} kept + {n_rejected} rejected + {n_duplicate} duplicate "
            f"= {n_kept + n_rejected + n_duplicate}"
        )
