with frontier_points as (

    select * from estimates.frontier_points

),

frontier_models as (

    select * from estimates.frontier_models

),

-- who takes part is decided by the frontier itself, by its settings
models as (

    select
        benchmark_id,
        cost_axis,
        model_id,
        cost_usd as cost,
        quality
    from frontier_models
    where is_in_frontier

),

ranges as (

    select
        benchmark_id,
        cost_axis,
        min(cost) as least_cost,
        max(cost) as greatest_cost
    from models
    group by benchmark_id, cost_axis

),

steps as (

    select unnest(generate_series(0, 23)) as step

),

-- 24 cost budgets from the cheapest model to the dearest, geometric (even, where something is free)
budgets as (

    select distinct
        ranges.benchmark_id,
        ranges.cost_axis,
        case
            when steps.step = 0 then ranges.least_cost
            when steps.step = 23 then ranges.greatest_cost
            when ranges.least_cost > 0
                then ranges.least_cost * pow(ranges.greatest_cost / ranges.least_cost, steps.step / 23)
            else ranges.greatest_cost * steps.step / 23
        end as cost_budget
    from ranges
    cross join steps

),

best_singles as (

    select
        budgets.benchmark_id,
        budgets.cost_axis,
        budgets.cost_budget,
        models.model_id,
        models.quality,
        models.cost
    from budgets
    inner join models
        on
            budgets.benchmark_id = models.benchmark_id
            and budgets.cost_axis = models.cost_axis
            and budgets.cost_budget >= models.cost
    qualify
        row_number() over (
            partition by budgets.benchmark_id, budgets.cost_axis, budgets.cost_budget
            order by models.quality desc, models.cost asc, models.model_id asc
        ) = 1

),

curves as (

    select
        benchmark_id,
        cost_axis,
        case
            when routing = 'constant' and estimator = 'naive' then 'constant'
            when routing = 'pre_hoc' and estimator = 'naive' then 'naive'
            when routing = 'pre_hoc' and estimator = 'headline' then 'headline'
            when routing = 'cluster_router' and estimator = 'cross_fit' then 'cluster_router'
        end as curve,
        point,
        cost_usd as cost,
        quality,
        lower,
        upper
    from frontier_points
    where
        (routing = 'constant' and estimator = 'naive')
        or (routing = 'pre_hoc' and estimator in ('naive', 'headline'))
        or (routing = 'cluster_router' and estimator = 'cross_fit')

),

segments as (

    select
        *,
        lead(cost) over along as next_cost,
        lead(quality) over along as next_quality,
        lead(lower) over along as next_lower,
        lead(upper) over along as next_upper
    from curves
    window along as (partition by benchmark_id, cost_axis, curve order by cost, point)

),

-- between published points a frontier is linear (one item is mixed), after the last it is flat, before the first
-- there is none
met as (

    select
        budgets.benchmark_id,
        budgets.cost_axis,
        budgets.cost_budget,
        segments.curve,
        segments.quality,
        segments.lower,
        segments.upper,
        segments.next_quality,
        segments.next_lower,
        segments.next_upper,
        (budgets.cost_budget - segments.cost) / nullif(segments.next_cost - segments.cost, 0) as share_of_step
    from budgets
    inner join segments
        on
            budgets.benchmark_id = segments.benchmark_id
            and budgets.cost_axis = segments.cost_axis
            and budgets.cost_budget >= segments.cost
            and (segments.next_cost is null or budgets.cost_budget < segments.next_cost)

),

reached as (

    select
        benchmark_id,
        cost_axis,
        cost_budget,
        curve,
        coalesce(quality + share_of_step * (next_quality - quality), quality) as quality,
        coalesce(lower + share_of_step * (next_lower - lower), lower) as lower,
        coalesce(upper + share_of_step * (next_upper - upper), upper) as upper
    from met

),

mixtures as (

    select
        benchmark_id,
        cost_axis,
        cost_budget,
        max(quality) filter (where curve = 'constant') as constant_quality,
        max(quality) filter (where curve = 'naive') as naive_quality,
        max(quality) filter (where curve = 'headline') as mixture_quality,
        max(lower) filter (where curve = 'headline') as mixture_lower,
        max(upper) filter (where curve = 'headline') as mixture_upper,
        max(quality) filter (where curve = 'cluster_router') as cluster_router_quality
    from reached
    group by benchmark_id, cost_axis, cost_budget

),

final as (

    select
        budgets.benchmark_id,
        budgets.cost_axis,
        budgets.cost_budget,
        best_singles.model_id as best_single_model_id,
        best_singles.quality as best_single_quality,
        best_singles.cost as best_single_cost,
        mixtures.constant_quality,
        mixtures.mixture_quality,
        mixtures.mixture_lower,
        mixtures.mixture_upper,
        mixtures.naive_quality,
        mixtures.cluster_router_quality
    from budgets
    left join best_singles
        on
            budgets.benchmark_id = best_singles.benchmark_id
            and budgets.cost_axis = best_singles.cost_axis
            and budgets.cost_budget = best_singles.cost_budget
    left join mixtures
        on
            budgets.benchmark_id = mixtures.benchmark_id
            and budgets.cost_axis = mixtures.cost_axis
            and budgets.cost_budget = mixtures.cost_budget

)

select
    benchmark_id,
    cost_axis,
    cost_budget,
    best_single_model_id,
    best_single_quality,
    best_single_cost,
    constant_quality,
    mixture_quality,
    mixture_lower,
    mixture_upper,
    naive_quality,
    cluster_router_quality
from final
order by benchmark_id, cost_axis, cost_budget
