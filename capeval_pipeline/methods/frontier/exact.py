"""The exact frontier of known qualities and costs: a fractional multiple-choice knapsack.

F(B) = max mean_n Σ_l x_nl q_nl subject to Σ_l x_nl = 1, x ≥ 0, mean cost ≤ B. Per item only the upper-left hull of
its points (cost, quality) can be chosen, and its steps have falling slope; so taking all items' steps by falling
slope is optimal (the greedy rule of the fractional knapsack), and F is piecewise linear with those steps as pieces.
"""

import itertools
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Frontier:
    """Breakpoints of the frontier, means per item: cost_usd and quality (n_breakpoints,), both non-decreasing.

    Between breakpoints the frontier is linear (one item is mixed); below the first no policy exists.
    """

    cost_usd: FloatArray
    quality: FloatArray


def exact_frontier(quality: ArrayLike, cost_usd: ArrayLike) -> Frontier:
    """Best reachable mean quality at every mean cost, when a model is chosen for each item.

    quality : (n_items, n_models) float32 or float64, any scale; NaN where the model is no option for the item
    cost_usd : (n_items, n_models), not negative; NaN also makes the cell no option

    Ties go to the cheaper model. Where no model is right the cheapest is charged. O(items x models x hull size).
    Raises ValueError for shapes that differ, no items, an item without an option, or a negative or infinite cost.
    """
    qualities, costs = _checked(quality, cost_usd)
    start_cost, start_quality, n_steps = _count_steps(qualities, costs)
    if np.isnan(start_cost).any():
        raise ValueError(f"item {int(np.argmax(np.isnan(start_cost)))} has no model with a quality and a cost")
    step_cost, step_quality = _fill_steps(qualities, costs, np.concatenate(([0], np.cumsum(n_steps))))
    return _assemble(start_cost, start_quality, step_cost, step_quality)


def exact_frontier_reference(quality: ArrayLike, cost_usd: ArrayLike) -> Frontier:
    """The same by sorting each item's points and keeping the hull with a stack: plain, slow, for tests."""
    qualities, costs = _checked(quality, cost_usd)
    starts: list[tuple[float, float]] = []
    steps: list[tuple[float, float]] = []
    for item_quality, item_cost in zip(qualities.astype(float), costs.astype(float), strict=True):
        points = sorted(
            (c, -q) for c, q in zip(item_cost, item_quality, strict=True) if not (np.isnan(c) or np.isnan(q))
        )
        if not points:
            raise ValueError("an item has no model with a quality and a cost")
        hull = [(points[0][0], -points[0][1])]
        for cost, negative_quality in points[1:]:
            point = (cost, -negative_quality)
            if point[1] <= hull[-1][1]:
                continue
            while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
                hull.pop()
            hull.append(point)
        starts.append(hull[0])
        steps += [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(hull)]
    start, step = np.array(starts), np.array(steps).reshape(-1, 2)
    return _assemble(start[:, 0], start[:, 1], step[:, 0], step[:, 1])


def frontier_quality_at(frontier: Frontier, cost_budgets: ArrayLike) -> FloatArray:
    """Quality of the frontier at mean costs per item: NaN below the first breakpoint, flat after the last."""
    budgets = np.asarray(cost_budgets, dtype=np.float64)
    first = frontier.cost_usd[0]
    # Rounding of the first breakpoint's mean must not make it unaffordable.
    return np.where(
        budgets >= first - 1e-12 * abs(first), np.interp(budgets, frontier.cost_usd, frontier.quality), np.nan
    )


def frontier_cost_at(frontier: Frontier, qualities: ArrayLike) -> FloatArray:
    """The least mean cost at which the frontier reaches each quality; NaN where it never does."""
    targets = np.asarray(qualities, dtype=np.float64)
    quality, cost = frontier.quality, frontier.cost_usd
    # searchsorted and not interp: on a flat piece the left end is the least cost.
    after = np.minimum(np.searchsorted(quality, targets, side="left"), len(quality) - 1)
    before = np.maximum(after - 1, 0)
    rise = quality[after] - quality[before]
    share = np.where(rise > 0, (targets - quality[before]) / np.where(rise > 0, rise, 1.0), 1.0)
    reached = targets <= quality[-1] + 1e-12
    return np.where(reached, cost[before] + np.clip(share, 0.0, 1.0) * (cost[after] - cost[before]), np.nan)


def frontier_slopes(frontier: Frontier) -> FloatArray:
    """Quality per dollar of each linear piece, falling; (n_breakpoints − 1,)."""
    width = np.diff(frontier.cost_usd)
    is_wide = width > 0
    return np.asarray(np.diff(frontier.quality)[is_wide] / width[is_wide])


def support_function(quality: ArrayLike, cost_usd: ArrayLike, prices: ArrayLike) -> FloatArray:
    """V(t) = mean_n max_l (q_nl − t c_nl) for each price t ≥ 0 of a dollar in units of quality.

    F(B) = min_t V(t) + t B by duality of the linear program; V(0) is the oracle.
    """
    qualities, costs = _checked(quality, cost_usd)
    return _support(qualities, costs, np.asarray(prices, dtype=np.float64))


