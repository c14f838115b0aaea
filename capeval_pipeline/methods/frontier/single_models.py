"""What a frontier is compared with: the best single model, and mixing models without looking at the item."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval_pipeline.methods.frontier.exact import Frontier, exact_frontier

FloatArray = NDArray[np.float64]
FEW_ITEMS = 200
_N_HALVINGS = 20


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


def held_out_best(cell_quality: FloatArray, *, rng: np.random.Generator) -> float:
    """Quality of the model that is best on one half of the items, measured on the other; mean over 20 keyed halvings.

    cell_quality : (n_items, n_models), NaN where unknown. The best single model's mean is a maximum of L means itself:
    on few items it is too high by luck, and this is what such a choice is worth on items that did not make it. Both
    ways round, so every item counts once a halving. NaN below four items.
    """
    n_items = len(cell_quality)
    if n_items < 4:
        return float("nan")
    total = 0.0
    for _ in range(_N_HALVINGS):
        order = rng.permutation(n_items)
        halves = cell_quality[order[: n_items // 2]], cell_quality[order[n_items // 2 :]]
        for choosing, scoring in (halves, halves[::-1]):
            with_score = ~np.isnan(choosing).all(axis=0) & ~np.isnan(scoring).all(axis=0)
            means = np.full(cell_quality.shape[1], -np.inf)
            means[with_score] = np.nanmean(choosing[:, with_score], axis=0)
            total += float(np.nanmean(scoring[:, int(np.argmax(means))]))
    return total / (2 * _N_HALVINGS)
