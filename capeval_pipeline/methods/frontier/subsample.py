"""The naive oracle's bias in closed form: what it would be with fewer draws, and what it is expected to be."""

import math

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

FloatArray = NDArray[np.float64]
_FLOOR = 1e-300  # of a probability before its logarithm: 0 · log 0 must be 0, not NaN
_BLOCK_ITEMS = 65_536


def subsample_oracle_curve(successes: ArrayLike, n_generations: int) -> FloatArray:
    """O_n(g): the naive oracle averaged over *all* ways to take g of the G draws, independently for each model.

    successes : (n_items, n_models) whole numbers 0…G of right draws; negative or NaN where the cell is missing

    O_n(g) = (1/g) Σ_{k<g} [1 − Π_l H(k; G, Y_nl, g)], H the hypergeometric CDF. It depends on an item only through
    the histogram of its counts, so an item costs O(G²) whatever the number of models.
    Returns (n_items, G), column g − 1 for g draws; NaN for an item without any cell. Raises ValueError for counts
    above G.
    """
    counts = _as_counts(successes, n_generations)
    columns = [_log_hypergeometric_cdf(n_generations, g) for g in range(1, n_generations + 1)]
    log_cdf = np.concatenate(columns, axis=1)  # (G + 1, 1 + 2 + … + G)
    firsts = np.concatenate(([0], np.cumsum([column.shape[1] for column in columns])))
    curve = np.empty((counts.shape[0], n_generations))
    for begin in range(0, counts.shape[0], _BLOCK_ITEMS):
        histogram = _histogram(counts[begin : begin + _BLOCK_ITEMS], n_generations)
        missed = np.exp(histogram @ log_cdf)
        sums = np.add.reduceat(1.0 - missed, firsts[:-1], axis=1)
        curve[begin : begin + _BLOCK_ITEMS] = sums / np.arange(1, n_generations + 1)
        curve[begin : begin + _BLOCK_ITEMS][histogram.sum(axis=1) == 0] = np.nan
    return curve


def subsample_cost_curve(successes: ArrayLike, n_generations: int, cost_usd: ArrayLike) -> FloatArray:
    """Expected cost of the model chosen on g of the G draws, ties to the cheapest; (n_items, G).

    cost_usd : (n_items, n_models) or (n_models,); a cell without a cost is no option.

    Σ_l c_l Σ_m h_l(m) Π_{cheaper} H(m−1) Π_{dearer} H(m): l has m right, no cheaper model has m or more.
    """
    counts = _as_counts(successes, n_generations)
    costs = np.ascontiguousarray(np.broadcast_to(np.asarray(cost_usd, dtype=np.float64), counts.shape))
    curve = np.empty((counts.shape[0], n_generations))
    every_count = np.arange(n_generations + 1)
    for g in range(1, n_generations + 1):
        right = np.arange(g + 1)
        mass = hypergeom.pmf(right[None, :], n_generations, every_count[:, None], g)
        curve[:, g - 1] = _choice_cost(counts, costs, np.ascontiguousarray(mass))
    return curve


def expected_naive_oracle(success_probability: ArrayLike, n_generations: int) -> float:
    """E naive = (1/(N G)) Σ_n Σ_{g<G} [1 − Π_l F(g; G, p_nl)], F the binomial CDF: exact for independent draws.

    success_probability : (n_items, n_models) or (n_models,), 0…1; NaN where the model is no option

    A count's mean is the sum of its exceedance probabilities, hence one division by G.
    """
    probability = np.atleast_2d(np.asarray(success_probability, dtype=np.float64))
    if n_generations < 1:
        raise ValueError(f"n_generations is {n_generations}; expected at least 1")
    if probability.size == 0 or np.nanmin(probability) < 0 or np.nanmax(probability) > 1:
        raise ValueError("success probabilities must lie in 0…1, and there must be some")
    return float(_expected_naive(probability, n_generations).mean())


def _as_counts(successes: ArrayLike, n_generations: int) -> NDArray[np.int64]:
    values = np.atleast_2d(np.asarray(successes))
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1.0, values)
    counts = np.ascontiguousarray(values.astype(np.int64) if values.dtype.kind == "f" else values)
    if counts.dtype.kind == "f" or not np.array_equal(counts, values):
        raise ValueError("successes must be whole numbers; graded scores have no closed form")
    if counts.size and counts.max() > n_generations:
        raise ValueError(f"a cell has {int(counts.max())} right of {n_generations} draws")
    return counts


