with frontier_points as (

    select * from estimates.frontier_points

),

frontier_headlines as (

    select * from estimates.frontier_headlines

),

frontier_diagnostics as (

    select * from estimates.frontier_diagnostics

),

frontier_models as (

    select * from estimates.frontier_models

),

cheapest as (

    select
        benchmark_id,
        cost_axis,
        model_id,
        cost_usd,
        quality
    from frontier_models
    where is_in_frontier
    qualify
        row_number() over (
            partition by benchmark_id, cost_axis
            order by cost_usd asc, quality desc, model_id asc
        ) = 1

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
        cheapest.cost_usd as cheapest_cost_usd,
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
