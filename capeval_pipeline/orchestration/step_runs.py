"""The frame that runs a step.

It tells whether the outputs are still made of the present inputs, calls the body if not, puts what comes back through
the contract, writes the lake and tells Dagster.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError, ConvergenceError, StageSkipped, TableContractError
from capeval_pipeline.one_thread import one_thread
from capeval_pipeline.orchestration.asset_pages import (
    COLUMN_SCHEMA,
    column_schema,
    first_rows,
    page_of_part,
    said_before,
)
from capeval_pipeline.orchestration.records import VersionRecord, asset_key, latest_records, version_of
from capeval_pipeline.orchestration.stages import (
    CLAIMS_CHECK,
    CONTRACT_CHECK,
    FIT_CHECK,
    CheckOutcome,
    Part,
    StageAsset,
    StageResult,
    Verdict,
)
from capeval_pipeline.orchestration.whole_changes import undo_unfinished, whole_change
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.conformity import conform, conform_stored, empty
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.lake import PartVersion
from capeval_pipeline.storage.stored_rows import StoredRows
from capeval_pipeline.storage.tables import TABLES


def run_step(context: dg.AssetExecutionContext, step: StageAsset) -> Iterator[Any]:
    """Run a step on the context's benchmark, or tell again what is there; what it yields is for Dagster."""
    workspace: Workspace = context.resources.workspace
    benchmark_id = context.partition_key
    config = dict(context.op_execution_context.op_config or {})
    is_full = bool(config.pop("full", False))
    is_rebuilt = bool(config.pop("rebuild", False))
    is_forced = is_rebuilt or step.always_runs
    run_config = {"rebuild": is_rebuilt} | {name: config.pop(name, None) for name in step.run_fields}
    overrides = {name: value for name, value in config.items() if value is not None}
    with workspace.benchmark_lock(benchmark_id):
        undo_unfinished(workspace, context.instance, benchmark_id)
        facts = workspace.benchmark(benchmark_id)
        settings = workspace.stage_settings(step.stage, facts, overrides)
        if step.uses_full and is_full:
            overrides = {**overrides, "full": True}
        records = latest_records(context.instance, {*step.inputs, *step.outputs}, [benchmark_id])
        inputs = {key: version_of(records, key, benchmark_id) for key in step.inputs}
        configured = step.configured(workspace, facts)
        made = [records.get((key, benchmark_id)) for key in step.outputs]
        if not is_forced and all(
            record
            and record.is_made_of(inputs, step.code_version, configured, overrides)
            and {*step.checks_of(key)} <= {*record.checks}
            for key, record in zip(step.outputs, made, strict=True)
        ):
            yield from _reused(context.instance, workspace, step, benchmark_id, [record for record in made if record])
            return
        part = Part(benchmark_id, workspace, facts, is_full, run_config, inputs)
        started = time.process_time()
        try:
            outcome = _outcome(step, part, settings)
        except CapevalError as fault:
            yield from _failed_checks(step, fault)
            raise
        try:
            record = VersionRecord(
                data_version="",
                code_version=step.code_version,
                inputs=inputs,
                configured=configured,
                overrides=overrides,
                config={} if settings is None else settings.model_dump(mode="json"),
            )
            if outcome.skipped_because:
                for key in step.outputs:
                    context.log_event(_not_answered(key, benchmark_id, outcome.skipped_because))
            numbers = {**outcome.numbers, "cpu_seconds": round(time.process_time() - started, 3)}
            yield from write_outputs(workspace, benchmark_id, step, outcome, record, numbers)
        finally:
            if outcome.scratch is not None:
                shutil.rmtree(outcome.scratch, ignore_errors=True)


def _not_answered(key: str, benchmark_id: str, why: str) -> dg.AssetObservation:
    """What the page of a table says of a benchmark that its step does not apply to."""
    return dg.AssetObservation(asset_key(key), why, partition=benchmark_id, metadata={"skipped because": why})


def _failed_checks(step: StageAsset, fault: CapevalError) -> Iterator[dg.AssetCheckResult]:
    """What the page of a table says of a step that gave no rows, where a check is about the reason."""
    name = {ConvergenceError: FIT_CHECK, TableContractError: CLAIMS_CHECK}.get(type(fault))
    for key in step.outputs:
        if name in step.checks_of(key):
            yield dg.AssetCheckResult(
                passed=False,
                asset_key=asset_key(key),
                check_name=name,
                description=str(fault),
                severity=dg.AssetCheckSeverity.ERROR if step.is_blocking(name) else dg.AssetCheckSeverity.WARN,
            )


def _outcome(step: StageAsset, part: Part, settings: BaseModel | None) -> StageResult:
    """Call the body with BLAS on one thread: a product's last bits change with the number of threads."""
    try:
        with one_thread():
            made = step.body(part, settings)
    except StageSkipped as skipped:
        sentence = f"Not answered for {part.benchmark_id}: {skipped}."
        return StageResult(
            tables={key: empty(TABLES[key]) for key in step.tables if key in TABLES},
            verdicts=[Verdict(step.question, sentence, "")] if step.question else [],
            numbers={"is_skipped": 1},
            skipped_because=sentence,
            checks=[
                CheckOutcome(key, name, True, f"Nothing to look at: {skipped}.")
                for key, names in step.check_names.items()
                for name in names
            ],
        )
    settled = [
        CheckOutcome(key, FIT_CHECK, True, "Every fit settled.")
        for key, names in step.check_names.items()
        if FIT_CHECK in names
    ]
    return replace(made, checks=[*made.checks, *settled])


