"""Replayed searches for the best model."""

from capeval_pipeline.reporting.queries.query import Query

IDENTIFICATION_CURVES = Query(
    "identification_curves",
    """
select
    curves.policy,
    curves.pull_budget,
    curves.accuracy,
    curves.lower,
    curves.upper,
    curves.n_runs,
    summary.target_accuracy,
    summary.pulls_for_target
from simulations.identification_curves as curves
left join simulations.identification_summary as summary
    on
        curves.benchmark_id = summary.benchmark_id
        and curves.policy = summary.policy
where curves.benchmark_id = $benchmark
order by curves.policy, curves.pull_budget
""",
)

IDENTIFICATION_SUMMARY = Query(
    "identification_summary",
    """
select
    policy,
    pulls_for_target,
    pulls_lower,
    pulls_upper,
    pulls_for_90,
    pulls_90_lower,
    pulls_90_upper,
    target_accuracy,
    saving_vs_ucb_e,
    saving_lower,
    saving_upper,
    mean_error,
    coverage_simultaneous,
    coverage_lower,
    mean_interval_width,
    n_certified,
    n_wrong_certificates,
    residual_variance_ratio,
    n_runs
from simulations.identification_summary
where benchmark_id = $benchmark
order by pulls_for_target nulls last, mean_error, policy
""",
)

IDENTIFICATION_INTERVALS = Query(
    "identification_intervals",
    """
select policy, interval, n_answers, mean_width, miss_any_time, n_arm_runs
from simulations.identification_intervals
where benchmark_id = $benchmark
order by policy <> 'pulse', policy, interval, n_answers
""",
)

IDENTIFICATION_GAP_CLASSES = Query(
    "identification_gap_classes",
    """
select
    gap_class,
    policy,
    n_runs,
    n_study_runs,
    n_arms,
    n_items,
    pulls_for_target,
    pulls_lower,
    pulls_upper,
    target_accuracy,
    saving_vs_ucb_e,
    saving_lower,
    saving_upper,
    mean_certificate_share
from marts.identification_savings
where benchmark_id = $benchmark
order by smallest_gap, gap_class, policy <> 'pulse', policy
""",
)
