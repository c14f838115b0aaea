"""How sure a whole frontier is: simultaneous half widths of the support function, one side at a time."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from capeval_pipeline.methods.debiasing.naive import jackknife_variance_of_best

FloatArray = NDArray[np.float64]
_SIDE = 0.025


def simultaneous_half_width(values: FloatArray, *, n_multipliers: int, rng: np.random.Generator) -> FloatArray:
    """Half width h(t) such that |V̂(t) − V(t)| on one side stays below it for all t together at 97.5 %.

    values : (n_items, n_prices) per-item contributions whose mean is V̂(t). Multiplier bootstrap, studentised:
    h(t) = q·se(t), q the 97.5 % quantile of max_t of the standardised mean with normal multipliers.
    """
    n_items = len(values)
    if n_items < 2:
        return np.full(values.shape[1], np.nan)
    centred = values - values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / math.sqrt(n_items)
    is_varying = error > 0
    if not is_varying.any():
        return np.zeros(values.shape[1])
    multipliers = rng.standard_normal((n_multipliers, n_items))
    deviations = (multipliers @ centred[:, is_varying]) / n_items / error[is_varying]
    return np.asarray(np.quantile(deviations.max(axis=1), 1.0 - _SIDE) * error)


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
