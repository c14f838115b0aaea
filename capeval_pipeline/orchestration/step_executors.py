"""What runs the steps of a run that the UI, a sensor or a schedule launched. `capeval run` always runs them itself."""

import dagster as dg

from capeval_pipeline.errors import UsageError
from capeval_pipeline.settings import Settings


def step_executor(settings: Settings) -> dg.ExecutorDefinition:
    """The run's own process, or a Kubernetes job for each step. Raises UsageError without the package for the latter.

    Image, secrets and volumes of the jobs are those of the run (Helm chart: of the code location); see deploy/.
    """
    if settings.step_executor == "in_process":
        return dg.in_process_executor
    try:
        from dagster_k8s import k8s_job_executor
    except ImportError as error:
        raise UsageError("step_executor k8s_job needs the extra 'k8s', which is not installed") from error
    return k8s_job_executor.configured({"max_concurrent": settings.n_workers}, name="k8s_job")
