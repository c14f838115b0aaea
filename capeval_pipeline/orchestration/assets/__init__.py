"""The steps of the pipeline, a module a stage, and the graph they make together with the SQL models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from capeval_pipeline.orchestration.assets.capabilities import CAPABILITY_STEPS
from capeval_pipeline.orchestration.assets.derive import derive_steps
from capeval_pipeline.orchestration.assets.frontier import frontier
from capeval_pipeline.orchestration.assets.identification import identification
from capeval_pipeline.orchestration.assets.ingest import ingest
from capeval_pipeline.orchestration.assets.partition_state import partition_state
from capeval_pipeline.orchestration.graph import in_order
from capeval_pipeline.orchestration.stages import StageAsset
from capeval_pipeline.storage.sql_models import SqlProject, load_project

PYTHON_STEPS: tuple[StageAsset, ...] = (ingest, *CAPABILITY_STEPS, identification, frontier)
"""Steps written in Python, any order."""


@dataclass(frozen=True)
class Graph:
    """Steps of a benchmark in the order they run, and the SQL models."""

    steps: Sequence[StageAsset]
    project: SqlProject


@cache
def build_graph() -> Graph:
    """All steps of a benchmark, the gate to the marts last."""
    project = load_project()
    steps = [*PYTHON_STEPS, *derive_steps(project.models.values())]
    return Graph(in_order([*steps, partition_state(steps)]), project)
