"""Half widths that hold for a whole curve at once."""

import math

import numpy as np
from numpy.typing import NDArray

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
