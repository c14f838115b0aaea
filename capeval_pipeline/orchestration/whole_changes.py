"""What a step or an ingest changes in several tables counts whole or not at all, however its process ends.

The lake's side of it is storage/unfinished.py; here Dagster is told. Records of what was made must say what the lake
holds, else tables would be taken for fresh that were made from something else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from capeval_pipeline.errors import LakeError
from capeval_pipeline.orchestration.records import VersionRecord, asset_key, latest_records
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.locks import UNFINISHED_SUFFIX
from capeval_pipeline.storage.unfinished import note_before, noted_benchmark, put_back, versions_at

if TYPE_CHECKING:
    pass


@contextmanager
def whole_change(workspace: Workspace, benchmark_ids: Sequence[str], keys: Sequence[str]) -> Iterator[None]:
    """Within it tables of benchmarks are written and told of; the caller holds the benchmarks' locks.

    If it is left by an error or not at all, `undo_unfinished` makes them what they were.
    """
    notes = [workspace.unfinished_note(benchmark_id) for benchmark_id in benchmark_ids]
    for path, benchmark_id in zip(notes, benchmark_ids, strict=True):
        note_before(path, workspace.lake, benchmark_id, keys)
    yield
    for path in notes:
        path.unlink(missing_ok=True)


def undo_all_unfinished(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Undo what was left half done, of every benchmark; waits for those who are at it.

    Raises LakeError, once all others are undone, with those that cannot be.
    """
    failures = []
    for path in _notes(workspace):
        try:
            benchmark_id = noted_benchmark(path)
            if benchmark_id is not None:
                with workspace.benchmark_lock(benchmark_id):
                    undo_unfinished(workspace, instance, benchmark_id)
        except LakeError as error:
            failures.append(str(error))
    if failures:
        raise LakeError("; ".join(failures))


def is_any_unfinished(workspace: Workspace) -> bool:
    """Whether a change of any benchmark is under way, or was cut short."""
    return bool(_notes(workspace))


def _notes(workspace: Workspace) -> list[Path]:
    return sorted((workspace.settings.root / "locks").glob(f"*{UNFINISHED_SUFFIX}"))


def read_at_rest(
    workspace: Workspace, instance: dg.DagsterInstance, keys: Collection[str]
) -> tuple[dict[tuple[str, str | None], VersionRecord], dict[str, int]]:
    """Records of tables and the versions at which they lie, of one moment in which no change was half done.

    A change writes its note before its first table and takes it away after its last word to Dagster: where no table
    moved while all were looked at, and no note is there at the end, no change was under way. Waits for those who are
    at it. Raises LakeError.
    """
    while True:
        undo_all_unfinished(workspace, instance)
        before = versions_at(workspace.lake, keys)
        records = latest_records(instance, sorted(keys))
        if versions_at(workspace.lake, keys) == before and not _notes(workspace):
            return records, before


def undo_unfinished(workspace: Workspace, instance: dg.DagsterInstance, benchmark_id: str) -> None:
    """Undo what was left half done of a benchmark, whose lock the caller holds, and record what is there again."""
    path = workspace.unfinished_note(benchmark_id)
    found = put_back(path, workspace.lake)
    records = latest_records(instance, sorted(found), [benchmark_id]) if found else {}
    for key, part in found.items():
        known = records.get((key, benchmark_id))
        if known is None or known.data_version == part.data_version:
            continue
        # made from nothing that is known: whatever step makes it is stale
        record = VersionRecord(part.data_version, "", {}, "", n_rows=part.n_rows, delta_version=part.delta_version)
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset_key(key),
                description="As it was before a change that was cut short.",
                partition=benchmark_id,
                metadata=record.metadata(),
                tags={"dagster/data_version": part.data_version, "dagster/data_version_is_user_provided": "true"},
            )
        )
    path.unlink(missing_ok=True)
