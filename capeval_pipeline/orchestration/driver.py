"""What `capeval run` does: find what is stale, run it in process on the same definitions and instance as the UI."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import dagster as dg

from capeval_pipeline import errors
from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.orchestration.assets import Graph, build_graph
from capeval_pipeline.orchestration.assets.marts import are_published, inputs_hash, mart_keys, published_keys
from capeval_pipeline.orchestration.assets.report import are_written
from capeval_pipeline.orchestration.event_log import Entry, kept_open
from capeval_pipeline.orchestration.graph import STAGES, Request, StaleStep, stale_steps
from capeval_pipeline.orchestration.ingest_job import INGEST_JOB
from capeval_pipeline.orchestration.jobs import PUBLISH_JOB, REFRESH_JOB, REPORT_JOB, STUDIES_JOB
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import asset_key, latest_records
from capeval_pipeline.orchestration.run_processes import end_dead_runs, process_tags
from capeval_pipeline.orchestration.step_progress import StepCount
from capeval_pipeline.orchestration.whole_changes import undo_all_unfinished
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.reporting.benchmark_names import match_benchmark
from capeval_pipeline.storage.locks import file_lock

if TYPE_CHECKING:
    from capeval_pipeline.storage.held_back import HeldBack

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The console is the user's: errors come as one sentence at the end, the events stand in the UI."""

OWN_ERRORS = {
    name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, CapevalError)
}
"""Classes whose message is a sentence for the user."""

INTERRUPTED = "DagsterExecutionInterruptedError"
"""What an in-process run makes of Ctrl-C: the failure of the step it met."""


@dataclass(frozen=True)
class BenchmarkRun:
    """What happened to one benchmark: steps that ran, with why; steps that failed, with the error's one line."""

    benchmark_id: str
    ran: Sequence[StaleStep]
    failures: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class RunReport:
    """What one `capeval run` did."""

    benchmarks: Sequence[BenchmarkRun]
    is_published: bool
    publish_failure: str = ""
    report_failure: str = ""
    studies_failure: str = ""
    held_back: "Sequence[HeldBack]" = ()


JobSource = Callable[[str], dg.JobDefinition]
"""Gives a job of the definitions by name: `definitions.resolve_job_def`, or a loaded repository's `get_job`."""


@contextmanager
def workspace_instance(workspace: Workspace) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance under the workspace's data folder, the one `capeval up` shows.

    Opened by one process at a time: two that make the databases of a new workspace at once would spoil them for good.
    """
    home = workspace.settings.dagster_home
    os.environ["DAGSTER_HOME"] = str(home)
    with file_lock(workspace.settings.root / "locks" / "instance.lock"):
        prepare_home(home)
        opened = dg.DagsterInstance.from_config(str(home))
    with opened as instance:
        yield instance


def prepare_home(home: Path) -> None:
    """Make the folder and, where there is none yet, its dagster.yaml from the project's template."""
    home.mkdir(parents=True, exist_ok=True)
    target = home / "dagster.yaml"
    if not target.exists():
        template = Path(__file__).resolve().parents[2] / "dagster.yaml"
        target.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")


def run(
    job: JobSource,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    benchmarks: Sequence[str],
    request: Request,
    progress: Progress = nothing_said,
) -> RunReport:
    """Make what is stale of the benchmarks (all with an empty list), then publish if anything the marts read changed.

    A benchmark that fails does not stop the others; its failures are in the report.
    """
    from capeval_pipeline.storage.warehouse import benchmarks_held_back

    graph = build_graph()
    with kept_open(instance):
        end_dead_runs(instance)
        undo_all_unfinished(workspace, instance)
        chosen = list(benchmarks) or sorted(instance.get_dynamic_partitions(BENCHMARKS.name or ""))
        runs = []
        studies_failure = make_studies(job, instance, progress) if request.with_studies else ""
        read: dict[int, Entry] = {}
        planned = plans(workspace, instance, graph, chosen, request, read)
        count = StepCount(progress, [entry for plan in planned for entry in plan.ran])
        for plan in planned:
            if plan.ran:
                runs.append(run_steps(job, instance, plan.benchmark_id, plan.ran, request, count))
            else:
                runs.append(plan)
        # views name the files of a table that was built again, so they must be named again though no row is new
        is_forced = bool(request.rebuild)
        published, failure = publish(job, workspace, instance, graph, progress, read, is_forced=is_forced)
        report_failure = write_report(job, workspace, instance, graph, progress)
    held = benchmarks_held_back(workspace.settings.database)
    return RunReport(runs, published, failure, report_failure, studies_failure, held)