def quality_by_conjugation(support: FloatArray, prices: FloatArray, cost_budgets: ArrayLike) -> FloatArray:
    """min_t V(t) + t B over the given prices: an upper bound of F(B), concave and non-decreasing in B."""
    budgets = np.atleast_1d(np.asarray(cost_budgets, dtype=np.float64))
    return np.asarray(np.min(support[None, :] + prices[None, :] * budgets[:, None], axis=1))


def _checked(quality: ArrayLike, cost_usd: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    qualities, costs = (_as_float(array) for array in (quality, cost_usd))
    if qualities.ndim != 2 or qualities.shape != costs.shape:
        raise ValueError(f"quality {qualities.shape} and cost_usd {costs.shape} must be (n_items, n_models) alike")
    if qualities.shape[0] == 0:
        raise ValueError("there is no item to make a frontier of")
    lowest, highest = _finite_range(costs)
    if lowest < 0 or highest == np.inf:
        raise ValueError(f"costs range from {lowest} to {highest}; expected finite values of 0 or more")
    return qualities, costs


def _as_float(values: ArrayLike) -> NDArray[np.floating]:
    array = np.asarray(values)
    return np.ascontiguousarray(array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))


def _slope(first: tuple[float, float], second: tuple[float, float]) -> float:
    return (second[1] - first[1]) / (second[0] - first[0])


def _assemble(
    start_cost: FloatArray, start_quality: FloatArray, step_cost: FloatArray, step_quality: FloatArray
) -> Frontier:
    n_items = start_cost.shape[0]
    order = np.argsort(-step_quality / step_cost, kind="stable")
    cost = np.cumsum(np.concatenate(([start_cost.sum()], step_cost[order]))) / n_items
    quality = np.cumsum(np.concatenate(([start_quality.sum()], step_quality[order]))) / n_items
    return Frontier(cost, quality)


@numba.njit(nogil=True, cache=True)
def _finite_range(costs):  # type: ignore[no-untyped-def]
    lowest, highest = np.inf, -np.inf
    for value in costs.flat:
        if value < lowest:
            lowest = value
        if value > highest:
            highest = value
    return lowest, highest


@numba.njit(nogil=True, cache=True, inline="always")
def _cheapest(quality, cost):  # type: ignore[no-untyped-def]
    """Index of the cheapest option, ties to the better; −1 without an option."""
    best = -1
    for model in range(quality.shape[0]):
        if np.isnan(quality[model]) or np.isnan(cost[model]):
            continue
        if best < 0 or cost[model] < cost[best] or (cost[model] == cost[best] and quality[model] > quality[best]):
            best = model
    return best


@numba.njit(nogil=True, cache=True, inline="always")
def _next_on_hull(quality, cost, current):  # type: ignore[no-untyped-def]
    """Gift wrapping: the option with the steepest gain over the current one, ties to the farthest; −1 at the top.

    An option that is NaN fails both comparisons. Options of equal quality: the cheaper one is steeper.
    """
    steepest, chosen = 0.0, -1
    current_cost, current_quality = np.float64(cost[current]), np.float64(quality[current])
    for model in range(quality.shape[0]):
        if cost[model] > current_cost and quality[model] > current_quality:
            slope = (np.float64(quality[model]) - current_quality) / (np.float64(cost[model]) - current_cost)
            if slope > steepest or (slope == steepest and chosen >= 0 and quality[model] > quality[chosen]):
                steepest, chosen = slope, model
    return chosen


@numba.njit(nogil=True, cache=True)
def _count_steps(quality, cost):  # type: ignore[no-untyped-def]
    n_items = quality.shape[0]
    start_cost, start_quality = np.full(n_items, np.nan), np.full(n_items, np.nan)
    n_steps = np.zeros(n_items, dtype=np.int64)
    for item in range(n_items):
        current = _cheapest(quality[item], cost[item])
        if current < 0:
            continue
        start_cost[item], start_quality[item] = cost[item, current], quality[item, current]
        while True:
            current = _next_on_hull(quality[item], cost[item], current)
            if current < 0:
                break
            n_steps[item] += 1
    return start_cost, start_quality, n_steps


@numba.njit(nogil=True, cache=True)
def _fill_steps(quality, cost, first_step):  # type: ignore[no-untyped-def]
    step_cost, step_quality = np.empty(first_step[-1]), np.empty(first_step[-1])
    for item in range(quality.shape[0]):
        current = _cheapest(quality[item], cost[item])
        for step in range(first_step[item], first_step[item + 1]):
            following = _next_on_hull(quality[item], cost[item], current)
            step_cost[step] = np.float64(cost[item, following]) - np.float64(cost[item, current])
            step_quality[step] = np.float64(quality[item, following]) - np.float64(quality[item, current])
            current = following
    return step_cost, step_quality


@numba.njit(nogil=True, cache=True)
def _support(quality, cost, prices):  # type: ignore[no-untyped-def]
    n_items, n_models = quality.shape
    total = np.zeros(prices.shape[0])
    for item in range(n_items):
        for price_index in range(prices.shape[0]):
            best = -np.inf
            for model in range(n_models):
                value = np.float64(quality[item, model]) - prices[price_index] * np.float64(cost[item, model])
                if value > best:
                    best = value
            total[price_index] += best
    return total / n_items
