"""The gate between benchmarks and marts: one row a benchmark, new only when any of its tables is new."""

from collections.abc import Iterable

from capeval_pipeline.orchestration.records import values_hash
from capeval_pipeline.orchestration.stages import Part, StageAsset, StageResult, stage_asset

GATE = "meta.partition_state"


def partition_state(steps: Iterable[StageAsset]) -> StageAsset:
    """The step that waits for all tables of a benchmark; `steps` are all others."""

    @stage_asset(
        stage="marts",
        tables=[GATE],
        inputs=sorted(key for step in steps for key in step.outputs),
        tolerates_missing=True,
    )
    def partition_state(part: Part, _: None) -> StageResult:
        """State of a benchmark: the data versions of all its tables together, so that marts listen to one asset."""
        import pandas as pd

        state = pd.DataFrame({"data_version": [values_hash(part.input_versions)]})
        return StageResult(tables={GATE: state})

    return partition_state
