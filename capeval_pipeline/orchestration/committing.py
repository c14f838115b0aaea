"""What the job behind `capeval ingest` does: staged readings of some benchmarks become raw tables, a commit a table."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa

from capeval_pipeline.errors import CapevalError, is_disk_full, one_sentence
from capeval_pipeline.orchestration.asset_pages import first_rows, page_of_part
from capeval_pipeline.orchestration.assets.ingest import ingest
from capeval_pipeline.orchestration.records import VersionRecord
from capeval_pipeline.orchestration.stages import Part, StageResult
from capeval_pipeline.orchestration.step_runs import clock_columns, conformed, materialized, recorded, sentences_on
from capeval_pipeline.orchestration.whole_changes import whole_change
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.lake import benchmark_key
from capeval_pipeline.storage.stored_rows import StoredRows

Told = dg.AssetMaterialization | dg.AssetCheckEvaluation


@dataclass(frozen=True)
class _Ready:
    """Tables of one benchmark that may be written, and what is recorded of them."""

    tables: Mapping[str, pa.Table | StoredRows]
    outcome: StageResult
    record: VersionRecord
    numbers: Mapping[str, float | int]


def commit_staged(
    workspace: Workspace, staged: Path, benchmark_ids: Sequence[str], failures: dict[str, str]
) -> Iterator[Told]:
    """Resolve and write the benchmarks; gives what Dagster is to be told, table by table, as it is written.

    A benchmark that fails goes into `failures` with its reason and nothing of it is written; the others are.
    """
    with ExitStack() as held:
        # in the order of the locks' names, so that two ingests never wait for each other in a circle
        for name in sorted(benchmark_ids, key=benchmark_key):
            held.enter_context(workspace.benchmark_lock(name))
        ready: dict[str, _Ready] = {}
        try:
            for name in sorted(benchmark_ids):
                try:
                    ready[name] = _ready(workspace, staged, name)
                except (CapevalError, AssertionError, duckdb.Error) as fault:
                    if is_disk_full(fault):  # the next one would meet it too
                        raise
                    failures[name] = one_sentence(fault)
            yield from _written(workspace, ready)
        finally:
            for made in ready.values():
                if made.outcome.scratch is not None:
                    shutil.rmtree(made.outcome.scratch, ignore_errors=True)


def _ready(workspace: Workspace, staged: Path, benchmark_id: str) -> _Ready:
    part = Part(benchmark_id, workspace, {}, run_config={"staged": str(staged)})
    started = time.process_time()
    outcome = ingest.body(part, None)
    try:
        tables = {key: conformed(ingest, key, outcome, benchmark_id) for key in ingest.outputs}
    except BaseException:
        if outcome.scratch is not None:
            shutil.rmtree(outcome.scratch, ignore_errors=True)
        raise
    record = VersionRecord(
        data_version="", code_version=ingest.code_version, inputs={}, configured=ingest.configured(workspace, None)
    )
    numbers = {**outcome.numbers, "cpu_seconds": round(time.process_time() - started, 3)}
    return _Ready(tables, outcome, record, numbers)


def _written(workspace: Workspace, ready: Mapping[str, _Ready]) -> Iterator[Told]:
    """One commit a table; then Dagster is told. What is not written and told to its end is undone by who comes next."""
    told = []
    with whole_change(workspace, list(ready), ingest.outputs):
        for key in ingest.outputs:
            parts = {name: made.tables[key] for name, made in ready.items()}
            shown = {name: first_rows(rows) for name, rows in parts.items()}
            written = workspace.lake.write_parts(key, parts, clock_columns=clock_columns(key))
            for name, made in ready.items():
                told.append((key, name, recorded(made.record, key, written[name], made.outcome), shown[name]))
        for key, name, record, rows in told:
            made = ready[name]
            page = page_of_part(workspace, key, name, rows, sentences_on(record, made.outcome))
            yield from _told(workspace, key, name, record, {**page, **made.numbers, "reused": False})


def _told(
    workspace: Workspace, key: str, benchmark_id: str, record: VersionRecord, extra: Mapping[str, Any]
) -> Iterator[Told]:
    result = materialized(workspace, ingest, key, record, extra)
    assert result.asset_key is not None
    yield dg.AssetMaterialization(
        result.asset_key,
        partition=benchmark_id,
        metadata=result.metadata,
        tags={
            "dagster/data_version": record.data_version,
            "dagster/data_version_is_user_provided": "true",
            "dagster/code_version": record.code_version,
        },
    )
    for check in result.check_results or ():
        yield dg.AssetCheckEvaluation(
            asset_key=result.asset_key,
            check_name=check.check_name or "",
            passed=check.passed,
            severity=check.severity,
            description=check.description,
        )
