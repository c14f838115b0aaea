"""The identification part of the stage `studies`: policies on planted worlds of known gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capeval_pipeline.orchestration.assets.studies import STUDY_SEED, Study

if TYPE_CHECKING:
    import pandas as pd


def _identification_gaps() -> pd.DataFrame:
    import pandas as pd

    from capeval_pipeline.methods.identification.gap_study import identification_gaps

    return pd.DataFrame(
        [
            {
                "world": row.world,
                "gap": row.gap,
                "policy": row.point.policy,
                "pull_budget": row.point.pull_budget,
                "accuracy": row.point.accuracy,
                "n_runs": row.point.n_runs,
            }
            for row in identification_gaps(seed=STUDY_SEED)
        ]
    )


IDENTIFICATION_STUDIES: tuple[Study, ...] = (Study("studies.identification_gaps", _identification_gaps),)
