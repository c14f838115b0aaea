"""Intervals of mean scores over items, and the item resamples that every interval of the stage shares.

Items are the unit that repeats: all answers to one item are resampled together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

FloatArray = npt.NDArray[np.float64]
ResampleWeights = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

SMALL_SAMPLE = 30
"""Below this many items resampling is not trusted and exact bounds are used."""


@dataclass(frozen=True)
class MeanScores:
    """Mean scores with 95 % intervals, in the unit of the scores; NaN where unknown.

    mean, lower, upper, n_items : (n_models,)
    """

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    n_items: IntArray


def draw_item_resamples(n_items: int, n_resamples: int, rng: np.random.Generator) -> ResampleWeights:
    """Multinomial item weights, (n_resamples, n_items), each row summing to n_items.

    float32 holds them exactly, and sums of up to 2^24 of them, so products with 0/1 outcomes are exact too.
    """
    weights = np.empty((n_resamples, n_items), dtype=np.float32)
    if n_items == 0:
        return weights
    share = np.full(n_items, 1.0 / n_items)
    for first in range(0, n_resamples, 100):
        rows = weights[first : first + 100]
        rows[:] = rng.multinomial(n_items, share, size=len(rows))
    return weights


def clopper_pearson(n_successes: IntArray, n_trials: IntArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Exact binomial limits (Clopper and Pearson 1934); arrays of one shape in and out, n_trials >= 1."""
    tail = (1.0 - level) / 2.0
    k, n = np.asarray(n_successes, dtype=np.float64), np.asarray(n_trials, dtype=np.float64)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1e-12), n - k + 1.0, tail), 0.0)
    upper = np.where(k < n, betaincinv(k + 1.0, np.maximum(n - k, 1e-12), 1.0 - tail), 1.0)
    return lower, upper


def empirical_bernstein_radius(
    variance: npt.ArrayLike, n: npt.ArrayLike, width: float, level: float = 0.95
) -> FloatArray:
    """Half width of a two-sided bound for the mean of n values in a range of this width.

    Maurer and Pontil (2009), theorem 4, used on both sides: sqrt(2 V log(4/d) / n) + 7 w log(4/d) / (3 (n - 1)).
    variance : sample variance (divisor n - 1). Infinite for n < 2.
    """
    count = np.asarray(n, dtype=np.float64)
    log_term = np.log(4.0 / (1.0 - level))
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.sqrt(2.0 * np.asarray(variance) * log_term / count) + 7.0 * width * log_term / (3.0 * (count - 1.0))
    return np.where(count >= 2, radius, np.inf)


def estimate_mean_scores(
    scores: FloatArray, weights: ResampleWeights, *, score_low: float | None, score_high: float | None
) -> MeanScores:
    """Mean score of each model with a 95 % interval over items.

    Percentiles over the item resamples. Where resampling has no width (all item scores of a model equal) or fewer than
    30 items carry it: the exact binomial bound for scores that are all at the ends of the declared range, else an
    empirical-Bernstein bound on that range; without a declared range such an interval is unknown.

    scores : (n_items, n_models), NaN where missing
    weights : (n_resamples, n_items), see draw_item_resamples
    score_low, score_high : the declared range, None if open
    """
    is_seen = ~np.isnan(scores)
    filled = np.where(is_seen, scores, 0.0)
    n_items = is_seen.sum(axis=0)
    # The plain mean column by column, as any SQL user would compute it.
    mean = np.array([scores[is_seen[:, m], m].mean() if n_items[m] else np.nan for m in range(scores.shape[1])])
    lower, upper = _percentiles_of_means(filled, is_seen, weights)
    for m in range(scores.shape[1]):
        own = scores[is_seen[:, m], m]
        if len(own) >= SMALL_SAMPLE and own.min() != own.max():
            continue
        lower[m], upper[m] = _bound_without_resampling(own, score_low, score_high)
    return MeanScores(mean=mean, lower=lower, upper=upper, n_items=n_items)


def _percentiles_of_means(
    filled: FloatArray, is_seen: npt.NDArray[np.bool_], weights: ResampleWeights
) -> tuple[FloatArray, FloatArray]:
    n_models = filled.shape[1]
    if len(weights) == 0 or filled.shape[0] == 0:
        return np.full(n_models, np.nan), np.full(n_models, np.nan)
    lower, upper = np.empty(n_models), np.empty(n_models)
    is_complete = bool(is_seen.all())
    # Wide benchmarks in blocks of models: 1,000 resamples of 5,000 models would be 40 MB twice over.
    for first in range(0, n_models, 500):
        block = slice(first, first + 500)
        sums = weights @ filled[:, block]
        counts = float(filled.shape[0]) if is_complete else weights @ is_seen[:, block].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums / counts
        means = np.where(np.isfinite(means), means, np.nan)
        unseen = np.isnan(means).all(axis=0)
        means[:, unseen] = 0.0
        limits = np.nanquantile(means, [0.025, 0.975], axis=0)
        limits[:, unseen] = np.nan
        lower[block], upper[block] = limits
    return lower, upper


def _bound_without_resampling(
    own: FloatArray, score_low: float | None, score_high: float | None
) -> tuple[float, float]:
    if len(own) == 0 or score_low is None or score_high is None:
        return np.nan, np.nan
    width = score_high - score_low
    if np.isin(own, (score_low, score_high)).all():
        share_low, share_high = clopper_pearson(np.array([(own == score_high).sum()]), np.array([len(own)]))
        return score_low + width * float(share_low[0]), score_low + width * float(share_high[0])
    variance = float(own.var(ddof=1)) if len(own) > 1 else 0.0
    radius = float(empirical_bernstein_radius(variance, len(own), width))
    centre = float(own.mean())
    return max(score_low, centre - radius), min(score_high, centre + radius)