def plans(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    benchmarks: Sequence[str],
    request: Request,
    read: dict[int, Entry] | None = None,
) -> list[BenchmarkRun]:
    """What each benchmark would have to run. Raises UsageError on an unknown stage or table.

    read : events that were read, as `latest_records` takes and fills it.
    """
    if request.only and request.only not in STAGES:
        raise UsageError(f"no stage {request.only!r}; expected one of {', '.join(STAGES)}")
    keys = {key for step in graph.steps for key in step.outputs}
    if request.rebuild and request.rebuild not in keys:
        raise UsageError(f"no table {request.rebuild!r} is made by a step; expected one of {', '.join(sorted(keys))}")
    records = latest_records(instance, sorted(keys), benchmarks, read)
    facts = workspace.benchmarks()
    always = {key for step in graph.steps if step.always_runs for key in step.outputs}
    computed = {benchmark_id for key, benchmark_id in records if key not in always}
    # where no file could be read there is nothing to compute; where files were taken out, what was made must follow
    return [
        BenchmarkRun(name, stale_steps(graph.steps, name, records, workspace, facts.get(name), request))
        if name in facts or name in computed
        else BenchmarkRun(name, [])
        for name in benchmarks
    ]


def run_steps(
    job: JobSource,
    instance: dg.DagsterInstance,
    benchmark_id: str,
    stale: Sequence[StaleStep],
    request: Request | None = None,
    count: StepCount | None = None,
    run_config: Mapping[str, Mapping[str, str]] | None = None,
) -> BenchmarkRun:
    """One in-process run of some steps of one benchmark; run_config: step name → run field → value."""
    started = time.monotonic()
    request, count, run_id = request or Request(), count or StepCount(nothing_said, stale), str(uuid4())
    config: dict[str, dict[str, object]] = {}
    for entry in stale:
        step_config: dict[str, object] = {**(request.overrides or {}).get(entry.step.stage, {})}
        if request.is_full:
            step_config["full"] = True
        if request.rebuild in entry.step.outputs:
            step_config["rebuild"] = True
        step_config |= dict((run_config or {}).get(entry.step.name, {}))
        if step_config:
            config[entry.step.name] = {"config": step_config}
    with count.of_run(instance, run_id, benchmark_id):
        result = job(REFRESH_JOB).execute_in_process(
            instance=instance,
            run_id=run_id,
            partition_key=benchmark_id,
            asset_selection=[asset_key(key) for entry in stale for key in entry.step.outputs],
            run_config={"ops": config, **QUIET},
            tags=process_tags(),
            raise_on_error=False,
        )
    failures = _failures(result)
    if not result.success and not failures:
        failures["run"] = "the run failed; `capeval up` shows its log"
    return BenchmarkRun(benchmark_id, list(stale), failures, time.monotonic() - started)


def run_ingest(job: JobSource, instance: dg.DagsterInstance, staged: Path, benchmark_ids: Sequence[str]) -> None:
    """One run that commits readings staged in a folder. Raises CapevalError with the benchmarks that failed."""
    config = {"staged": str(staged), "benchmarks": list(benchmark_ids)}
    with kept_open(instance):
        result = job(INGEST_JOB).execute_in_process(
            instance=instance,
            run_config={"ops": {"commit_readings": {"config": config}}, **QUIET},
            tags=process_tags(),
            raise_on_error=False,
        )
    failures = _failures(result)
    if failures or not result.success:
        raise CapevalError("; ".join(failures.values()) or "the run failed; `capeval up` shows its log")


