"""The SQL behind every figure and table of the report and the reading commands, one query each.

What runs is what is shown: `$benchmark` becomes the benchmark's id as a SQL text, and the result can be pasted into
any DuckDB shell that has the published file open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capeval_pipeline.storage.connections import text_literal

if TYPE_CHECKING:
    import duckdb

PLACEHOLDER = "$benchmark"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Query:
    """A named SQL text; `$benchmark` stands for the benchmark."""

    name: str
    sql: str

    def text(self, benchmark_id: str) -> str:
        """The SQL for one benchmark, ready to paste."""
        return self.sql.strip().replace(PLACEHOLDER, text_literal(benchmark_id))


@dataclass(frozen=True)
class Answer:
    """Rows of a query, as column → value, and the SQL that gave them."""

    sql: str
    rows: list[dict[str, Any]]


def ask(connection: "duckdb.DuckDBPyConnection", query: Query, benchmark_id: str = "") -> Answer:
    """Run a query on the published database."""
    sql = query.text(benchmark_id)
    return Answer(sql, connection.sql(sql).to_arrow_table().to_pylist())


BENCHMARKS = Query(
    "benchmarks",
    """
select benchmark_id, name, version
from raw.benchmarks
order by benchmark_id
""",
)

FIRST_SENTENCES = Query(
    "first_sentences",
    """
select
    benchmarks.benchmark_id,
    count(distinct models.model_id) as n_models,
    max(states.data_version) as data_version,
    any_value(verdicts.sentence) as sentence
from raw.benchmarks as benchmarks
left join raw.models as models
    on benchmarks.benchmark_id = models.benchmark_id
left join meta.partition_state as states
    on benchmarks.benchmark_id = states.benchmark_id
left join marts.verdicts as verdicts
    on
        benchmarks.benchmark_id = verdicts.benchmark_id
        and verdicts.question = 'strengths'
group by benchmarks.benchmark_id
order by benchmarks.benchmark_id
""",
)

HEADER = Query(
    "header",
    """
select
    benchmarks.name,
    benchmarks.version,
    benchmarks.metric,
    benchmarks.score_low,
    benchmarks.score_high,
    benchmarks.higher_is_better,
    states.data_version,
    (select count(*) from raw.models where models.benchmark_id = $benchmark) as n_models,
    (select count(*) from raw.items where items.benchmark_id = $benchmark) as n_items,
    (select count(*) from raw.generations where generations.benchmark_id = $benchmark) as n_generations,
    (
        select count(*) from intermediate.item_scores
        where item_scores.benchmark_id = $benchmark and item_scores.quality is not null
    ) as n_scored_cells,
    (select count(*) from raw.judgments where judgments.benchmark_id = $benchmark) as n_judgments,
    (
        select max(data_versions.materialized_at) from meta.data_versions
        where data_versions.benchmark_id = $benchmark
    ) as made_at,
    (select max(pipeline_version.version) from meta.pipeline_version) as pipeline_version
from raw.benchmarks as benchmarks
left join meta.partition_state as states
    on benchmarks.benchmark_id = states.benchmark_id
where benchmarks.benchmark_id = $benchmark
""",
)

VERDICTS = Query(
    "verdicts",
    """
select question, sentence, source_table, is_computed
from marts.verdicts
where benchmark_id = $benchmark
order by question, sentence
""",
)

LEADERBOARD = Query(
    "leaderboard",
    """
select
    rank,
    rank_lower,
    rank_upper,
    model_id,
    mean_score,
    score_lower,
    score_upper,
    tie_group,
    n_items,
    mean_cost_usd,
    strength,
    lower,
    upper,
    look_alike_of
from marts.leaderboard
where benchmark_id = $benchmark
order by rank, model_id
""",
)

WIN_RATES = Query(
    "win_rates",
    """
with shown as (

    select model_id, rank, strength, component_id
    from estimates.strengths
    where benchmark_id = $benchmark
    order by rank, model_id
    limit 30

)

