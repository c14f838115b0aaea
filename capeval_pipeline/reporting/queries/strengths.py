"""Leaderboards and pairs of models."""

from capeval_pipeline.reporting.queries.query import Query

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

RANK_CHANGES = Query(
    "rank_changes",
    """
select model_id, previous_rank, rank, previous_mean_score, mean_score, score_change, change
from marts.rank_changes
where benchmark_id = $benchmark and change <> 'same'
order by change = 'within its interval', rank nulls last, model_id
""",
)
