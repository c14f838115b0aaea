"""A router one could build: it knows an item's clusters beforehand, and what models did on other items of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
_PSEUDO_ITEMS = 20.0


@dataclass(frozen=True, eq=False)
class RouterCurve:
    """Mean cost and mean quality on the test items, one point a price, by rising cost; ties in cost keep the better.

    best_index, best_quality, best_cost : the single model that is best on the training items, on the test items
    """

    cost: FloatArray
    quality: FloatArray
    best_index: int
    best_quality: float
    best_cost: float

    def quality_at(self, budget: float) -> float:
        """Quality at a mean cost, mixing neighbouring policies; NaN below the cheapest, flat after the dearest."""
        if budget < self.cost[0] * (1 - 1e-12):
            return float("nan")
        return float(np.interp(budget, self.cost, self.quality))


def cluster_router_curve(
    quality: FloatArray, cost: FloatArray, responsibility: FloatArray, is_test: BoolArray, prices: FloatArray
) -> RouterCurve:
    """Per cluster and price t choose argmax of the training mean of score − t·cost, and score the choice on test items.

    quality, cost : (n_items, n_models), NaN where unknown (no option)
    responsibility : (n_items, n_clusters), rows sum to 1; must not rest on the test items' outcomes
    is_test : (n_items,); prices : (n_prices,) from 0 up

    A cluster's mean is shrunk to the model's overall mean with 20 pseudo-items; a model without a training item is
    never chosen. Raises ValueError without training or test items.
    """
    if not is_test.any() or is_test.all():
        raise ValueError("a router needs training items and test items")
    known = ~(np.isnan(quality) | np.isnan(cost))
    # A model nobody saw in training has no mean to be chosen by; a mean of 0 would make it free.
    known &= known[~is_test].any(axis=0)
    train_quality, train_cost = (_cluster_means(values, known, responsibility, ~is_test) for values in (quality, cost))
    rows = np.flatnonzero(is_test & known.any(axis=1))
    if rows.size == 0:
        raise ValueError("no test item has a score and a cost")
    points = []
    for price in prices:
        worth = responsibility[rows] @ (train_quality - price * train_cost)
        chosen = np.argmax(np.where(known[rows], worth, -np.inf), axis=1)
        points.append((float(cost[rows, chosen].mean()), float(quality[rows, chosen].mean())))
    by_cost: dict[float, float] = {}
    for point_cost, point_quality in points:
        by_cost[point_cost] = max(point_quality, by_cost.get(point_cost, -np.inf))
    costs = np.array(sorted(by_cost))
    train_mean = _overall_means(quality, known, ~is_test)
    best = int(np.argmax(train_mean))
    scored = rows[known[rows, best]]
    return RouterCurve(
        costs,
        np.array([by_cost[value] for value in costs]),
        best,
        float(quality[scored, best].mean()) if scored.size else float("nan"),
        float(cost[scored, best].mean()) if scored.size else float("nan"),
    )


def one_hot(labels: NDArray[np.object_]) -> FloatArray:
    """Responsibilities of known categories, (n_items, n_categories); items without one share a category."""
    names = np.array([label if isinstance(label, str) else "" for label in labels])
    unique, codes = np.unique(names, return_inverse=True)
    return np.asarray(np.eye(len(unique))[codes])


def _overall_means(values: FloatArray, known: BoolArray, rows: BoolArray) -> FloatArray:
    part, is_known = np.where(known, values, 0.0)[rows], known[rows]
    total = is_known.sum(axis=0)
    return np.where(total > 0, part.sum(axis=0) / np.maximum(total, 1), -np.inf)


def _cluster_means(values: FloatArray, known: BoolArray, responsibility: FloatArray, rows: BoolArray) -> FloatArray:
    """(n_clusters, n_models), shrunk to the model's mean over the rows."""
    part, is_known = np.where(known, values, 0.0)[rows], known[rows].astype(np.float64)
    overall = part.sum(axis=0) / np.maximum(is_known.sum(axis=0), 1.0)
    weight = responsibility[rows].T @ is_known
    return np.asarray((responsibility[rows].T @ part + _PSEUDO_ITEMS * overall) / (weight + _PSEUDO_ITEMS))
