"""What a stage asset is: a pure body from a benchmark's tables to tables, and the frame that runs it.

The frame reads nothing by itself: it tells whether the outputs are still made of the present inputs, calls the body
if not, puts what comes back through the contract, writes the lake and tells Dagster. Bodies live in assets/.
"""

import inspect
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from capeval_pipeline.errors import CapevalError, ConvergenceError, StageSkipped, TableContractError
from capeval_pipeline.orchestration.asset_pages import first_rows, page_of_part, said_before, sql_line
from capeval_pipeline.orchestration.automation_conditions import follow_data_versions
from capeval_pipeline.orchestration.code_versions import code_version
from capeval_pipeline.orchestration.launchpad import config_fields
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import (
    NEVER,
    VersionRecord,
    asset_key,
    latest_records,
    values_hash,
)
from capeval_pipeline.orchestration.whole_changes import undo_unfinished, whole_change
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.stage_settings import STAGE_SETTINGS
from capeval_pipeline.storage.conformity import conform, conform_stored, empty
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.lake import PartVersion
from capeval_pipeline.storage.older_parts import as_declared, check_files
from capeval_pipeline.storage.stored_rows import StoredRows
from capeval_pipeline.storage.tables import TABLES, Column

OWNERS = ["team:capeval"]
CONTRACT_CHECK = "fits_its_contract"
CLAIMS_CHECK = "claims_hold"
FIT_CHECK = "fits_settled"
CHECKS_SAY = {
    CONTRACT_CHECK: "Columns, types, keys and grain are as the table's contract declares them.",
    CLAIMS_CHECK: "No row breaks a claim that stands beside the SQL model; its keys are unique.",
    FIT_CHECK: "Every fit settled; one that does not gives no rows.",
}


@dataclass(frozen=True)
class Verdict:
    """One sentence that answers a question about a benchmark, and the table its numbers stand in."""

    question: str
    sentence: str
    source_table: str


@dataclass(frozen=True)
class CheckOutcome:
    """Result of a check declared beside a table: passed or not, and what was found, as a sentence."""

    table: str
    name: str
    passed: bool
    description: str


@dataclass(frozen=True)
class StageResult:
    """What a body gives back: tables by key, sentences, numbers to plot over time, outcomes of declared checks.

    scratch: the folder in which tables given as stored rows lie; it goes once they are written.
    """

    tables: Mapping[str, pd.DataFrame | pa.Table | StoredRows]
    verdicts: Sequence[Verdict] = ()
    numbers: Mapping[str, float | int] = field(default_factory=dict)
    checks: Sequence[CheckOutcome] = ()
    scratch: Path | None = None


@dataclass(frozen=True)
class Part:
    """One benchmark's side of the workspace, as a body sees it."""

    benchmark_id: str
    workspace: Workspace
    benchmark: Mapping[str, Any]
    is_full: bool = False
    run_config: Mapping[str, Any] = field(default_factory=dict)
    input_versions: Mapping[str, str] = field(default_factory=dict)

    def arrow(self, key: str) -> pa.Table:
        """The benchmark's rows of a table; without rows, and where it was never made, empty with its columns."""
        if key in TABLES and not self.workspace.lake.has_table(key):
            return empty(TABLES[key])
        rows = self.workspace.lake.read(key, self.benchmark_id)
        return as_declared(TABLES[key], rows, self.workspace.lake.uri(key)) if key in TABLES else rows

    def stored(self, key: str) -> StoredRows:
        """The benchmark's rows of a table as rows in the lake's files, for what is too big to be held."""
        rows = self.workspace.lake.stored(key, empty(TABLES[key]).schema, self.benchmark_id)
        check_files(TABLES[key], rows.paths, self.workspace.lake.uri(key))
        return rows

    def read(self, key: str) -> pd.DataFrame:
        """The same as a pandas frame."""
        return self.arrow(key).to_pandas()

    @property
    def cache_dir(self) -> Path:
        """Where a body may keep what can be made again at any time."""
        return self.workspace.settings.cache

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """The executor the settings name, closed when the body is done with it."""
        from capeval_pipeline.executors import open_executor

        with open_executor(self.workspace.settings.executor, self.workspace.settings.n_workers) as pool:
            yield pool


