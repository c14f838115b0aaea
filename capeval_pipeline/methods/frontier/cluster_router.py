"""A router one could build: it knows an item's clusters beforehand, and what models did on other items of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.frontier.simultaneous import simultaneous_half_width

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
_PSEUDO_ITEMS = 20.0


@dataclass(frozen=True, eq=False)
class RouterCurve:
    """Mean cost and mean quality on the test items, one point a price, by rising cost; ties in cost keep the better.

    lower, upper : 95 % limits of the quality at all points at once, for items of this kind (draws of the test items
        and the items themselves; the training items are taken as given)
    best_index, best_quality, best_cost : the single model that is best on the training items, on the test items
    item_cost, item_quality : (n_test_items, n_points) of the chosen cells; best_item_quality : (n_test_items,)
    rows : (n_test_items,) the test items with an option
    """

    cost: FloatArray
    quality: FloatArray
    lower: FloatArray
    upper: FloatArray
    best_index: int
    best_quality: float
    best_cost: float
    item_cost: FloatArray
    item_quality: FloatArray
    best_item_quality: FloatArray
    rows: IntArray

    def quality_at(self, budget: float) -> float:
        """Quality at a mean cost, mixing neighbouring policies; NaN below the cheapest, flat after the dearest."""
        return self.read(self.quality, budget)

    def read(self, values: FloatArray, budget: float) -> float:
        """One of the curves (quality, lower, upper) at a mean cost."""
        if budget < self.cost[0] * (1 - 1e-12):
            return float("nan")
        return float(np.interp(budget, self.cost, values))

    def gain_limits(self, n_resamples: int, rng: np.random.Generator) -> tuple[float, float]:
        """95 % limits of quality at C₀ minus the best single model's, by resampling test items (both move together)."""
        n_test = len(self.rows)
        scored = ~np.isnan(self.best_item_quality)
        weight = rng.multinomial(n_test, np.full(n_test, 1.0 / n_test), size=n_resamples) / n_test
        costs, qualities = weight @ self.item_cost, weight @ self.item_quality
        total = weight @ scored
        best = weight @ np.where(scored, self.best_item_quality, 0.0) / np.where(total > 0, total, np.nan)
        gains = np.empty(n_resamples)
        for index in range(n_resamples):
            order = np.argsort(costs[index], kind="stable")
            gains[index] = np.interp(self.best_cost, costs[index, order], qualities[index, order]) - best[index]
        gains = gains[~np.isnan(gains)]
        if not scored.any() or gains.size == 0:
            return float("nan"), float("nan")
        low, high = np.quantile(gains, [0.025, 0.975])
        return float(low), float(high)


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
    chosen_by_price = []
    for price in prices:
        worth = responsibility[rows] @ (train_quality - price * train_cost)
        chosen_by_price.append(np.argmax(np.where(known[rows], worth, -np.inf), axis=1))
    item_cost = np.stack([cost[rows, chosen] for chosen in chosen_by_price], axis=1)
    item_quality = np.stack([quality[rows, chosen] for chosen in chosen_by_price], axis=1)
    kept = _rising_costs(item_cost.mean(axis=0), item_quality.mean(axis=0))
    item_cost, item_quality = item_cost[:, kept], item_quality[:, kept]
    best = int(np.argmax(_overall_means(quality, known, ~is_test)))
    best_items = np.where(known[rows, best], quality[rows, best], np.nan)
    scored = rows[known[rows, best]]
    mean = item_quality.mean(axis=0)
    width = simultaneous_half_width(item_quality, n_multipliers=300, rng=np.random.default_rng([len(rows), 71]))
    return RouterCurve(
        cost=item_cost.mean(axis=0),
        quality=mean,
        lower=np.maximum(mean - width, min(float(np.nanmin(quality)), 0.0)),
        upper=np.minimum(mean + width, max(float(np.nanmax(quality)), 1.0)),
        best_index=best,
        best_quality=float(quality[scored, best].mean()) if scored.size else float("nan"),
        best_cost=float(cost[scored, best].mean()) if scored.size else float("nan"),
        item_cost=item_cost,
        item_quality=item_quality,
        best_item_quality=best_items,
        rows=rows,
    )


def _rising_costs(cost: FloatArray, quality: FloatArray) -> IntArray:
    """Indices of the points by rising cost; of points that cost the same, the better."""
    order = np.lexsort((-quality, cost))
    is_first = np.concatenate(([True], np.diff(cost[order]) > 0))
    return np.asarray(order[is_first])


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
