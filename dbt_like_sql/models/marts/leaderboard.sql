with strengths as (

    select * from estimates.strengths

),

models as (

    select * from raw.models

),

item_scores as (

    select * from intermediate.item_scores

),

generations as (

    select * from staging.stg_generations

),

policies as (

    select
        benchmark_id,
        min(error_policy) as error_policy
    from generations
    group by benchmark_id

),

expenses as (

    select
        benchmark_id,
        model_id,
        avg(cost_usd order by item_id) as mean_cost_usd,
        count(cost_usd) as n_items_with_cost,
        avg(latency_p95_s order by item_id) as mean_latency_p95_s
    from item_scores
    where cost_usd is not null or latency_p95_s is not null
    group by benchmark_id, model_id

),

final as (

    select
        strengths.*,
        expenses.mean_cost_usd,
        coalesce(expenses.n_items_with_cost, 0) as n_items_with_cost,
        expenses.mean_latency_p95_s,
        policies.error_policy,
        models.provider,
        models.look_alike_of
    from strengths
    left join expenses
        on
            strengths.benchmark_id = expenses.benchmark_id
            and strengths.model_id = expenses.model_id
    left join policies
        on strengths.benchmark_id = policies.benchmark_id
    left join models
        on
            strengths.benchmark_id = models.benchmark_id
            and strengths.model_id = models.model_id

)

select
    benchmark_id,
    rank,
    model_id,
    mean_score,
    score_lower,
    score_upper,
    rank_lower,
    rank_upper,
    tie_group,
    strength,
    lower,
    upper,
    is_separated,
    component_id,
    n_items,
    mean_cost_usd,
    n_items_with_cost,
    mean_latency_p95_s,
    error_policy,
    provider,
    look_alike_of
from final
order by benchmark_id, rank, model_id
