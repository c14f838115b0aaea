"""The record every oracle estimator returns."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OracleEstimate:
    """An estimate of mean_n max_l μ_nl.

    items : (n_items,) contributions whose mean is the value before clipping; None where there are none
    lower, upper : 95 %, for the population the items stand for; NaN where the estimator has no interval
    lower_fixed, upper_fixed : 95 %, for exactly these items
    assumption : what the estimator takes for granted, in words
    """

    value: float
    items: FloatArray | None
    lower: float
    upper: float
    lower_fixed: float
    upper_fixed: float
    assumption: str


def mean_of_items(items: FloatArray, assumption: str, *, fixed_variance: float = math.nan) -> OracleEstimate:
    """Mean of per-item contributions with ± 1.96 standard errors over items, and over draws where given."""
    value = float(items.mean())
    error = 1.96 * standard_error(items)
    fixed = 1.96 * math.sqrt(fixed_variance)
    return OracleEstimate(value, items, value - error, value + error, value - fixed, value + fixed, assumption)


def standard_error(items: FloatArray) -> float:
    """Standard error of a mean over items; NaN below two items."""
    return float(items.std(ddof=1) / math.sqrt(len(items))) if len(items) > 1 else math.nan
