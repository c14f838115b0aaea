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
with certificates as (
    select
        policy,
        median(pulls_to_certificate / (n_arms * n_items)) as certificate_share
    from simulations.identification_runs
    where benchmark_id = $benchmark
    group by policy
)
select
    summary.policy,
    summary.pulls_for_target,
    summary.pulls_lower,
    summary.pulls_upper,
    summary.pulls_for_90,
    summary.pulls_90_lower,
    summary.pulls_90_upper,
    summary.target_accuracy,
    summary.saving_vs_ucb_e,
    summary.saving_lower,
    summary.saving_upper,
    summary.mean_error,
    summary.coverage_simultaneous,
    summary.coverage_lower,
    summary.mean_interval_width,
    summary.n_certified,
    summary.n_wrong_certificates,
    certificates.certificate_share,
    summary.residual_variance_ratio,
    summary.n_runs
from simulations.identification_summary as summary
left join certificates
    on summary.policy = certificates.policy
where summary.benchmark_id = $benchmark
order by summary.pulls_for_target nulls last, summary.mean_error, summary.policy
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
    pulls_for_target / (n_arms * n_items) as share_of_cells,
    target_accuracy,
    saving_vs_ucb_e,
    saving_lower,
    saving_upper,
    mean_certificate_share,
    n_wrong_certificates
from marts.identification_savings
where benchmark_id = $benchmark
order by smallest_gap, gap_class, policy <> 'pulse', policy
""",
)
