"""The capability frontier, its estimates and what a budget buys."""

from capeval_pipeline.reporting.queries.query import Query

FRONTIER_CURVES = Query(
    "frontier_curves",
    """
select estimator, routing, point, cost_usd, quality, lower, upper
from estimates.frontier_points
where
    benchmark_id = $benchmark
    and cost_axis = 'usd'
    and (
        (routing = 'pre_hoc' and estimator in ('naive', 'headline'))
        or routing in ('constant', 'cluster_router')
    )
order by routing, estimator, point
""",
)

SINGLE_MODELS = Query(
    "single_models",
    """
select model_id, quality, cost_usd
from estimates.frontier_models
where benchmark_id = $benchmark and cost_axis = 'usd' and is_in_frontier
order by cost_usd, model_id
""",
)

LATENCY_CURVES = Query("latency_curves", FRONTIER_CURVES.sql.replace("'usd'", "'latency_p95_s'"))

LATENCY_MODELS = Query("latency_models", SINGLE_MODELS.sql.replace("'usd'", "'latency_p95_s'"))

LATENCY_LIMITS = Query(
    "latency_limits",
    """
select
    latency_limit_s,
    best_model_id,
    best_quality,
    best_share_late,
    naive_quality,
    cross_fit_quality,
    lower,
    upper
from estimates.frontier_latency_limits
where benchmark_id = $benchmark
order by latency_limit_s
""",
)

FRONTIER_VERDICT = Query(
    "frontier_verdict",
    """
select verdict, reason, n_generations, n_models, left_out, generations_needed, ceiling_share, bracket_ratio, shock_z
from estimates.frontier_diagnostics
where benchmark_id = $benchmark
""",
)

FRONTIER_HEADLINES = Query(
    "frontier_headlines",
    """
select
    estimator,
    routing,
    draws_allowed,
    best_model_id,
    best_quality,
    best_quality_lower,
    best_quality_upper,
    best_quality_held_out,
    best_cost_usd,
    constant_quality_at_matched_cost,
    oracle_quality_at_matched_cost,
    oracle_quality_at_matched_cost_lower,
    oracle_quality_at_matched_cost_upper,
    matched_cost_error_reduction,
    matched_cost_error_reduction_lower,
    matched_cost_error_reduction_upper,
    matched_quality_cost_saving,
    matched_quality_cost_saving_lower,
    matched_quality_cost_saving_upper
from estimates.frontier_headlines
where benchmark_id = $benchmark and cost_axis = 'usd'
order by routing <> 'pre_hoc', routing, estimator <> 'headline', estimator
""",
)

BIAS_CURVE = Query(
    "bias_curve",
    """
select g, source, naive_value, fitted_value
from estimates.oracle_bias_curve
where benchmark_id = $benchmark
order by source, g
""",
)

ORACLE_ESTIMATES = Query(
    "oracle_estimates",
    """
select estimator, value, lower, upper, lower_fixed, upper_fixed, n_items, n_models, n_generations, assumption
from estimates.oracle_estimates
where benchmark_id = $benchmark and category = ''
order by estimator <> 'headline', estimator
""",
)

BUDGET_CHOICES = Query(
    "budget_choices",
    """
select
    cost_budget,
    best_single_model_id,
    best_single_quality,
    constant_quality,
    mixture_quality,
    mixture_lower,
    mixture_upper,
    naive_quality,
    cluster_router_quality
from marts.budget_choices
where benchmark_id = $benchmark and cost_axis = 'usd'
order by cost_budget
""",
)