Body = Callable[[Part, Any], StageResult]


@dataclass(frozen=True)
class StageAsset:
    """Everything the graph needs to know of one step; `tables` are its outputs, `inputs` what it reads.

    question: what its verdict answers, "" if it gives none. is_long: made only when asked for (`--full`).
    uses_full: its size depends on `--full`. always_runs: reads what no record knows of (files), so it is never taken
    for fresh. tolerates_missing: asks to run though some of its inputs were never made. run_fields: further text
    fields of one run, name → meaning, handed to the body as part.run_config. check_names: table → checks the body
    reports beside the contract's own; warning_checks: those that do not block.
    """

    name: str
    stage: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    body: Body
    code_version: str
    description: str
    question: str = ""
    is_long: bool = False
    uses_full: bool = False
    always_runs: bool = False
    tolerates_missing: bool = False
    run_fields: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset({"python", "deltalake"})
    check_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warning_checks: frozenset[str] = frozenset()
    table_descriptions: Mapping[str, str] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its tables and, where it answers a question, the table of its sentences."""
        return (*self.tables, f"verdicts.{self.name}") if self.question else self.tables

    def checks_of(self, key: str) -> tuple[str, ...]:
        """Names of a table's checks; a SQL model's contract are its claims, so it has one check and not two."""
        own = tuple(self.check_names.get(key, ()))
        return (CONTRACT_CHECK, *own) if key in TABLES else own

    def is_blocking(self, check_name: str) -> bool:
        """Whether a failure of the check stops what is downstream."""
        return check_name not in {FIT_CHECK, *self.warning_checks}

    def configured(self, workspace: Workspace, facts: Mapping[str, Any] | None) -> str:
        """Hash of the values it is configured with for a benchmark, overrides apart."""
        settings = workspace.stage_settings(self.stage, facts)
        return values_hash({} if settings is None else settings.model_dump(mode="json"))


def stage_asset(
    *,
    stage: str,
    tables: Sequence[str],
    inputs: Sequence[str],
    question: str = "",
    is_long: bool = False,
    uses_full: bool = False,
    always_runs: bool = False,
    tolerates_missing: bool = False,
    run_fields: Mapping[str, str] | None = None,
    kinds: Sequence[str] = ("python", "deltalake"),
    check_names: Mapping[str, Sequence[str]] | None = None,
    warning_checks: Sequence[str] = (),
) -> Callable[[Body], StageAsset]:
    """Declare a function of (part, settings) as a step; its docstring becomes the description in the UI."""

    def declare(body: Body) -> StageAsset:
        contracts = "|".join(str(TABLES[key].arrow_schema) for key in tables)
        return StageAsset(
            name=body.__name__,
            stage=stage,
            tables=tuple(tables),
            inputs=tuple(inputs),
            body=body,
            code_version=f"{code_version(body)}-{values_hash({'contracts': contracts})[:8]}",
            description=inspect.getdoc(body) or "",
            question=question,
            is_long=is_long,
            uses_full=uses_full,
            always_runs=always_runs,
            tolerates_missing=tolerates_missing,
            run_fields=run_fields or {},
            kinds=frozenset(kinds),
            check_names=check_names or {},
            warning_checks=frozenset(warning_checks),
            table_descriptions={key: TABLES[key].description for key in tables},
        )

    return declare


def build_asset(step: StageAsset) -> dg.AssetsDefinition:
    """The Dagster multi-asset of a step, one partition a benchmark."""

    @dg.multi_asset(
        name=step.name,
        specs=[_spec(step, key) for key in step.outputs],
        check_specs=[
            dg.AssetCheckSpec(
                name, asset=asset_key(key), blocking=step.is_blocking(name), description=CHECKS_SAY.get(name)
            )
            for key in step.outputs
            for name in step.checks_of(key)
        ],
        partitions_def=BENCHMARKS,
        config_schema=config_fields(STAGE_SETTINGS.get(step.stage), step.run_fields),
        required_resource_keys={"workspace"},
        can_subset=False,
    )
    def materialize(context: dg.AssetExecutionContext) -> Iterator[Any]:
        yield from _run(context, step)

    return materialize


def _spec(step: StageAsset, key: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key(key),
        deps=[asset_key(read) for read in step.inputs],
        group_name=step.stage,
        description="\n\n".join(filter(None, (step.table_descriptions.get(key), step.description))),
        code_version=step.code_version,
        automation_condition=_condition(step),
        owners=OWNERS,
        kinds=set(step.kinds),
        metadata=_static_metadata(key),
    )


def _condition(step: StageAsset) -> dg.AutomationCondition[Any] | None:
    if step.is_long or step.always_runs:
        return None
    return follow_data_versions(tolerates_missing=step.tolerates_missing)


def described(column: Column) -> str:
    """A column's meaning, its unit in brackets."""
    return f"{column.meaning} [{column.unit}]" if column.unit else column.meaning


