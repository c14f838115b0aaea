"""What a frontier is compared with: the best single model, and mixing models without looking at the item."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval_pipeline.methods.frontier.exact import Frontier, exact_frontier

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class BestModel:
    """Index of the best single model, its mean quality and its mean cost (NaN where costs are unknown)."""

    index: int
    quality: float
    cost_usd: float


def best_single_model(mean_quality: ArrayLike, mean_cost_usd: ArrayLike | None = None) -> BestModel:
    """The model with the highest mean quality, ties (within 1e-12) to the cheaper, then to the first.

    mean_quality, mean_cost_usd : (n_models,). Raises ValueError where no model has a quality.
    """
    quality = np.asarray(mean_quality, dtype=np.float64)
    cost = np.full(quality.shape, np.nan) if mean_cost_usd is None else np.asarray(mean_cost_usd, dtype=np.float64)
    if quality.size == 0 or np.isnan(quality).all():
        raise ValueError("no model has a quality")
    tied = np.flatnonzero(quality >= np.nanmax(quality) - 1e-12)
    known = tied[~np.isnan(cost[tied])]
    index = int(known[np.argmin(cost[known])]) if known.size else int(tied[0])
    return BestModel(index, float(quality[index]), float(cost[index]))


def constant_mixture(mean_quality: ArrayLike, mean_cost_usd: ArrayLike) -> Frontier:
    """Upper-left hull of the models' (mean cost, mean quality): a share of calls to each, whatever the item."""
    return exact_frontier(np.atleast_2d(np.asarray(mean_quality)), np.atleast_2d(np.asarray(mean_cost_usd)))
