"""Costs are measured too: the mean of a few noisy draws, whose minimum over models is too low.

ln c̄ = row + column + residual, with normal-normal shrinkage of the residual and the noise inside cells.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cross_fit import additive_fit

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CostPosterior:
    """Posterior of a cell's log cost, and the noise of its measured mean; all (n_items, n_models), NaN: no option."""

    log_mean: FloatArray
    log_sd: FloatArray
    noise_sd: FloatArray

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """True costs that could lie behind the measured ones."""
        return np.asarray(np.exp(self.log_mean + self.log_sd * rng.standard_normal(self.log_mean.shape)))

    def measure(self, true_cost: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The mean that draws of a true cost would give; right on average."""
        noise = self.noise_sd * rng.standard_normal(true_cost.shape)
        return np.asarray(true_cost * np.exp(noise - self.noise_sd**2 / 2))


def fit_cost_posterior(cost_draws: FloatArray, cell_cost: FloatArray) -> CostPosterior:
    """Posterior of cell costs from their draws.

    cost_draws : (n_items, n_models, n_generations), NaN cells are no option
    cell_cost : (n_items, n_models), the figure of a cell (its mean, or a quantile) that is to be used as its cost

    The within-cell variance is relative and pooled per model. A cost of zero has no logarithm: such cells keep their
    measured cost, without noise.
    """
    n_generations = cost_draws.shape[2]
    is_positive = cell_cost > 0
    log_cost = np.log(np.where(is_positive, cell_cost, np.nan))
    if n_generations > 1:
        mean = cost_draws.mean(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            relative = np.where(is_positive, cost_draws.var(axis=2, ddof=1) / mean**2, np.nan)
        known = ~np.isnan(relative)
        pooled = np.where(known, relative, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    else:
        pooled = np.zeros(cost_draws.shape[1])
    noise_variance = np.broadcast_to(np.log1p(pooled / n_generations), log_cost.shape)
    # The logarithm of a mean lies half its relative variance too low.
    centred = log_cost + noise_variance / 2
    base = additive_fit(centred)
    residual = centred - base
    known = ~np.isnan(residual)
    if not known.any():
        zeros = np.zeros_like(log_cost)
        return CostPosterior(np.where(cell_cost == 0, -np.inf, np.nan), zeros, zeros)
    signal = max(float(residual[known].var() - noise_variance[known].mean()), 0.0)
    weight = signal / np.maximum(signal + noise_variance, 1e-300)
    log_mean = np.where(known, base + weight * residual, np.where(cell_cost == 0, -np.inf, np.nan))
    log_sd = np.where(known, np.sqrt(weight * noise_variance), 0.0)
    return CostPosterior(log_mean, log_sd, np.where(known, np.sqrt(noise_variance), 0.0))
