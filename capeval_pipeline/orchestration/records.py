"""What each output was made from, and whether that still holds.

Dagster's own staleness resolver takes seconds a partition and is private, so freshness is decided by a record that
every materialization carries as metadata: data versions of the inputs, code version, configured values, overrides.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import dagster as dg

from capeval_pipeline.orchestration.event_log import Entry, latest_entries

RECORD_KEY = "capeval/record"
NEVER = "never"
"""Data version that stands for an input nobody has made."""


@dataclass(frozen=True)
class VersionRecord:
    """One output as it was made.

    inputs: table key → data version it was made from. configured: hash of the configured values then (defaults,
    capeval.toml, benchmark.yml). overrides: what one run set on top. config: the effective values. checks: what the
    checks beside it found, check name → (passed, description), so that a reused output repeats them as they were.
    """

    data_version: str
    code_version: str
    inputs: Mapping[str, str]
    configured: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    checks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    n_rows: int = 0
    delta_version: int | None = None
    run_id: str = ""
    materialized_at: float = 0.0

    def metadata(self) -> dict[str, Any]:
        """The record as metadata of a materialization; run and time are the event's own."""
        return {
            RECORD_KEY: dg.MetadataValue.json(
                {
                    "data_version": self.data_version,
                    "code_version": self.code_version,
                    "inputs": dict(sorted(self.inputs.items())),
                    "configured": self.configured,
                    "overrides": dict(self.overrides),
                    "config": dict(self.config),
                    "checks": {name: list(found) for name, found in self.checks.items()},
                    "n_rows": self.n_rows,
                    "delta_version": self.delta_version,
                }
            )
        }

    def is_made_of(
        self, inputs: Mapping[str, str], code_version: str, configured: str, overrides: Mapping[str, Any]
    ) -> bool:
        """True if making it again now would use the same inputs, code and values.

        A result of an override stays until an input, the code or a configured value changes; an override given now
        is compared with the one recorded.
        """
        same_overrides = not overrides or dict(overrides) == dict(self.overrides)
        return (
            dict(self.inputs) == dict(inputs)
            and self.code_version == code_version
            and self.configured == configured
            and same_overrides
        )

    def staleness(self, inputs: Mapping[str, str], code_version: str, configured: str) -> str:
        """Why it is stale, in words; empty if only an override differs or nothing does."""
        changed = sorted(key for key in {*inputs, *self.inputs} if inputs.get(key) != self.inputs.get(key))
        if changed:
            return f"{changed[0]} changed" + (f" and {len(changed) - 1} more" if len(changed) > 1 else "")
        if self.code_version != code_version:
            return "its code changed"
        if self.configured != configured:
            return "its settings changed"
        return ""


def values_hash(values: Mapping[str, Any]) -> str:
    """Hash of configured values, whatever their order."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def asset_key(table_key: str) -> dg.AssetKey:
    """Asset of a table: "estimates.strengths" → ["estimates", "strengths"]."""
    return dg.AssetKey(table_key.split(".", 1))


def latest_records(
    instance: dg.DagsterInstance,
    table_keys: Iterable[str],
    partitions: Collection[str] | None = None,
    known: dict[int, Entry] | None = None,
) -> dict[tuple[str, str | None], VersionRecord]:
    """Latest record of each (table, partition); partition is None for unpartitioned tables. Read in bulk.

    known : as `latest_entries` takes it, for callers that look twice.
    """
    names = {asset_key(key): key for key in table_keys}
    entries = latest_entries(instance, list(names), RECORD_KEY, partitions, known)
    found = {(names[key], partition): _record(entry) for (key, partition), entry in entries.items()}
    return {output: record for output, record in found.items() if record is not None}


def version_of(records: Mapping[tuple[str, str | None], VersionRecord], key: str, benchmark_id: str) -> str:
    """Data version of a benchmark's part of a table, NEVER where it was not made."""
    record = records.get((key, benchmark_id))
    return record.data_version if record else NEVER


def _record(entry: Entry) -> VersionRecord | None:
    stored = entry.value
    if stored is None or not {"data_version", "code_version", "inputs", "configured"} <= set(stored):
        return None  # not written by a step, or by another release: counts as not made
    kept = {name: value for name, value in stored.items() if name in FIELDS}
    return VersionRecord(**kept | {"run_id": entry.run_id, "materialized_at": entry.timestamp})


FIELDS = frozenset(entry.name for entry in fields(VersionRecord))