def publish(
    job: JobSource,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    progress: Progress = nothing_said,
    read: dict[int, Entry] | None = None,
    *,
    is_forced: bool = False,
) -> tuple[bool, str]:
    """Build and publish the warehouse unless it is fresh: (was built, the failure's one line or "").

    is_forced : though it is fresh.
    """
    lake_keys = published_keys(graph.steps)
    inputs = inputs_hash(latest_records(instance, lake_keys, known=read))
    made = latest_records(instance, mart_keys(graph.project))
    if not is_forced and are_published(workspace, graph.project, made, inputs):
        return False, ""
    progress("marts and the published database")
    result = job(PUBLISH_JOB).execute_in_process(
        instance=instance,
        run_config={"ops": {"publish": {"config": {"rebuild": is_forced}}}, **QUIET},
        tags=process_tags(),
        raise_on_error=False,
    )
    return result.success, "; ".join(_failures(result).values())


def make_studies(job: JobSource, instance: dg.DagsterInstance, progress: Progress = nothing_said) -> str:
    """Make the studies whose code changed: the failures' lines, or ""."""
    progress("studies on synthetic worlds")
    result = job(STUDIES_JOB).execute_in_process(
        instance=instance, run_config=dict(QUIET), tags=process_tags(), raise_on_error=False
    )
    return "; ".join(_failures(result).values())


def write_report(
    job: JobSource,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    progress: Progress = nothing_said,
) -> str:
    """Write the pages of what is published, unless they are fresh: the failure's one line, or ""."""
    if not workspace.settings.database.exists() or are_written(workspace, instance, graph.project):
        return ""
    progress("report pages")
    result = job(REPORT_JOB).execute_in_process(
        instance=instance, run_config=dict(QUIET), tags=process_tags(), raise_on_error=False
    )
    return "; ".join(_failures(result).values())


def _failures(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Step → its failure's sentence. Raises KeyboardInterrupt if Ctrl-C ended a step: nothing more is to be started."""
    failures = {event.step_key or "run": _reason_of(event) for event in result.all_events if event.is_step_failure}
    if any(INTERRUPTED in reason for reason in failures.values()):
        raise KeyboardInterrupt
    return failures


def _reason_of(event: dg.DagsterEvent) -> str:
    """The failure's sentence: that of our own error nearest the surface, else of the innermost cause."""
    error = event.step_failure_data.error
    if error is None:
        return "failed without an error"
    if any(phrase in error.to_string() for phrase in errors.FULL_DISK) and errors.DISK_IS_FULL not in error.to_string():
        return errors.DISK_IS_FULL
    while error.cause is not None and error.cls_name not in OWN_ERRORS:
        error = error.cause
    message = str(error.message).strip().splitlines()[0]
    return re.sub(r"^[\w.]+: ", "", message) if error.cls_name in OWN_ERRORS else message


def add_benchmarks(instance: dg.DagsterInstance, benchmark_ids: Sequence[str]) -> None:
    """Make benchmarks known to Dagster as partitions."""
    instance.add_dynamic_partitions(BENCHMARKS.name or "", list(benchmark_ids))


def resolve_benchmark(instance: dg.DagsterInstance, name: str) -> str:
    """A benchmark_id from an id or from a name that has one version. Raises UsageError listing what there is."""
    known = sorted(instance.get_dynamic_partitions(BENCHMARKS.name or ""))
    return match_benchmark(known, name)


def failure_of(report: RunReport) -> CapevalError | None:
    """The report's failures as one error, None without any."""
    lines = [
        f"{run.benchmark_id}: {name}: {reason}" for run in report.benchmarks for name, reason in run.failures.items()
    ]
    lines += [f"{held.benchmark_id}: {held.sentence}" for held in report.held_back]
    if report.publish_failure:
        lines.append(f"marts: {report.publish_failure}")
    if report.report_failure:
        lines.append(f"report: {report.report_failure}")
    if report.studies_failure:
        lines.append(f"studies: {report.studies_failure}")
    return CapevalError("\n".join(lines)) if lines else None
