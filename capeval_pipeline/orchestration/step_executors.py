"""What runs the steps of a run that the UI, a sensor or a schedule launched. `capeval run` always runs them itself."""

from typing import NoReturn

import dagster as dg

from capeval_pipeline.errors import UsageError
from capeval_pipeline.settings import Settings

KUBERNETES = "k8s_job"


def step_executor(settings: Settings) -> dg.ExecutorDefinition:
    """The run's own process, or a Kubernetes job for each step.

    Image, secrets and volumes of the jobs are those of the run (Helm chart: of the code location); see deploy/.
    Without the package for jobs it is the launched run that fails: whoever launches none has no use for it.
    """
    if settings.step_executor != KUBERNETES:
        return dg.in_process_executor
    try:
        return kubernetes_executor(settings)
    except UsageError as error:
        return _missing(str(error))


def kubernetes_executor(settings: Settings) -> dg.ExecutorDefinition:
    """A Kubernetes job for each step. Raises UsageError without the package for it."""
    try:
        from dagster_k8s import k8s_job_executor
    except ImportError as error:
        raise UsageError("step_executor k8s_job needs the extra 'k8s', which is not installed") from error
    return k8s_job_executor.configured({"max_concurrent": settings.n_workers}, name=KUBERNETES)


def _missing(why: str) -> dg.ExecutorDefinition:
    @dg.executor(name=KUBERNETES)
    def refuse(_: dg.InitExecutorContext) -> NoReturn:
        raise UsageError(why)

    return refuse
