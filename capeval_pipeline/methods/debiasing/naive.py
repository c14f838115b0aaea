"""The naive oracle: the upper end of the bracket, never an answer."""

import math

import numba
import numpy as np

from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, mean_of_items
from capeval_pipeline.methods.debiasing.problem import OracleProblem


def naive(problem: OracleProblem) -> OracleEstimate:
    """mean_n max_l of the sample means. Its expectation is at least the true oracle's (Jensen)."""
    draws = problem.draws
    fixed = math.nan
    if draws.n_generations > 1:
        worth = np.ascontiguousarray(draws.equal_scores[:, :, :, None])
        fixed = float(jackknife_variance_of_best(worth)[:, 0].sum()) / len(problem.naive_items) ** 2
    return mean_of_items(
        problem.naive_items,
        "none on the draws, but the luck of the best draw is taken for skill: too high on average",
        fixed_variance=fixed,
    )


@numba.njit(nogil=True, cache=True)
def jackknife_variance_of_best(worth):  # type: ignore[no-untyped-def]
    """Variance of max_l mean_g by deleting one draw of one cell at a time; (n_items, n_prices).

    worth : (n_items, n_models, n_generations ≥ 2, n_prices) score − t·cost of each draw, NaN cells are no option.
    Draws are independent, so the cells' jackknife variances (G−1)/G Σ_g (θ_(lg) − θ̄_l)² add up.
    """
    n_items, n_models, n_generations, n_prices = worth.shape
    variance = np.zeros((n_items, n_prices))
    means = np.empty(n_models)
    deleted = np.empty(n_generations)
    for item in range(n_items):
        for price in range(n_prices):
            first, second, first_model = -np.inf, -np.inf, -1
            for model in range(n_models):
                total = 0.0
                for g in range(n_generations):
                    total += worth[item, model, g, price]
                means[model] = total / n_generations
                if means[model] > first:
                    second, first, first_model = first, means[model], model
                elif means[model] > second:
                    second = means[model]
            for model in range(n_models):
                if np.isnan(means[model]):
                    continue
                others = second if model == first_model else first
                centre = 0.0
                for g in range(n_generations):
                    without = (n_generations * means[model] - worth[item, model, g, price]) / (n_generations - 1)
                    deleted[g] = max(without, others)
                    centre += deleted[g] / n_generations
                for g in range(n_generations):
                    variance[item, price] += (deleted[g] - centre) ** 2 * (n_generations - 1) / n_generations
    return variance
