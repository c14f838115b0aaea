with frontier_points as (

    select * from estimates.frontier_points

),

frontier_headlines as (

    select * from estimates.frontier_headlines

),

frontier_diagnostics as (

    select * from estimates.frontier_diagnostics

),

item_scores as (

    select * from intermediate.item_scores

),

model_costs as (

    select
        benchmark_id,
        'usd' as cost_axis,
        model_id,
        avg(cost_usd order by item_id) as cost,
        avg(quality order by item_id) as quality,
        count(cost_usd) as n_known,
        count(*) as n_items
    from item_scores
    where benchmark_id in (select frontier_headlines.benchmark_id from frontier_headlines)
    group by benchmark_id, model_id
    union all
    select
        benchmark_id,
        'latency_p95_s' as cost_axis,
        model_id,
        avg(latency_p95_s order by item_id) as cost,
        avg(quality order by item_id) as quality,
        count(latency_p95_s) as n_known,
        count(*) as n_items
    from item_scores
    where benchmark_id in (select frontier_headlines.benchmark_id from frontier_headlines)
    group by benchmark_id, model_id

),

-- models without a cost on more than 5 % of their items are left out of the frontier, so of the cheapest too
cheapest as (

    select
        benchmark_id,
        cost_axis,
        model_id,
        cost,
        quality
    from model_costs
    where n_known >= 0.95 * n_items and n_known > 0
    qualify row_number() over (partition by benchmark_id, cost_axis order by cost asc, quality desc, model_id asc) = 1

),

final as (

    select
        frontier_points.*,
        frontier_headlines.n_models,
        frontier_headlines.draws_allowed,
        frontier_headlines.best_model_id,
        frontier_headlines.best_quality,
        frontier_headlines.best_cost_usd,
        cheapest.model_id as cheapest_model_id,
        cheapest.quality as cheapest_quality,
        cheapest.cost as cheapest_cost_usd,
        frontier_diagnostics.verdict
    from frontier_points
    left join frontier_headlines
        on
            frontier_points.benchmark_id = frontier_headlines.benchmark_id
            and frontier_points.cost_axis = frontier_headlines.cost_axis
            and frontier_points.estimator = frontier_headlines.estimator
            and frontier_points.routing = frontier_headlines.routing
    left join cheapest
        on
            frontier_points.benchmark_id = cheapest.benchmark_id
            and frontier_points.cost_axis = cheapest.cost_axis
    left join frontier_diagnostics
        on frontier_points.benchmark_id = frontier_diagnostics.benchmark_id

)

select
    benchmark_id,
    cost_axis,
    estimator,
    routing,
    point,
    cost_usd,
    quality,
    lower,
    upper,
    lower_fixed,
    upper_fixed,
    n_models,
    draws_allowed,
    best_model_id,
    best_quality,
    best_cost_usd,
    cheapest_model_id,
    cheapest_quality,
    cheapest_cost_usd,
    verdict
from final
order by benchmark_id, cost_axis, estimator, routing, point