def _log_hypergeometric_cdf(n_generations: int, n_taken: int) -> FloatArray:
    """log P(at most k right among n_taken), (G + 1 counts, k = 0 … n_taken − 1)."""
    right = np.arange(n_taken)
    cdf = hypergeom.cdf(right[None, :], n_generations, np.arange(n_generations + 1)[:, None], n_taken)
    return np.asarray(np.log(np.maximum(np.minimum(cdf, 1.0), _FLOOR)))


@numba.njit(nogil=True, cache=True)
def _histogram(counts, n_generations):  # type: ignore[no-untyped-def]
    histogram = np.zeros((counts.shape[0], n_generations + 1))
    for item in range(counts.shape[0]):
        for model in range(counts.shape[1]):
            if counts[item, model] >= 0:
                histogram[item, counts[item, model]] += 1.0
    return histogram


@numba.njit(nogil=True, cache=True)
def _choice_cost(counts, costs, mass):  # type: ignore[no-untyped-def]
    n_items, n_models = counts.shape
    n_right = mass.shape[1]
    expected = np.full(n_items, np.nan)
    for item in range(n_items):
        order = np.argsort(costs[item], kind="mergesort")
        total, has_option = 0.0, False
        for position in range(n_models):
            chosen = order[position]
            if counts[item, chosen] < 0 or np.isnan(costs[item, chosen]):
                continue
            has_option = True
            for right in range(n_right):
                probability = mass[counts[item, chosen], right]
                if probability == 0.0:
                    continue
                for other_position in range(n_models):
                    other = order[other_position]
                    if other == chosen or counts[item, other] < 0 or np.isnan(costs[item, other]):
                        continue
                    most = right - 1 if other_position < position else right
                    at_most = 0.0
                    for value in range(most + 1):
                        at_most += mass[counts[item, other], value]
                    probability *= at_most
                total += costs[item, chosen] * probability
        if has_option:
            expected[item] = total
    return expected


@numba.njit(nogil=True, cache=True)
def _binomial_mass(p, n_generations, mass):  # type: ignore[no-untyped-def]
    """Fill mass[0…G] for 0 < p ≤ ½, by its recursion from 0, or from the mode where the mass at 0 underflows."""
    ratio = p / (1.0 - p)
    log_none = n_generations * np.log1p(-p)
    mode = 0
    mass[0] = np.exp(log_none)
    if log_none < -650.0:
        mode = int((n_generations + 1) * p)
        log_choose = math.lgamma(n_generations + 1) - math.lgamma(mode + 1) - math.lgamma(n_generations - mode + 1)
        mass[mode] = np.exp(log_choose + mode * np.log(p) + (n_generations - mode) * np.log1p(-p))
    for k in range(mode + 1, n_generations + 1):
        mass[k] = mass[k - 1] * ratio * (n_generations - k + 1) / k
    for k in range(mode - 1, -1, -1):
        mass[k] = mass[k + 1] * (k + 1) / ((n_generations - k) * ratio)


@numba.njit(nogil=True, cache=True)
def _expected_naive(probability, n_generations):  # type: ignore[no-untyped-def]
    """Per item; the binomial CDF by its recursion from the smaller side, so that nothing underflows to a wrong 0."""
    n_items, n_models = probability.shape
    expected = np.empty(n_items)
    nobody_above = np.empty(n_generations)
    mass = np.empty(n_generations + 1)
    for item in range(n_items):
        nobody_above[:] = 1.0
        for model in range(n_models):
            p = probability[item, model]
            if np.isnan(p) or p == 0.0:
                continue
            if p == 1.0:
                nobody_above[:] = 0.0
                continue
            is_flipped = p > 0.5
            rarer = 1.0 - p if is_flipped else p
            _binomial_mass(rarer, n_generations, mass)
            at_most = 0.0
            if is_flipped:
                # P(at most k right) = P(at least G − k wrong): summed upwards from the rarest end.
                for k in range(n_generations):
                    at_most += mass[n_generations - k]
                    nobody_above[k] *= min(at_most, 1.0)
            else:
                for k in range(n_generations):
                    at_most += mass[k]
                    nobody_above[k] *= min(at_most, 1.0)
        total = 0.0
        for k in range(n_generations):
            total += 1.0 - nobody_above[k]
        expected[item] = total / n_generations
    return expected
