"""A binary world whose logits have low rank: what the identification stage can learn from other models."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class LowRankWorld:
    """probability and scores are (n_items, n_models); scores are 0 or 1, one draw a cell."""

    probability: FloatArray
    scores: FloatArray


def make_low_rank_world(
    *, n_items: int, n_models: int, rank: int, rng: np.random.Generator, skill_sd: float = 0.7
) -> LowRankWorld:
    """Scores ~ Bernoulli(σ(skill + loading · factor − difficulty)), all drawn standard normal but for their scale.

    rank : number of factors beside skill and difficulty, whose loadings have standard deviation 0.8

    Raises ValueError for a size below 1 or a negative rank.
    """
    if min(n_items, n_models) < 1 or rank < 0:
        raise ValueError("a world needs at least one item and model, and a rank of 0 or more")
    skill = rng.normal(0.2, skill_sd, n_models)
    difficulty = rng.normal(0.0, 1.2, n_items)
    loading = rng.normal(0.0, 0.8, (n_models, rank))
    factor = rng.normal(0.0, 1.0, (n_items, rank))
    # einsum and not a BLAS product: its last bits must not depend on the number of threads.
    probability = expit(skill[None, :] - difficulty[:, None] + np.einsum("nr,mr->nm", factor, loading))
    scores = (rng.random((n_items, n_models)) < probability).astype(np.float64)
    return LowRankWorld(probability, scores)
