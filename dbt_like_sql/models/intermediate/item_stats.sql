with item_scores as (

    select * from intermediate.item_scores

),

benchmarks as (

    select * from raw.benchmarks

),

model_totals as (

    select
        benchmark_id,
        model_id,
        sum(quality order by item_id) as total_quality,
        count(*) as n_items
    from item_scores
    group by benchmark_id, model_id

),

-- an item is compared with the mean over the model's other items, not over all: else it is compared with itself
with_rest as (

    select
        item_scores.benchmark_id,
        item_scores.item_id,
        item_scores.model_id,
        item_scores.score,
        item_scores.quality,
        (model_totals.total_quality - item_scores.quality) / nullif(model_totals.n_items - 1, 0) as rest_quality
    from item_scores
    inner join model_totals
        on
            item_scores.benchmark_id = model_totals.benchmark_id
            and item_scores.model_id = model_totals.model_id

),

summarised as (

    select
        benchmark_id,
        item_id,
        count(*) as n_models,
        avg(score order by model_id) as mean_score,
        min(quality) as min_quality,
        max(quality) as max_quality,
        case
            when max(quality) > min(quality) and max(rest_quality) > min(rest_quality)
                then corr(quality, rest_quality order by model_id)
        end as discrimination
    from with_rest
    group by benchmark_id, item_id

),

final as (

    select
        summarised.benchmark_id,
        summarised.item_id,
        summarised.n_models,
        summarised.mean_score,
        summarised.max_quality - summarised.min_quality as quality_range,
        summarised.discrimination,
        coalesce(getvariable('tie_margin'), 1e-9) as tie_margin,
        -- where the range is open there is no best score to reach
        case when benchmarks.score_high > benchmarks.score_low then summarised.min_quality = 1 end as is_solved_by_all,
        case when benchmarks.score_high > benchmarks.score_low then summarised.max_quality = 0 end as is_solved_by_none
    from summarised
    left join benchmarks
        on summarised.benchmark_id = benchmarks.benchmark_id

)

select
    benchmark_id,
    item_id,
    n_models,
    mean_score,
    is_solved_by_all,
    is_solved_by_none,
    discrimination,
    quality_range,
    tie_margin
from final