select
    rows_of.model_id as row_model_id,
    columns_of.model_id as column_model_id,
    case
        when rows_of.component_id = columns_of.component_id
            then 1 / (1 + exp(columns_of.strength - rows_of.strength))
    end as win_probability,
    pairs.n_shared_items,
    pairs.p_adjusted,
    pairs.verdict,
    (select count(*) from estimates.strengths where benchmark_id = $benchmark) as n_models
from shown as rows_of
inner join shown as columns_of
    on rows_of.model_id <> columns_of.model_id
left join estimates.model_pairs as pairs
    on
        pairs.benchmark_id = $benchmark
        and pairs.model_a_id = least(rows_of.model_id, columns_of.model_id)
        and pairs.model_b_id = greatest(rows_of.model_id, columns_of.model_id)
order by rows_of.rank, rows_of.model_id, columns_of.rank, columns_of.model_id
""",
)

AGAINST_BEST = Query(
    "against_best",
    """
with best as (

    select model_id
    from estimates.strengths
    where benchmark_id = $benchmark
    order by rank, model_id
    limit 1

)

select
    best.model_id as best_model_id,
    if(pairs.model_a_id = best.model_id, pairs.model_b_id, pairs.model_a_id) as other_model_id,
    if(pairs.model_a_id = best.model_id, pairs.difference, -pairs.difference) as ahead,
    if(pairs.model_a_id = best.model_id, pairs.lower, -pairs.upper) as ahead_lower,
    if(pairs.model_a_id = best.model_id, pairs.upper, -pairs.lower) as ahead_upper,
    pairs.p_adjusted,
    pairs.n_shared_items,
    pairs.verdict
from estimates.model_pairs as pairs
inner join best
    on best.model_id in (pairs.model_a_id, pairs.model_b_id)
where pairs.benchmark_id = $benchmark
order by ahead, other_model_id
""",
)

CLUSTER_PROFILES = Query(
    "cluster_profiles",
    """
with chosen as (

    select method
    from estimates.ecc_fits
    where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc', 'comp_only')
    order by method desc
    limit 1

),

shown as (

    select model_id, rank, strength
    from estimates.strengths
    where benchmark_id = $benchmark
    order by rank, model_id
    limit 30

)

select
    profiles.cluster_id,
    clusters.label,
    clusters.weight,
    profiles.model_id,
    profiles.strength,
    profiles.lower,
    profiles.upper,
    profiles.is_compared,
    profiles.strength - shown.strength as above_overall,
    shown.rank as rank_overall,
    rank() over (
        partition by profiles.cluster_id, profiles.is_compared order by profiles.strength desc
    ) as rank_of_shown,
    (select count(*) from estimates.strengths where benchmark_id = $benchmark) as n_models
from estimates.cluster_strengths as profiles
inner join chosen
    on profiles.method = chosen.method
inner join shown
    on profiles.model_id = shown.model_id
inner join estimates.clusters as clusters
    on
        profiles.benchmark_id = clusters.benchmark_id
        and profiles.method = clusters.method
        and profiles.cluster_id = clusters.cluster_id
where profiles.benchmark_id = $benchmark
order by profiles.cluster_id, shown.rank, profiles.model_id
""",
)

CLUSTERS = Query(
    "clusters",
    """
with chosen as (

    select method
    from estimates.ecc_fits
    where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc', 'comp_only')
    order by method desc
    limit 1

)

select
    cluster_id,
    any_value(label) as label,
    any_value(weight) as weight,
    list(model_id order by rank_in_cluster) filter (where is_among_best) as best_model_ids,
    count(*) filter (where is_compared) as n_compared,
    count(*) filter (where is_compared and abs(ranks_gained) >= 2) as n_moved,
    any_value(top_categories) as top_categories,
    any_value(top_terms) as top_terms,
    any_value(example_prompts) as example_prompts,
    any_value(top_item_ids) as top_item_ids
from marts.cluster_leaderboard
where
    benchmark_id = $benchmark
    and method = (select chosen.method from chosen)
group by cluster_id
order by cluster_id
""",
)

ECC_GAINS = Query(
    "ecc_gains",
    """
