"""From runs to figures: accuracy with its interval, calls needed for a target, savings, ceilings of the saving."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from capeval_pipeline.methods.identification.records import FloatArray, IntArray, Predictor
from capeval_pipeline.methods.item_factors import predict, update_row

BoolArray = NDArray[np.bool_]
Z_95 = 1.959963984540054
N_BOOTSTRAP = 1_000
N_TOP_ARMS = 15


@dataclass(frozen=True)
class Interval:
    """A figure with its limits; NaN where it does not exist (a target never reached)."""

    value: float
    lower: float
    upper: float


def wilson_interval(n_hits: int, n_runs: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson limits of a share at 95 %. Raises ValueError for no runs."""
    if n_runs <= 0:
        raise ValueError("a share of no runs has no interval")
    share = n_hits / n_runs
    centre = share + z * z / (2 * n_runs)
    half = z * math.sqrt(share * (1 - share) / n_runs + z * z / (4 * n_runs * n_runs))
    scale = 1 + z * z / n_runs
    # At 0 and n hits the limit is the end itself; only rounding keeps the formula from saying so.
    lower = 0.0 if n_hits == 0 else max(0.0, (centre - half) / scale)
    upper = 1.0 if n_hits == n_runs else min(1.0, (centre + half) / scale)
    return lower, upper


@njit(nogil=True, cache=True)
def isotonic(values: FloatArray) -> FloatArray:
    """Closest non-decreasing sequence in squares, by pooling adjacent violators."""
    n = values.shape[0]
    level, size = np.empty(n), np.empty(n, dtype=np.int64)
    n_blocks = 0
    for i in range(n):
        level[n_blocks], size[n_blocks] = values[i], 1
        n_blocks += 1
        while n_blocks > 1 and level[n_blocks - 2] >= level[n_blocks - 1]:
            total = size[n_blocks - 2] + size[n_blocks - 1]
            level[n_blocks - 2] = (
                level[n_blocks - 2] * size[n_blocks - 2] + level[n_blocks - 1] * size[n_blocks - 1]
            ) / total
            size[n_blocks - 2] = total
            n_blocks -= 1
    out = np.empty(n)
    place = 0
    for block in range(n_blocks):
        for _ in range(size[block]):
            out[place] = level[block]
            place += 1
    return out


@njit(nogil=True, cache=True)
def pulls_for_target(pull_budgets: FloatArray, accuracy: FloatArray, target: float) -> float:
    """First crossing of the monotone accuracy, interpolated on the log of the budget; NaN when never reached.

    Where the first budget is accurate enough already, it is the answer: an upper bound.
    """
    monotone = isotonic(accuracy)
    for i in range(monotone.shape[0]):
        # Pooling divides, so a level that is the target can come out a rounding below it.
        if monotone[i] >= target - 1e-12:
            if i == 0:
                return pull_budgets[0]
            share = (target - monotone[i - 1]) / (monotone[i] - monotone[i - 1])
            return math.exp(
                math.log(pull_budgets[i - 1]) + share * (math.log(pull_budgets[i]) - math.log(pull_budgets[i - 1]))
            )
    return math.nan


def bootstrap_counts(rng: np.random.Generator, n_runs: int, n_bootstrap: int = N_BOOTSTRAP) -> FloatArray:
    """Weights of resampled seeds, (n_bootstrap, n_runs), rows sum to 1; the same for all policies, hence paired."""
    return rng.multinomial(n_runs, np.full(n_runs, 1 / n_runs), size=n_bootstrap) / n_runs


def resampled_pulls(hits: BoolArray, pull_budgets: IntArray, target: float, weights: FloatArray) -> FloatArray:
    """`pulls_for_target` of each resample, inf when never reached; hits (n_runs, n_budgets)."""
    budgets = pull_budgets.astype(np.float64)
    accuracy = weights @ hits.astype(np.float64)
    pulls = np.array([pulls_for_target(budgets, row, target) for row in accuracy])
    return np.where(np.isnan(pulls), np.inf, pulls)


