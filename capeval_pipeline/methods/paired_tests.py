"""Which of two models is better: paired differences, their significance, Holm over all pairs.

Pairs are held as flat arrays in the order of `numpy.triu_indices`, since thousands of models have millions of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtr, stdtr, stdtrit

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
from capeval_pipeline.methods.mean_scores import SMALL_SAMPLE, empirical_bernstein_radius
from capeval_pipeline.methods.ranking import Strengths

LARGEST_ENUMERATED = 12
N_SIGN_FLIPS = 20_000
ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class PairComparisons:
    """All pairs a < b of the models.

    first, second, n_shared : (n_pairs,) integers
    difference, lower, upper : (n_pairs,) of the first minus the second, 95 % a pair; NaN where not comparable
    p_value, p_adjusted : (n_pairs,) two-sided; adjusted by Holm (1979) over all comparable pairs
    verdict : (n_models, n_models) int8, +1 the row's model is better, -1 worse, 0 cannot tell
    """

    first: npt.NDArray[np.integer]
    second: npt.NDArray[np.integer]
    n_shared: npt.NDArray[np.integer]
    difference: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    verdict: npt.NDArray[np.int8]


def holm_adjust(p_values: FloatArray) -> FloatArray:
    """Holm's step-down adjustment; NaN entries are not tests and stay NaN. Any order in, the same order out."""
    adjusted = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = np.arange(len(order), 0, -1) * p_values[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return adjusted


def sign_flip_p_values(differences: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Two-sided p-values of "the differences are symmetric about 0" (Fisher's randomisation test).

    differences : (n_items, n_pairs), 0 where an item does not count. Exact where all non-zero differences of a pair
    are of one size (a binomial tail) or there are at most 12 items; else from 20,000 random flips, the observed one
    counted, so that p is never too small.
    """
    observed = np.abs(differences.sum(axis=0))
    sizes = np.abs(differences)
    largest = sizes.max(axis=0, initial=0.0)
    is_level = ((sizes == 0) | (np.abs(sizes - largest) <= 1e-12 * largest)).all(axis=0)
    n_used = (sizes > 0).sum(axis=0)
    n_fewer = np.minimum((differences > 0).sum(axis=0), (differences < 0).sum(axis=0))
    p_values = np.where(n_used > 0, np.minimum(2.0 * bdtr(n_fewer, np.maximum(n_used, 1), 0.5), 1.0), 1.0)
    general = np.flatnonzero(~is_level)
    if len(general) == 0:
        return p_values
    n_items = len(differences)
    if n_items <= LARGEST_ENUMERATED:
        bits = (np.arange(2**n_items)[:, None] >> np.arange(n_items)) & 1
        signs, extra = 2.0 * bits - 1.0, 0
    else:
        signs, extra = rng.choice([-1.0, 1.0], size=(N_SIGN_FLIPS, n_items)), 1
    for first in range(0, len(general), 500):
        block = general[first : first + 500]
        flipped = np.abs(signs @ differences[:, block])
        n_extreme = (flipped >= observed[block] * (1.0 - 1e-12)).sum(axis=0)
        p_values[block] = (n_extreme + extra) / (len(signs) + extra)
    return p_values


def compare_mean_scores(
    scores: FloatArray,
    *,
    larger_is_better: bool = True,
    score_width: float | None = None,
    level: float = 0.05,
    rng: np.random.Generator,
) -> PairComparisons:
    """Compare every pair of models by the mean difference of their scores on shared items.

    Student's t on per-item differences; a sign-flip test below 30 shared items or where the differences do not vary.

    scores : (n_items, n_models), NaN where missing (generations averaged before)
    score_width : declared range's width, None if open; bounds intervals whose differences do not vary
    level : verdicts hold at this family-wise level
    """
    n_items, n_models = scores.shape
    # Thousands of models have millions of pairs: positions and counts are held in 32 bits.
    first, second = (index.astype(np.int32) for index in np.triu_indices(n_models, 1))
    n_pairs = len(first)
    n_shared = np.zeros(n_pairs, dtype=np.int32)
    difference, variance = np.full(n_pairs, np.nan), np.full(n_pairs, np.nan)
    is_seen = ~np.isnan(scores)
    mask, filled = is_seen.astype(np.float64), np.where(is_seen, scores, 0.0)
    squared = filled**2
    # triu_indices runs row by row, so a block of rows is one stretch of the flat arrays.
    row_start = np.concatenate([[0], np.cumsum(np.arange(n_models - 1, -1, -1))])
    for top in range(0, n_models, ROWS_AT_ONCE):
        rows = slice(top, min(top + ROWS_AT_ONCE, n_models))
        count = mask[:, rows].T @ mask
        total = filled[:, rows].T @ mask - mask[:, rows].T @ filled
        squares = squared[:, rows].T @ mask - 2.0 * (filled[:, rows].T @ filled) + mask[:, rows].T @ squared
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            spread = (squares - count * mean**2) / (count - 1.0)
        for a in range(rows.start, rows.stop):
            flat = slice(row_start[a], row_start[a + 1])
            n_shared[flat] = count[a - top, a + 1 :]
            difference[flat], variance[flat] = mean[a - top, a + 1 :], spread[a - top, a + 1 :]
    scale = float(np.nanmax(np.abs(scores), initial=0.0)) or 1.0
    is_constant = (n_shared > 0) & ~(variance > 1e-12 * scale**2)  # rounding of sums of squares
    variance[is_constant] = 0.0
    standard_error = np.sqrt(np.divide(variance, np.maximum(n_shared, 1), out=variance), out=variance)
    freedom = np.maximum(n_shared - 1, 1)
    critical = stdtrit(np.arange(max(n_items, 2)), 0.975)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2.0 * stdtr(freedom, -np.abs(difference) / standard_error)
    radius = np.where(n_shared > 1, critical[freedom] * standard_error, np.nan)
    del standard_error, variance, freedom
    if is_constant.any():
        bound = 2.0 * score_width if score_width is not None else np.nan
        radius[is_constant] = empirical_bernstein_radius(0.0, n_shared[is_constant], bound)
        radius[~np.isfinite(radius)] = np.nan
        n_exact = n_shared[is_constant].astype(np.float64)
        is_zero = np.abs(difference[is_constant]) <= 1e-12 * scale
        p_value[is_constant] = np.where(is_zero, 1.0, 2.0 ** (1.0 - n_exact))
    small = np.flatnonzero((n_shared > 0) & (n_shared < SMALL_SAMPLE))
    for start in range(0, len(small), 5000):
        block = small[start : start + 5000]
        both = is_seen[:, first[block]] & is_seen[:, second[block]]
        p_value[block] = sign_flip_p_values(
            np.where(both, filled[:, first[block]] - filled[:, second[block]], 0.0), rng
        )
    p_value[n_shared == 0] = np.nan
    return _judge(
        first, second, n_shared, difference, difference - radius, difference + radius, p_value,
        n_models=n_models, sign=1 if larger_is_better else -1, level=level,
    )  # fmt: skip


def compare_strengths(strengths: Strengths, n_shared: FloatArray | IntArray, *, level: float = 0.05) -> PairComparisons:
    """Compare every pair of models by the difference of their strengths: for judgments without scores.

    Standard errors are those of the strengths' own item resamples. Models of different components, or never decided,
    are not compared.

    n_shared : (n_models, n_models) items with a judgment of that very pair
    """
    n_models = len(strengths.strength)
    first, second = np.triu_indices(n_models, 1)
    is_comparable = strengths.component[first] == strengths.component[second]
    is_open = np.isnan(strengths.lower) & np.isnan(strengths.upper)
    is_comparable &= ~is_open[first] & ~is_open[second]
    if strengths.covariance is None:
        raise ValueError("strengths: no covariance; comparing them needs it")
    difference = np.where(is_comparable, strengths.strength[first] - strengths.strength[second], np.nan)
    own = np.diag(strengths.covariance)
    variance = own[first] + own[second] - 2.0 * strengths.covariance[first, second]
    standard_error = np.sqrt(np.maximum(variance, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = np.where(
            is_comparable & (standard_error > 0), 2.0 * ndtr(-np.abs(difference) / standard_error), np.nan
        )
    radius = np.where(standard_error > 0, 1.959963984540054 * standard_error, np.nan)
    # A separated model is at least this far away, or at most; how far is not known.
    lower = np.where(np.isnan(strengths.lower[first]) | np.isnan(strengths.upper[second]), np.nan, difference - radius)
    upper = np.where(np.isnan(strengths.upper[first]) | np.isnan(strengths.lower[second]), np.nan, difference + radius)
    return _judge(
        first, second, n_shared[first, second].astype(np.int64), difference, lower, upper, p_value,
        n_models=n_models, sign=1, level=level,
    )  # fmt: skip


def _judge(
    first: npt.NDArray[np.integer],
    second: npt.NDArray[np.integer],
    n_shared: npt.NDArray[np.integer],
    difference: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    p_value: FloatArray,
    *,
    n_models: int,
    sign: int,
    level: float,
) -> PairComparisons:
    p_adjusted = holm_adjust(p_value)
    decided = np.where(p_adjusted < level, sign * np.sign(difference), 0.0).astype(np.int8)
    verdict = np.zeros((n_models, n_models), dtype=np.int8)
    verdict[first, second] = decided
    verdict[second, first] = -decided
    return PairComparisons(
        first=first, second=second, n_shared=n_shared, difference=difference, lower=lower, upper=upper,
        p_value=p_value, p_adjusted=p_adjusted, verdict=verdict,
    )  # fmt: skip


def pairs_worth_showing(order: IntArray, *, largest_complete: int = 300, n_best: int = 100) -> npt.NDArray[np.bool_]:
    """Which pairs a table of a large benchmark keeps, (n_pairs,): among the best 100, and neighbours in rank."""
    n_models = len(order)
    rank = np.empty(n_models, dtype=np.int64)
    rank[order] = np.arange(n_models)
    first, second = np.triu_indices(n_models, 1)
    if n_models <= largest_complete:
        return np.ones(len(first), dtype=bool)
    return (np.maximum(rank[first], rank[second]) < n_best) | (np.abs(rank[first] - rank[second]) == 1)
