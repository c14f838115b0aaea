"""Normal-normal empirical Bayes with a low-rank mean: for graded scores."""

import math

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cross_fit import additive_fit
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, standard_error
from capeval_pipeline.methods.debiasing.problem import OracleProblem

FloatArray = NDArray[np.float64]
_PSEUDO_DRAWS = 6.0
_RANK = 2


def gaussian(problem: OracleProblem) -> OracleEstimate:
    """Maximum over posterior draws of the cell means; the value, not the draws, is clipped to the score range."""
    mean, variance = gaussian_posterior(problem.draws)
    rng = np.random.default_rng([problem.seed, 31])
    drawn = np.stack(
        [
            np.nanmax(mean + np.sqrt(variance) * rng.standard_normal(mean.shape), axis=1)
            for _ in range(problem.n_simulations)
        ]
    )
    items = drawn.mean(axis=0)
    scores = problem.draws.scores
    low, high = min(0.0, float(np.nanmin(scores))), max(1.0, float(np.nanmax(scores)))
    value = float(np.clip(items.mean(), low, high))
    spread = float(drawn.mean(axis=1).std(ddof=1))
    # Cells that are all shrunk onto the low-rank mean leave no scatter: unknown, not certain.
    fixed = 1.96 * spread if spread > 1e-12 else math.nan
    error = math.hypot(1.96 * spread, 1.96 * standard_error(items))
    return OracleEstimate(
        value,
        items,
        value - error,
        value + error,
        value - fixed,
        value + fixed,
        f"normal noise and normal cells around items, models and {_RANK} shared factors",
    )


def gaussian_posterior(draws: DrawTable) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of every cell, (n_items, n_models) each; NaN where the cell is no option."""
    if draws.n_generations < 2:
        raise ValueError("one draw a cell: luck cannot be told from skill")
    n_generations, means = draws.n_generations, draws.mean_quality
    cell_variance = draws.equal_scores.var(axis=2, ddof=1)
    weight = n_generations - 1.0
    shrunk = (weight * cell_variance + _PSEUDO_DRAWS * draws.within_cell_variance) / (weight + _PSEUDO_DRAWS)
    error = shrunk / n_generations
    base = additive_fit(means)
    residual = np.where(np.isnan(means), 0.0, means - base)
    left, singular, right = np.linalg.svd(residual, full_matrices=False)
    n_items, n_models = means.shape
    noise = float(np.nanmean(error)) * (math.sqrt(n_items) + math.sqrt(n_models)) ** 2
    kept = np.sqrt(np.maximum(singular[:_RANK] ** 2 - noise, 0.0))
    base = base + (left[:, :_RANK] * kept) @ right[:_RANK]
    residual = means - base
    signal = max(float(np.nanmean(residual**2 - error)), 0.0)
    shrinkage = signal / np.maximum(signal + error, 1e-300)
    return base + shrinkage * residual, shrinkage * error
