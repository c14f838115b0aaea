"""Independent beta-binomial posteriors a model: shipped as a warning.

Where models share difficulty it is worse than the naive oracle: the posteriors of an item's cells are pulled apart
independently, so their maximum grows instead of shrinking.
"""

import math

import numpy as np

from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, standard_error
from capeval_pipeline.methods.debiasing.problem import OracleProblem


def beta_binomial(problem: OracleProblem) -> OracleEstimate:
    """A Beta prior per model by moments, then the mean over posterior draws of mean_n max_l p."""
    draws = problem.draws
    if draws.n_generations < 2:
        raise ValueError("one draw a cell: luck cannot be told from skill")
    total = draws.n_draws.astype(np.float64)
    right = np.nan_to_num(draws.total_right)
    rng = np.random.default_rng([problem.seed, 41])
    alpha, beta = np.empty(draws.scores.shape[1]), np.empty(draws.scores.shape[1])
    for model in range(len(alpha)):
        known = total[:, model] > 0
        rates = right[known, model] / total[known, model]
        mean = float(np.clip(rates.mean(), 1e-3, 1.0 - 1e-3))
        inverse_draws = float((1.0 / total[known, model]).mean())
        # Var rate = m(1−m)(ρ + (1−ρ)/G), ρ = 1/(s + 1) the correlation of draws of a cell.
        spread = float(rates.var()) / (mean * (1.0 - mean))
        correlation = float(np.clip((spread - inverse_draws) / (1.0 - inverse_draws), 1e-3, 1.0 - 1e-3))
        concentration = 1.0 / correlation - 1.0
        alpha[model], beta[model] = concentration * mean, concentration * (1.0 - mean)
    drawn = np.stack(
        [
            np.nanmax(np.where(draws.is_option, rng.beta(alpha + right, beta + total - right), np.nan), axis=1)
            for _ in range(problem.n_simulations)
        ]
    )
    items = drawn.mean(axis=0)
    value = float(items.mean())
    fixed = 1.96 * float(drawn.mean(axis=1).std(ddof=1))
    error = math.hypot(fixed, 1.96 * standard_error(items))
    return OracleEstimate(
        value,
        items,
        value - error,
        value + error,
        value - fixed,
        value + fixed,
        "models are independent on an item: wrong where difficulty is shared, then worse than naive",
    )
