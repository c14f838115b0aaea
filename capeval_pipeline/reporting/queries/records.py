"""What was read: files, refusals, coverage, items, costs."""

from capeval_pipeline.reporting.queries.query import Query

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

ORDER_BIAS = Query(
    "order_bias",
    """
select
    coalesce(judge_id, '(not told)') as judge_id,
    n_votes,
    n_pairs,
    n_flips,
    n_reversals,
    flip_share,
    first_win_share,
    lower,
    upper
from marts.order_bias
where benchmark_id = $benchmark
order by n_votes desc, judge_id
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
