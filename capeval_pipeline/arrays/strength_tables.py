"""Strengths, ranks and pairs of models as tables."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from capeval_pipeline.methods.paired_tests import PairComparisons
from capeval_pipeline.methods.ranking import Ranking, Strengths

FloatArray = npt.NDArray[np.float64]
VERDICTS = np.array(["b_better", "cannot_tell", "a_better"], dtype=object)
"""By verdict + 1."""


def strengths_frame(
    models: Sequence[str],
    means: tuple[FloatArray, FloatArray, FloatArray],
    n_items: npt.ArrayLike,
    strengths: Strengths,
    ranking: Ranking,
) -> pd.DataFrame:
    """Rows of estimates.strengths; means : mean score, lower, upper, each (n_models,)."""
    mean, lower, upper = means
    return pd.DataFrame(
        {
            "model_id": np.asarray(models, dtype=object),
            "mean_score": mean,
            "score_lower": lower,
            "score_upper": upper,
            "strength": strengths.strength,
            "lower": strengths.lower,
            "upper": strengths.upper,
            "rank": ranking.rank,
            "rank_lower": ranking.rank_lower,
            "rank_upper": ranking.rank_upper,
            "tie_group": ranking.tie_group,
            "n_items": n_items,
            "component_id": strengths.component,
            "is_separated": strengths.is_separated,
        }
    )


def model_pairs_frame(models: Sequence[str], pairs: PairComparisons, shown: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Rows of estimates.model_pairs; shown : positions of the pairs that are kept."""
    names = np.asarray(models, dtype=object)
    first, second = pairs.first[shown], pairs.second[shown]
    return pd.DataFrame(
        {
            "model_a_id": names[first],
            "model_b_id": names[second],
            "n_shared_items": pairs.n_shared[shown],
            "difference": pairs.difference[shown],
            "lower": pairs.lower[shown],
            "upper": pairs.upper[shown],
            "p_value": pairs.p_value[shown],
            "p_adjusted": pairs.p_adjusted[shown],
            "verdict": VERDICTS[pairs.verdict[first, second].astype(np.int64) + 1],
        }
    )