def _static_metadata(key: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"table": key, "sql": sql_line(key)}
    if key in TABLES:
        metadata["grain"] = ", ".join(TABLES[key].grain)
        metadata["dagster/column_schema"] = dg.TableSchema(
            [
                dg.TableColumn(column.name, str(column.type), description=described(column))
                for column in TABLES[key].columns
            ]
        )
    return metadata


def _run(context: dg.AssetExecutionContext, step: StageAsset) -> Iterator[Any]:
    workspace: Workspace = context.resources.workspace
    benchmark_id = context.partition_key
    config = dict(context.op_execution_context.op_config or {})
    is_full = bool(config.pop("full", False))
    is_forced = bool(config.pop("rebuild", False)) or step.always_runs
    run_config = {name: config.pop(name, None) for name in step.run_fields}
    overrides = {name: value for name, value in config.items() if value is not None}
    with workspace.benchmark_lock(benchmark_id):
        undo_unfinished(workspace, context.instance, benchmark_id)
        facts = workspace.benchmark(benchmark_id)
        settings = workspace.stage_settings(step.stage, facts, overrides)
        if step.uses_full and is_full:
            overrides = {**overrides, "full": True}
        records = latest_records(context.instance, {*step.inputs, *step.outputs}, [benchmark_id])
        inputs = {key: _version(records, key, benchmark_id) for key in step.inputs}
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
            numbers = {**outcome.numbers, "cpu_seconds": round(time.process_time() - started, 3)}
            yield from write_outputs(workspace, benchmark_id, step, outcome, record, numbers)
        finally:
            if outcome.scratch is not None:
                shutil.rmtree(outcome.scratch, ignore_errors=True)


def _version(records: Mapping[tuple[str, str | None], VersionRecord], key: str, benchmark_id: str) -> str:
    record = records.get((key, benchmark_id)) or records.get((key, None))
    return record.data_version if record else NEVER


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
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(limits=1):
            made = step.body(part, settings)
    except StageSkipped as skipped:
        sentence = f"Not answered for {part.benchmark_id}: {skipped}."
        return StageResult(
            tables={key: empty(TABLES[key]) for key in step.tables if key in TABLES},
            verdicts=[Verdict(step.question, sentence, "")] if step.question else [],
            numbers={"is_skipped": 1},
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
            written = workspace.lake.write(key, benchmark_id, table, clock_columns=clock_columns(key))
            told.append((key, recorded(record, key, written, outcome), shown))
        for key, made, shown in told:
            page = page_of_part(workspace, key, benchmark_id, shown, sentences_on(made, outcome))
            yield materialized(workspace, step, key, made, {**page, **numbers, "reused": False})


def recorded(record: VersionRecord, key: str, written: PartVersion, outcome: StageResult) -> VersionRecord:
    """The record of an output as it was written, with what its checks found."""
    checks = {}
    if key in TABLES:
        checks[CONTRACT_CHECK] = (True, f"{written.n_rows} rows; columns, types, keys and grain are as declared.")
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
