"""How sure a whole frontier is: simultaneous half widths of the support function, one side at a time."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from capeval_pipeline.methods.debiasing.naive import jackknife_variance_of_best

FloatArray = NDArray[np.float64]
_SIDE = 0.025


def fixed_items_half_width(item_variance: FloatArray) -> FloatArray:
    """Half width for exactly these items, Bonferroni over the prices.

    item_variance : (n_items, n_prices) variance of an item's contribution over its draws
    """
    n_items, n_prices = item_variance.shape
    quantile = float(norm.ppf(1.0 - _SIDE / n_prices))
    return np.asarray(quantile * np.sqrt(item_variance.sum(axis=0)) / n_items)


def naive_draw_variance(scores: FloatArray, cost: FloatArray, prices: FloatArray) -> FloatArray:
    """Jackknife variance over draws of max_l of the mean of score − t·cost; (n_items, n_prices)."""
    columns = [jackknife_variance_of_best((scores - price * cost)[:, :, :, None])[:, 0] for price in prices]
    return np.stack(columns, axis=1)
