-- Where no single figure may be given, no headline has one.
with diagnostics as (

    select * from estimates.frontier_diagnostics

),

oracle_estimates as (

    select * from estimates.oracle_estimates

),

frontier_points as (

    select * from estimates.frontier_points

),

figures as (

    select
        benchmark_id,
        'oracle_estimates' as figure,
        value
    from oracle_estimates
    where estimator = 'headline' and category = ''
    union all
    select
        benchmark_id,
        'frontier_points' as figure,
        quality as value
    from frontier_points
    where estimator = 'headline' and cost_axis = 'usd'

)

select distinct
    figures.benchmark_id,
    figures.figure,
    diagnostics.verdict
from figures
inner join diagnostics
    on figures.benchmark_id = diagnostics.benchmark_id
where diagnostics.verdict != 'point' and figures.value is not null
