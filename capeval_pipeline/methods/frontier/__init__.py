"""What is estimated: the exact frontier of given qualities and costs, and the bias of taking maxima in closed form.

Removing that bias belongs to `methods/debiasing`; nothing here knows how qualities were estimated.
"""

from capeval_pipeline.methods.frontier.exact import (
    Frontier,
    exact_frontier,
    exact_frontier_reference,
    frontier_cost_at,
    frontier_quality_at,
    frontier_slopes,
    quality_by_conjugation,
    support_function,
)
from capeval_pipeline.methods.frontier.retries import (
    DRAWS_ALLOWED,
    best_of_k_beta_draws,
    best_of_k_draws,
    cost_until_success,
    draws_until_success,
    retry_options,
    success_of_k_draws,
)
from capeval_pipeline.methods.frontier.single_models import BestModel, best_single_model, constant_mixture
from capeval_pipeline.methods.frontier.subsample import (
    expected_naive_oracle,
    subsample_cost_curve,
    subsample_oracle_curve,
)

__all__ = [
    "DRAWS_ALLOWED",
    "BestModel",
    "Frontier",
    "best_of_k_beta_draws",
    "best_of_k_draws",
    "best_single_model",
    "constant_mixture",
    "cost_until_success",
    "draws_until_success",
    "exact_frontier",
    "exact_frontier_reference",
    "expected_naive_oracle",
    "frontier_cost_at",
    "frontier_quality_at",
    "frontier_slopes",
    "quality_by_conjugation",
    "retry_options",
    "subsample_cost_curve",
    "subsample_oracle_curve",
    "success_of_k_draws",
    "support_function",
]
