"""From paths to committed raw tables: what `capeval ingest` and the inbox sensor's job both do."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pyarrow as pa

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.ingestion.batch import Batch, clear, ledger_of, read_batch
from capeval_pipeline.ingestion.discovery import Place
from capeval_pipeline.ingestion.reading import LedgerRow, Request
from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.graph import StaleStep
from capeval_pipeline.orchestration.workspace import Workspace

RawTables = dict[str, dict[str, pa.Table]]
"""benchmark_id → table key → rows."""

REPORTED = ("raw.files", "raw.rejections")


def place_of(workspace: Workspace) -> Place:
    """Where the workspace shows paths from."""
    return Place(workspace.settings.root, workspace.settings.inbox)


def request_of(workspace: Workspace) -> Request:
    """What is asked for where nobody asks for anything: the workspace's limits."""
    return Request(limits=Limits(**workspace.settings.limits.model_dump()))


def ledger(workspace: Workspace) -> list[LedgerRow]:
    """Files that are in the lake and count."""
    lake = workspace.lake
    return ledger_of(lake.read("readings.files")) if lake.has_table("readings.files") else []


@contextmanager
def staging_folder(workspace: Workspace) -> Iterator[Path]:
    """A folder for temporary readings, gone afterwards."""
    folder = workspace.settings.temporary / f"ingest-{os.getpid()}-{time.time_ns()}"
    try:
        yield folder
    finally:
        clear(folder)


def commit(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    job: driver.JobSource,
    batch: Batch,
    folder: Path,
    progress: driver.Progress = lambda _: None,
) -> RawTables:
    """Run the raw tables' step of every benchmark a batch changes; gives back their ledgers and rejections.

    Raises CapevalError naming the benchmarks whose step failed; the others are in.
    """
    if not batch.changes:
        return {}
    batch.save(folder)
    step = next(step for step in build_graph().steps if step.name == "ingest")
    driver.end_dead_runs(instance)
    driver.add_benchmarks(instance, sorted(batch.changes))
    failures: list[str] = []
    for benchmark_id in sorted(batch.changes):
        progress(f"{benchmark_id}: committing")
        run = driver.run_steps(
            job,
            instance,
            benchmark_id,
            [StaleStep(step, "files were read")],
            run_config={step.name: {"staged": str(folder)}},
        )
        failures += [f"{benchmark_id}: {reason}" for reason in run.failures.values()]
    if failures:
        raise CapevalError("\n".join(failures))
    return {name: {key: workspace.lake.read(key, name) for key in REPORTED} for name in batch.changes}


def take_in(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    job: driver.JobSource,
    paths: Sequence[Path],
    progress: driver.Progress = lambda _: None,
) -> Batch:
    """Read paths and commit what they hold; the batch given back has the final counts. Raises as read_batch does."""
    with staging_folder(workspace) as folder:
        progress("reading files")
        batch = read_batch(paths, request_of(workspace), place_of(workspace), ledger(workspace), folder)
        batch.complete(commit(workspace, instance, job, batch, folder, progress))
    return batch
