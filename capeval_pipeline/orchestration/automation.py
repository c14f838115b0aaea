"""What runs by itself: the automation sensor that follows changes, and the nightly and weekly schedules."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.graph import Request
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings

NIGHTLY, WEEKLY = "nightly_refresh", "weekly_studies"


def sensors() -> Sequence[Any]:
    """The automation sensor, running from the start: it follows changed data versions to what they feed."""
    return [
        dg.AutomationConditionSensorDefinition(
            "follow_changes",
            target=dg.AssetSelection.all(),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
        )
    ]


def scheduled_jobs(job: driver.JobSource) -> list[dg.JobDefinition]:
    """Jobs of the schedules: everything stale, and everything stale at full size with the studies.

    job gives the jobs they run by name: those of the definitions that these jobs themselves become a part of.
    """

    @dg.op(name="refresh_everything", required_resource_keys={"workspace"})
    def refresh_everything(context: dg.OpExecutionContext) -> None:
        _refresh(context, job, Request())

    @dg.op(name="refresh_at_full_size", required_resource_keys={"workspace"})
    def refresh_at_full_size(context: dg.OpExecutionContext) -> None:
        _refresh(context, job, Request(is_full=True))

    @dg.job(name=NIGHTLY, description="Everything stale of every benchmark, then publish.")
    def nightly() -> None:
        refresh_everything()

    @dg.job(name=WEEKLY, description="The long evaluations and the full size of every benchmark, then publish.")
    def weekly() -> None:
        refresh_at_full_size()

    return [nightly, weekly]


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


def _refresh(context: dg.OpExecutionContext, job: driver.JobSource, request: Request) -> None:
    """`capeval run` inside a Dagster run: same driver, same instance; raises with every failure in one message."""
    workspace: Workspace = context.resources.workspace
    report = driver.run(job, workspace, context.instance, [], request, context.log.info)
    failure = driver.failure_of(report)
    if failure:
        raise failure
