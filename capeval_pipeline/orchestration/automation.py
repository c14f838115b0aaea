"""What runs by itself: the sensors that follow changes and watch the inbox, the nightly and weekly schedules."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from capeval_pipeline.counting import counted
from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.marts import published_keys
from capeval_pipeline.orchestration.graph import Request
from capeval_pipeline.orchestration.run_processes import end_dead_runs, mark_run
from capeval_pipeline.orchestration.whole_changes import is_any_unfinished
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.locks import file_lock

NIGHTLY, WEEKLY = "nightly_refresh", "weekly_studies"
INBOX_JOB = "ingest_inbox"


def sensors() -> Sequence[Any]:
    """Both run from the start: one follows changed data versions to what they feed, one watches the inbox."""

    @dg.sensor(
        name="inbox",
        job_name=INBOX_JOB,
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"workspace"},
        description="Reads files dropped into inbox/<benchmark>/ once they are whole, each content once.",
    )
    def inbox(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        workspace: Workspace = context.resources.workspace
        end_dead_runs(context.instance)
        return watch_inbox(workspace.settings.inbox, context.cursor, time.time(), partial(fate, context.instance))

    return [
        inbox,
        dg.AutomationConditionSensorDefinition(
            "follow_changes",
            target=dg.AssetSelection.all(),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
        ),
    ]


ATTEMPTS = 3
"""Runs for the same content, if they are killed, cancelled or fail."""

Fate = Literal["ended well", "lost", "runs", "unknown"]


def fate(instance: dg.DagsterInstance, run_key: str) -> Fate:
    """What became of the run that was asked for under a key."""
    found = instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": run_key}), limit=1)
    if not found:
        return "unknown"
    if found[0].status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        return "lost"
    return "ended well" if found[0].status == dg.DagsterRunStatus.SUCCESS else "runs"


def watch_inbox(
    inbox: Path, cursor: str | None, at: float, fate_of: Callable[[str], Fate] = lambda _: "ended well"
) -> dg.SensorResult | dg.SkipReason:
    """One look at the inbox: run requests for what is whole and new, and what to remember until the next look.

    The cursor holds what was seen, what was taken, and what was asked for. A file is taken once; one that was refused
    is not tried again until it changes, but one whose run was killed or cancelled or failed is, ATTEMPTS times in all.
    `at` is the present time in seconds.
    """
    from capeval_pipeline.ingestion.inbox import look, settled, taken_by

    memory = json.loads(cursor) if cursor else {"seen": {}, "taken": {}}
    before = {name: tuple(signature) for name, signature in memory["seen"].items()}
    taken = {name: tuple(signature) for name, signature in memory["taken"].items()}
    asked: dict[str, list[str]] = {}
    again: list[str] = []
    for key, paths in memory.get("asked", {}).items():
        end = fate_of(key)
        n_before = int(key.partition("#")[2] or 1)
        if end == "lost" and n_before < ATTEMPTS:
            key = f"{key.partition('#')[0]}#{n_before + 1}"
        if end in ("runs", "unknown") or (end == "lost" and n_before < ATTEMPTS):
            asked[key] = paths
            again += [key] if end != "runs" else []  # one that never came to be is asked for under its own key
    now = look(inbox)
    taken = {name: signature for name, signature in taken.items() if name in now}
    for whole in settled(inbox, before, now, taken, at):
        taken |= taken_by(whole, inbox, now)
        asked[whole.key] = [str(path) for path in whole.paths]
        again.append(whole.key)
    requests = [
        dg.RunRequest(run_key=key, run_config={"ops": {"take_in": {"config": {"paths": asked[key]}}}}) for key in again
    ]
    remembered = {"seen": now, "taken": taken} | ({"asked": asked} if asked else {})
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(remembered))


def inbox_job(job: driver.JobSource) -> dg.JobDefinition:
    """The job behind the inbox sensor: reads the paths it is given as `capeval ingest` would."""

    @dg.op(
        name="take_in",
        required_resource_keys={"workspace"},
        config_schema={"paths": dg.Field([str], description="Files and folders to read.")},
    )
    def take_in(context: dg.OpExecutionContext) -> None:
        from capeval_pipeline.orchestration import intake

        workspace: Workspace = context.resources.workspace
        mark_run(context.instance, context.run)
        paths = [Path(path) for path in context.op_config["paths"] if Path(path).exists()]
        batch = intake.take_in(workspace, context.instance, job, paths, lambda doing, *_: context.log.info(doing))
        for report in batch.reports:
            first = f": {report.rejections[0].message}" if report.rejections else ""
            context.log.info(f"{report.path}: {report.status}, {report.n_kept} of {report.n_read} kept{first}")

    @dg.job(name=INBOX_JOB, description="Reads files of the inbox into the raw tables of their benchmarks.")
    def ingest_inbox() -> None:
        take_in()

    return ingest_inbox


def automatic_jobs(job: driver.JobSource) -> list[dg.JobDefinition]:
    """Jobs of the schedules and of the inbox: everything stale, the full size with the studies, reading new files.

    job gives the jobs they run by name: those of the definitions that these jobs themselves become a part of.
    """

    @dg.op(name="refresh_everything", required_resource_keys={"workspace"})
    def refresh_everything(context: dg.OpExecutionContext) -> None:
        _refresh(context, job, Request())
        context.log.info(clean(context.resources.workspace))

    @dg.op(name="refresh_at_full_size", required_resource_keys={"workspace"})
    def refresh_at_full_size(context: dg.OpExecutionContext) -> None:
        _refresh(context, job, Request(is_full=True, with_studies=True))

    @dg.job(name=NIGHTLY, description="Everything stale of every benchmark, then publish, then clean the lake.")
    def nightly() -> None:
        refresh_everything()

    @dg.job(name=WEEKLY, description="The long evaluations and the full size of every benchmark, then publish.")
    def weekly() -> None:
        refresh_at_full_size()

    return [nightly, weekly, inbox_job(job)]


def schedules(settings: Settings) -> Sequence[Any]:
    """Both schedules, off until turned on in the UI; when they run stands in the settings."""
    return [
        dg.ScheduleDefinition(
            name=f"{name}_schedule",
            job_name=name,
            cron_schedule=cron,
            execution_timezone=settings.time_zone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
        )
        for name, cron in ((NIGHTLY, settings.nightly_cron), (WEEKLY, settings.weekly_cron))
    ]


def freshness(settings: Settings) -> dg.FreshnessPolicy | None:
    """When the UI marks marts stale: after the days in the settings, with a warning from half of them; None: never.

    By the clock, whatever the reason: also where nothing new has come in.
    """
    days = settings.freshness_days
    if not days:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(days=days), warn_window=timedelta(days=days / 2))


def clean(workspace: Workspace) -> str:
    """Delete what neither the lake's retention nor a published database needs; returns a sentence about it.

    Nothing while a change waits to be undone: what it replaced may be older than the retention.
    """
    from capeval_pipeline.storage.retention import clean_lake

    settings = workspace.settings
    with file_lock(settings.root / "locks" / "publish.lock"):
        if is_any_unfinished(workspace):
            return "no file deleted: a change that was cut short is undone by the next `capeval run`, then clean again"
        n_deleted = clean_lake(
            workspace.lake,
            published_keys(build_graph().steps),
            settings.warehouse_folder,
            retention_days=settings.log_retention_days,
        )
    return f"{counted(n_deleted, 'file')} of the lake deleted that nothing names any more"


def _refresh(context: dg.OpExecutionContext, job: driver.JobSource, request: Request) -> None:
    """`capeval run` inside a Dagster run: same driver, same instance; raises with every failure in one message."""
    workspace: Workspace = context.resources.workspace
    mark_run(context.instance, context.run)
    report = driver.run(job, workspace, context.instance, [], request, lambda doing, *_: context.log.info(doing))
    failure = driver.failure_of(report)
    if failure:
        raise failure
