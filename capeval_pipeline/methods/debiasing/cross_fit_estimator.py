"""The cross-fitted oracle value: the lower end of the bracket."""

import numpy as np

from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, mean_of_items
from capeval_pipeline.methods.debiasing.problem import OracleProblem


def cross_fit(problem: OracleProblem) -> OracleEstimate:
    """Choose on all draws but one, score on that one: what an actual policy gets, at most the oracle on average."""
    # With the choice held fixed the held-out draws of a chosen cell are Bernoulli-like with variance q (1 − q).
    items = problem.cross_fit_items
    within = np.clip(items * (1.0 - items), 0.0, None) / (problem.draws.n_generations - 1)
    return mean_of_items(
        items,
        "draws of a cell are exchangeable; value of a policy that chooses on the other draws: too low on average",
        fixed_variance=float(within.sum()) / len(items) ** 2,
    )
