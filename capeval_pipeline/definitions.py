"""Assembles what Dagster loads: `defs` for the workspace the environment names, or build_definitions for another."""

import dagster as dg

from capeval_pipeline.kernel_cache import use_kernel_cache
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.identification_studies import IDENTIFICATION_STUDIES
from capeval_pipeline.orchestration.assets.marts import build_marts
from capeval_pipeline.orchestration.assets.report import build_report, build_report_check
from capeval_pipeline.orchestration.assets.studies import FRONTIER_STUDIES, build_studies
from capeval_pipeline.orchestration.automation import automatic_jobs, freshness, schedules, sensors
from capeval_pipeline.orchestration.ingest_job import ingest_job
from capeval_pipeline.orchestration.jobs import jobs
from capeval_pipeline.orchestration.step_assets import build_asset
from capeval_pipeline.orchestration.step_executors import step_executor
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings, load_settings


def build_definitions(settings: Settings) -> dg.Definitions:
    """All assets, jobs, sensors and schedules on one workspace."""
    use_kernel_cache(settings.cache / "kernels")
    graph = build_graph()

    def job(name: str) -> dg.JobDefinition:
        return definitions.resolve_job_def(name)

    definitions = dg.Definitions(
        assets=[
            *(build_asset(step) for step in graph.steps),
            build_marts(graph.project, graph.steps, freshness(settings)),
            build_report(graph.project),
            *build_studies([*FRONTIER_STUDIES, *IDENTIFICATION_STUDIES]),
        ],
        jobs=[*jobs(), ingest_job(), *automatic_jobs(job)],
        sensors=sensors(),
        schedules=schedules(settings),
        asset_checks=[build_report_check(graph.project)],
        executor=step_executor(settings),
        resources={"workspace": dg.ResourceDefinition.hardcoded_resource(Workspace(settings))},
    )
    return definitions


defs = build_definitions(load_settings())
