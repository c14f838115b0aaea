"""Cross-fitting: choose a model on some draws of an item, score the choice on the others.

The choice is a policy one could have followed, so its expected score is at most the oracle's: the lower end of the
bracket. Draws are split independently in each cell; costs are split together with the scores.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CrossFitSupport:
    """V of the cross-fitted choice: mean over items of score − t·cost on draws that did not choose.

    value : (n_items, n_prices); cost, quality : (n_items, n_prices) of the chosen cells
    start_cost : mean cost of choosing the cheapest model; below it there is no policy
    draw_variance : (n_items, n_prices), variance of score − t·cost over the draws of the chosen cell, for half of them
    """

    value: FloatArray
    start_cost: float
    draw_variance: FloatArray


def leave_one_out_value(
    scores: FloatArray, held_out: IntArray, *, within_variance: float, cost: FloatArray | None
) -> FloatArray:
    """Per item, the mean over splits of the held-out score of the model chosen on the other draws.

    scores : (n_items, n_models, n_generations ≥ 2), NaN cells are no option
    held_out : (n_splits, n_items, n_models) index of the draw left out in each cell
    within_variance : variance of a draw in its cell, for the shrinkage of the choosing score
    cost : as scores; ties go to the cheaper on the choosing draws. Without costs they go to the first model.
    """
    n_generations = scores.shape[2]
    if n_generations < 2:
        raise ValueError("cross-fitting needs two draws a cell")
    score_sum = scores.sum(axis=2)
    cost_sum = None if cost is None else cost.sum(axis=2)
    total = np.zeros(scores.shape[0])
    for held in held_out:
        scored = np.take_along_axis(scores, held[:, :, None], axis=2)[:, :, 0]
        choosing = shrunken_scores((score_sum - scored) / (n_generations - 1), within_variance / (n_generations - 1))
        if cost is None or cost_sum is None:
            tie_cost = np.zeros_like(choosing)
        else:
            tie_cost = cost_sum - np.take_along_axis(cost, held[:, :, None], axis=2)[:, :, 0]
        total += scored[np.arange(scores.shape[0]), _choose(choosing, tie_cost)]
    return np.asarray(total / len(held_out))


def keyed_held_out(shape: tuple[int, ...], n_splits: int, rng: np.random.Generator) -> IntArray:
    """Draws left out: (n_splits, n_items, n_models), for scores of shape (n_items, n_models, n_generations).

    Every cell goes through its draws in turn, from a start of its own that is drawn anew each round, so that each draw
    is left out as often as any other. Drawn with replacement, the splits alone scatter the value by as much as a tenth
    of the bracket.
    """
    n_generations = shape[2]
    held = np.empty((n_splits, *shape[:2]), dtype=np.int64)
    for first in range(0, n_splits, n_generations):
        start = rng.integers(n_generations, size=shape[:2])
        for split in range(first, min(first + n_generations, n_splits)):
            held[split] = (start + split) % n_generations
    return held


def shrunken_scores(means: FloatArray, mean_variance: float) -> FloatArray:
    """Means pulled towards row mean + column mean − grand mean, with the weight that moments give.

    Any choosing score keeps cross-fitting valid; this one chooses much better than the raw means of few draws.
    means : (n_items, n_models), NaN stays NaN; mean_variance : noise variance of one mean
    """
    prior = additive_fit(means)
    residual = means - prior
    signal = max(float(np.nanmean(residual**2)) - mean_variance, 0.0)
    weight = signal / (signal + mean_variance) if signal + mean_variance > 0 else 1.0
    return np.asarray(prior + weight * residual)


def additive_fit(values: FloatArray) -> FloatArray:
    """Row mean + column mean − grand mean, NaN cells left out of the means."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    total = max(int(known.sum()), 1)
    row = filled.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    column = filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(row[:, None] + column[None, :] - filled.sum() / total)


def halves_support(
    scores: FloatArray,
    cost: FloatArray,
    prices: FloatArray,
    *,
    n_splits: int,
    within_variance: float,
    rng: np.random.Generator,
) -> CrossFitSupport:
    """Cross-fitted V(t): halves of ⌊G/2⌋ and ⌈G/2⌉ draws, both ways round, mean over keyed splits.

    scores, cost : (n_items, n_models, n_generations ≥ 2), NaN cells are no option
    prices : (n_prices,) of a dollar in units of quality
    """
    n_items, n_generations = scores.shape[0], scores.shape[2]
    if n_generations < 2:
        raise ValueError("cross-fitting needs two draws a cell")
    value, start = np.zeros((n_items, len(prices))), np.zeros(n_items)
    draw_variance = np.zeros((n_items, len(prices)))
    first_size = n_generations // 2
    for _ in range(n_splits):
        order = rng.random(scores.shape).argsort(axis=2)
        shuffled_scores = np.take_along_axis(scores, order, axis=2)
        shuffled_cost = np.take_along_axis(cost, order, axis=2)
        halves = []
        for part in (slice(None, first_size), slice(first_size, None)):
            halves.append((shuffled_scores[:, :, part].mean(axis=2), shuffled_cost[:, :, part].mean(axis=2)))
        for (choose_score, choose_cost), (charge_score, charge_cost), size in (
            (halves[0], halves[1], first_size),
            (halves[1], halves[0], n_generations - first_size),
        ):
            choosing = shrunken_scores(choose_score, within_variance / size)
            _add_support(
                choosing, choose_cost, charge_score, charge_cost, scores, cost, prices, value, start, draw_variance
            )
    n_ways = 2 * n_splits
    return CrossFitSupport(value / n_ways, float(start.mean() / n_ways), draw_variance / (n_ways * max(first_size, 1)))


def _choose(score: FloatArray, tie_cost: FloatArray) -> IntArray:
    best = np.nanmax(score, axis=1, keepdims=True)
    is_best = score >= best - 1e-12
    return np.asarray(np.argmin(np.where(is_best, tie_cost, np.inf), axis=1))


@numba.njit(nogil=True, cache=True)
def _add_support(choose_score, choose_cost, charge_score, charge_cost, scores, cost, prices, value, start, variance):  # type: ignore[no-untyped-def]
    """Add one split's choice at every price to `value`, the cheapest choice's cost to `start`."""
    n_items, n_models, n_generations = scores.shape
    for item in range(n_items):
        cheapest = -1
        for model in range(n_models):
            is_known = not (np.isnan(choose_score[item, model]) or np.isnan(choose_cost[item, model]))
            if is_known and (cheapest < 0 or choose_cost[item, model] < choose_cost[item, cheapest]):
                cheapest = model
        start[item] += charge_cost[item, cheapest]
        for price_index in range(prices.shape[0]):
            price = prices[price_index]
            best, chosen = -np.inf, -1
            for model in range(n_models):
                worth = choose_score[item, model] - price * choose_cost[item, model]
                if worth > best or (
                    worth == best and chosen >= 0 and choose_cost[item, model] < choose_cost[item, chosen]
                ):
                    best, chosen = worth, model
            value[item, price_index] += charge_score[item, chosen] - price * charge_cost[item, chosen]
            mean = 0.0
            for g in range(n_generations):
                mean += scores[item, chosen, g] - price * cost[item, chosen, g]
            mean /= n_generations
            squares = 0.0
            for g in range(n_generations):
                squares += (scores[item, chosen, g] - price * cost[item, chosen, g] - mean) ** 2
            variance[item, price_index] += squares / (n_generations - 1)