def pulls_with_interval(hits: BoolArray, pull_budgets: IntArray, target: float, weights: FloatArray) -> Interval:
    """Calls for the target accuracy with a 90 % bootstrap interval over seeds."""
    value = pulls_for_target(pull_budgets.astype(np.float64), hits.mean(axis=0), target)
    lower, upper = _limits(resampled_pulls(hits, pull_budgets, target, weights))
    return Interval(float(value), lower, upper) if math.isfinite(value) else Interval(math.nan, lower, math.nan)


def saving_with_interval(
    hits: BoolArray, reference_hits: BoolArray, pull_budgets: IntArray, target: float, weights: FloatArray
) -> Interval:
    """1 - calls of the policy / calls of the reference, paired by seed; NaN where either never reaches the target."""
    budgets = pull_budgets.astype(np.float64)
    own = pulls_for_target(budgets, hits.mean(axis=0), target)
    reference = pulls_for_target(budgets, reference_hits.mean(axis=0), target)
    if not (math.isfinite(own) and math.isfinite(reference)):
        return Interval(math.nan, math.nan, math.nan)
    own_pulls = resampled_pulls(hits, pull_budgets, target, weights)
    reference_pulls = resampled_pulls(reference_hits, pull_budgets, target, weights)
    # A resample in which the reference fails tells nothing about a ratio to it.
    is_usable = np.isfinite(reference_pulls)
    lower, upper = _limits(1.0 - own_pulls[is_usable] / reference_pulls[is_usable])
    return Interval(1.0 - own / reference, lower, upper)


def standardised_mean(sums: FloatArray) -> float:
    """Mean over runs divided by its empirical standard error; NaN for fewer than two runs or no spread."""
    if sums.size < 2 or float(sums.std(ddof=1)) == 0.0:
        return math.nan
    return float(sums.mean() / (sums.std(ddof=1) / math.sqrt(sums.size)))


def residual_variance_ratio(
    scores: FloatArray, predictor: Predictor, *, rng: np.random.Generator, n_answers: int = 50, n_orders: int = 8
) -> float:
    """Var(S - lam p) / Var(S) on unseen items after `n_answers` own answers, mean over the 15 best arms.

    One minus it is about the ceiling of what predictions can save. lam is the best one on the unseen items, in [0, 1].
    """
    n_items = scores.shape[1]
    n_seen = min(n_answers, max(1, n_items // 2))
    ratios = []
    for arm in _top_arms(scores):
        for _ in range(n_orders):
            order = rng.permutation(n_items).astype(np.int32)
            row = predictor.prior_mean.copy()
            update_row(row, predictor.item_factors, predictor.prior_mean, predictor.l2, order, n_seen, scores[arm], 8)
            unseen = order[n_seen:]
            actual, predicted = scores[arm, unseen], predict(row, predictor.item_factors[unseen])
            if actual.size == 0 or actual.var() == 0.0:
                continue
            spread = float(predicted.var())
            covariance = float(((actual - actual.mean()) * (predicted - predicted.mean())).mean())
            lam = min(max(covariance / spread, 0.0), 1.0) if spread > 0 else 0.0
            ratios.append(float((actual - lam * predicted).var() / actual.var()))
    return float(np.mean(ratios)) if ratios else math.nan


def pairing_ratio(scores: FloatArray) -> float:
    """Var(S_a - S_b) / (Var S_a + Var S_b), best arm against the next 14: what comparing on the same items saves."""
    top = _top_arms(scores)
    best, others = scores[top[0]], scores[top[1:]]
    variances = best.var() + others.var(axis=1)
    is_usable = variances > 0
    if not is_usable.any():
        return math.nan
    return float(np.mean((best - others).var(axis=1)[is_usable] / variances[is_usable]))


def _top_arms(scores: FloatArray) -> IntArray:
    return np.lexsort((np.arange(scores.shape[0]), -scores.mean(axis=1)))[:N_TOP_ARMS]


def _limits(values: FloatArray) -> tuple[float, float]:
    """5 % and 95 % points by order statistics, NaN where infinite: interpolation between infinities is undefined."""
    if values.size == 0:
        return math.nan, math.nan
    lower, upper = np.quantile(values, [0.05, 0.95], method="nearest")
    return (float(lower) if np.isfinite(lower) else math.nan, float(upper) if np.isfinite(upper) else math.nan)
