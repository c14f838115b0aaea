-- A frontier never falls as the cost rises (a router's curve may).
with steps as (

    select
        benchmark_id,
        cost_axis,
        estimator,
        routing,
        point,
        quality,
        lag(quality) over (
            partition by benchmark_id, cost_axis, estimator, routing order by cost_usd asc, point asc
        ) as quality_before
    from estimates.frontier_points
    where routing != 'cluster_router' and quality is not null

)

select
    benchmark_id,
    cost_axis,
    estimator,
    routing,
    point,
    quality,
    quality_before
from steps
where quality < quality_before - 1e-9