def recomputed(step: StageAsset, part: Part, settings: BaseModel | None) -> dict[str, str]:
    """Table → data version that making the step's outputs now would give; nothing is written."""
    outcome = _outcome(step, part, settings)
    return {
        key: content_version(conformed(step, key, outcome, part.benchmark_id), without=clock_columns(key))
        for key in step.outputs
    }


def clock_columns(key: str) -> Sequence[str]:
    """Columns of a table that tell when, not what: they do not count in its data version."""
    return TABLES[key].clock_columns if key in TABLES else ()


def write_outputs(
    workspace: Workspace,
    benchmark_id: str,
    step: StageAsset,
    outcome: StageResult,
    record: VersionRecord,
    numbers: Mapping[str, float | int],
) -> Iterator[Any]:
    """Put every table through its contract, then write all, then tell Dagster; if one is refused nothing is written.

    What is not written and told to its end is undone by whoever comes next.
    """
    tables: dict[str, pa.Table | StoredRows] = {}
    for key in step.outputs:
        try:
            tables[key] = conformed(step, key, outcome, benchmark_id)
        except TableContractError as refused:
            yield dg.AssetCheckResult(
                passed=False, asset_key=asset_key(key), check_name=CONTRACT_CHECK, description=str(refused)
            )
            raise
    told = []
    with whole_change(workspace, [benchmark_id], step.outputs):
        for key in step.outputs:
            table = tables.pop(key)  # written tables are let go: those of a large benchmark are what fills the memory
            shown = first_rows(table)
            columns = columns_of(step, table)
            written = workspace.lake.write(key, benchmark_id, table, clock_columns=clock_columns(key))
            told.append((key, recorded(record, key, written, outcome), shown, columns))
        for key, made, shown, columns in told:
            page = page_of_part(workspace, key, benchmark_id, shown, sentences_on(made, outcome)) | columns
            yield materialized(workspace, step, key, made, {**page, **numbers, "reused": False})


def columns_of(step: StageAsset, table: pa.Table | StoredRows) -> dict[str, Any]:
    """Columns of a SQL model's rows as their page shows them; of other tables the contract tells them beforehand."""
    return {} if step.sql_model is None else {COLUMN_SCHEMA: column_schema(step.sql_model, table.schema)}


def recorded(record: VersionRecord, key: str, written: PartVersion, outcome: StageResult) -> VersionRecord:
    """The record of an output as it was written, with what its checks found."""
    checks = {}
    if key in TABLES:
        checks[CONTRACT_CHECK] = (
            True,
            f"{counted(written.n_rows, 'row')}; columns, types, keys and grain are as declared.",
        )
    checks |= {check.name: (check.passed, check.description) for check in outcome.checks if check.table == key}
    return replace(
        record,
        data_version=written.data_version,
        delta_version=written.delta_version,
        n_rows=written.n_rows,
        checks=checks,
    )


def sentences_on(made: VersionRecord, outcome: StageResult) -> list[str]:
    """What the page of an output says first: the step's verdicts, else what its checks found."""
    return [verdict.sentence for verdict in outcome.verdicts] or [str(found) for _, found in made.checks.values()]


def materialized(
    workspace: Workspace, step: StageAsset, key: str, made: VersionRecord, extra: Mapping[str, Any]
) -> dg.MaterializeResult[Any]:
    """What Dagster is told of an output."""
    return dg.MaterializeResult(
        asset_key=asset_key(key),
        data_version=dg.DataVersion(made.data_version),
        # what a person reads stands first: the UI keeps this order
        metadata={
            **extra,
            "dagster/row_count": made.n_rows,
            "dagster/uri": workspace.lake.uri(key),
            **made.metadata(),
        },
        check_results=[
            dg.AssetCheckResult(
                passed=bool(passed),
                asset_key=asset_key(key),
                check_name=name,
                description=str(description),
                severity=dg.AssetCheckSeverity.ERROR if step.is_blocking(name) else dg.AssetCheckSeverity.WARN,
            )
            for name, (passed, description) in made.checks.items()
            if name in step.checks_of(key)
        ],
    )


def conformed(step: StageAsset, key: str, outcome: StageResult, benchmark_id: str) -> pa.Table | StoredRows:
    """An output as its contract describes it. Raises TableContractError."""
    if key.startswith("verdicts."):
        frame = pd.DataFrame(
            {
                "question": [verdict.question for verdict in outcome.verdicts],
                "sentence": [verdict.sentence for verdict in outcome.verdicts],
                "source_table": [verdict.source_table for verdict in outcome.verdicts],
                "is_skipped": [not verdict.source_table for verdict in outcome.verdicts],
            }
        )
        return conform(TABLES[key], frame, benchmark_id)
    if key not in TABLES:  # a SQL model: its grain and types were checked where it ran
        table = outcome.tables[key]
        assert isinstance(table, pa.Table)
        return table
    rows = outcome.tables.get(key, empty(TABLES[key]))
    if isinstance(rows, StoredRows):
        return conform_stored(TABLES[key], rows)
    return conform(TABLES[key], rows, benchmark_id)


def _reused(
    instance: dg.DagsterInstance,
    workspace: Workspace,
    step: StageAsset,
    benchmark_id: str,
    made: Sequence[VersionRecord],
) -> Iterator[Any]:
    """Yield what is there with its old version, its checks and its page as they were: nothing downstream moves."""
    for key, record in zip(step.outputs, made, strict=True):
        yield materialized(workspace, step, key, record, {**said_before(instance, key, benchmark_id), "reused": True})
