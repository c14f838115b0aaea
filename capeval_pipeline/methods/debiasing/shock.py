"""A shock that all models share at equal generation: the same server load, judge mood or reused seed."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
SHOCK_LIMIT = 3.0
_LARGEST_RATIO = 1.5


@dataclass(frozen=True)
class SharedShock:
    """z of the alignment test (NaN where it cannot be made) and the factor on the naive bias (NaN where unknown)."""

    z: float
    factor: float


def measure_shared_shock(
    scores: FloatArray,
    *,
    naive: float,
    independent: float,
    n_permutations: int,
    has_true_generations: bool,
    rng: np.random.Generator,
) -> SharedShock:
    """Compare the best of the models at equal generation with what independent draws would give.

    scores : (n_items, n_models, n_generations); naive, independent : naive oracle with G draws and with one

    Aligned O(1) = mean over g of mean_n max_l Q[n, l, g]; the null permutes g inside every cell. With a shared shock
    models fail together, so the best of them is worse and the naive oracle less biased: factor
    √[(aligned O(1) − naive)/(independent O(1) − naive)], the ratio kept in [0, 1.5], used beyond |z| > 3, else 1.
    """
    if not has_true_generations or scores.shape[2] < 2:
        return SharedShock(math.nan, math.nan)
    aligned = _aligned_oracle(scores)
    null = np.array([_aligned_oracle(rng.permuted(scores, axis=2)) for _ in range(n_permutations)])
    spread = float(null.std(ddof=1))
    if spread <= 1e-12:  # nothing varies inside cells
        return SharedShock(math.nan, 1.0)
    z = (aligned - float(null.mean())) / spread
    if abs(z) <= SHOCK_LIMIT:
        return SharedShock(z, 1.0)
    return SharedShock(z, shock_factor(aligned=aligned, independent=independent, naive=naive))


def shock_factor(*, aligned: float, independent: float, naive: float) -> float:
    """Root of (aligned − naive)/(independent − naive), the ratio kept in [0, 1.5]; NaN where the denominator is 0."""
    if abs(independent - naive) < 1e-12:
        return math.nan
    return math.sqrt(min(max((aligned - naive) / (independent - naive), 0.0), _LARGEST_RATIO))


def _aligned_oracle(scores: FloatArray) -> float:
    return float(np.nanmax(scores, axis=1).mean())
