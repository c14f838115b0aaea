"""From paths to committed raw tables: what `capeval ingest` and the inbox sensor's job both do."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.ingestion.batch import Batch, ledger_in, read_batch
from capeval_pipeline.ingestion.discovery import Place
from capeval_pipeline.ingestion.reading import Request
from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.whole_changes import undo_all_unfinished
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.storage.conformity import empty
from capeval_pipeline.storage.stored_rows import StoredRows
from capeval_pipeline.storage.tables import TABLES

RawTables = dict[str, dict[str, StoredRows]]
"""benchmark_id → table key → rows."""

REPORTED = ("raw.files", "raw.rejections")


def place_of(workspace: Workspace) -> Place:
    """Where the workspace shows paths from."""
    return Place(workspace.settings.root, workspace.settings.inbox)


def request_of(workspace: Workspace) -> Request:
    """What is asked for where nobody asks for anything: the workspace's limits."""
    return Request(limits=Limits(**workspace.settings.limits.model_dump()))


def commit(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    job: driver.JobSource,
    batch: Batch,
    folder: Path,
    progress: Progress = nothing_said,
) -> RawTables:
    """Commit a batch in one run; gives back the ledgers and rejections of the benchmarks it changes.

    Raises CapevalError naming the benchmarks that failed; the others are in.
    """
    if not batch.changes:
        return {}
    batch.save(folder)
    names = sorted(batch.changes)
    driver.end_dead_runs(instance)
    undo_all_unfinished(workspace, instance)
    driver.add_benchmarks(instance, names)
    progress(f"committing {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))
    driver.run_ingest(job, instance, folder, names)
    lake = workspace.lake
    return {name: {key: lake.stored(key, empty(TABLES[key]).schema, name) for key in REPORTED} for name in names}


def take_in(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    job: driver.JobSource,
    paths: Sequence[Path],
    progress: Progress = nothing_said,
) -> Batch:
    """Read paths and commit what they hold; the batch given back has the final counts. Raises as read_batch does."""
    with workspace.staging_folder(progress) as folder:
        progress("reading files")
        batch = read_batch(
            paths, request_of(workspace), place_of(workspace), ledger_in(workspace.lake), folder, progress
        )
        batch.complete(commit(workspace, instance, job, batch, folder, progress))
    return batch