select method, inference, pair_subset, n_pairs, gain_percent, gain_lower, gain_upper
from estimates.ecc_evaluation
where benchmark_id = $benchmark
order by inference <> 'emb', method, inference, pair_subset
""",
)

ROUTING = Query(
    "routing",
    """
select
    router,
    probe_policy,
    n_items,
    mean_score,
    score_lower,
    score_upper,
    mean_cost_usd,
    share_of_oracle_gain,
    share_lower,
    share_upper
from estimates.routing_evaluation
where benchmark_id = $benchmark
order by probe_policy <> 'none', probe_policy, mean_score desc, router
""",
)

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
select
    model_id,
    avg(quality) as quality,
    avg(cost_usd) as cost_usd,
    count(*) as n_items
from intermediate.item_scores
where benchmark_id = $benchmark and quality is not null
group by model_id
having count(cost_usd) >= 0.95 * count(*)
order by cost_usd, model_id
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
    best_cost_usd,
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

RANK_CHANGES = Query(
    "rank_changes",
    """
select model_id, previous_rank, rank, previous_mean_score, mean_score, score_change, change
from marts.rank_changes
where benchmark_id = $benchmark and change <> 'same'
order by change = 'within its interval', rank nulls last, model_id
""",
)

COST_AUDIT = Query(
    "cost_audit",
    """
select
    model_id,
    n_rows,
    n_known,
    n_recomputed,
    n_unknown,
    n_zero,
    n_negative,
    n_mismatch,
    n_cached,
    has_constant_cost or has_constant_tokens as is_constant,
    total_cost_usd,
    judge_cost_usd
from marts.cost_audit
where benchmark_id = $benchmark
order by n_zero + n_negative + n_mismatch desc, model_id
""",
)

COVERAGE = Query(
    "coverage",
    """
select
    model_id,
    n_items,
    n_scored_items,
    n_error,
    n_unscored,
    n_invalid,
    n_not_run,
    generations_median,
    n_judgments,
    mean_ignoring_errors,
    mean_errors_wrong
from marts.coverage
where benchmark_id = $benchmark
order by n_scored_items, model_id
""",
)

ITEM_HEALTH = Query(
    "item_health",
    """
select
    coalesce(category, '(all without a category)') as category,
    count(*) as n_items,
    count(*) filter (where is_solved_by_all) as n_solved_by_all,
    count(*) filter (where is_solved_by_none) as n_solved_by_none,
    count(*) filter (where is_all_tied) as n_all_tied,
    count(*) filter (where discrimination < 0) as n_negative_discrimination,
    count(*) filter (where n_error > 0) as n_with_errors,
    count(*) filter (where len(same_text_item_ids) > 0) as n_doubled,
    count(*) filter (where text_differs) as n_text_differs
from marts.item_health
where benchmark_id = $benchmark
group by all
order by n_items desc, category
""",
)

FILES = Query(
    "files",
    """
select path, format, status, n_read, n_kept, n_rejected, n_duplicate, first_rejection, warnings
from marts.ingest_report
where list_contains(benchmark_ids, $benchmark) and replaced_by_file_id is null
order by status = 'read', n_rejected desc, path
""",
)

REJECTIONS = Query(
    "rejections",
    """
select
    rejections.severity,
    rejections.reason,
    count(*) as n_records,
    any_value(files.path order by rejections.location) as path,
    any_value(rejections.location order by rejections.location) as location,
    any_value(rejections.message order by rejections.location) as message
from raw.rejections as rejections
left join raw.files as files
    on
        rejections.benchmark_id = files.benchmark_id
        and rejections.file_id = files.file_id
where rejections.benchmark_id = $benchmark
group by rejections.severity, rejections.reason
order by rejections.severity = 'warning', n_records desc, rejections.reason
""",
)

DATA_VERSIONS = Query(
    "data_versions",
    """
select
    schema || '.' || "table" as table_key,
    data_version,
    code_version,
    strftime(materialized_at, '%Y-%m-%d %H:%M') as made_at,
    seed
from meta.data_versions
where benchmark_id = $benchmark
order by table_key
""",
)
