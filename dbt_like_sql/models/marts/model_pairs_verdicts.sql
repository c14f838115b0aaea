with model_pairs as (

    select * from estimates.model_pairs

),

benchmarks as (

    select * from raw.benchmarks

),

item_scores as (

    select * from intermediate.item_scores

),

scored_benchmarks as (

    select distinct benchmark_id from item_scores

),

-- points of 100 on a closed range; where the range is open, and for strengths, the number as it is
scaled as (

    select
        model_pairs.*,
        case
            when scored_benchmarks.benchmark_id is null then 'logit'
            when benchmarks.score_high > benchmarks.score_low then 'points'
            else 'score'
        end as unit,
        case
            when scored_benchmarks.benchmark_id is not null and benchmarks.score_high > benchmarks.score_low then 100
            else 1
        end as scale
    from model_pairs
    left join benchmarks
        on model_pairs.benchmark_id = benchmarks.benchmark_id
    left join scored_benchmarks
        on model_pairs.benchmark_id = scored_benchmarks.benchmark_id

),

worded as (

    select
        *,
        case verdict when 'a_better' then model_a_id when 'b_better' then model_b_id end as better_model_id,
        case when difference < 0 then model_b_id else model_a_id end as leading_model_id,
        case when difference < 0 then model_a_id else model_b_id end as trailing_model_id,
        case when difference < 0 then -upper else lower end * scale as leading_lower,
        case when difference < 0 then -lower else upper end * scale as leading_upper
    from scaled

),

final as (

    select
        *,
        case
            when difference is null then format('{} and {} were never compared.', model_a_id, model_b_id)
            when verdict = 'cannot_tell'
                then
                    format(
                        '{} and {} cannot be told apart: {:.1f} {}{} on {:,} shared items.',
                        leading_model_id,
                        trailing_model_id,
                        abs(difference) * scale,
                        unit,
                        coalesce(format(' ({:.1f} to {:.1f})', leading_lower, leading_upper), ''),
                        n_shared_items
                    )
            else
                format(
                    '{} is ahead of {} by {:.1f} {}{} on {:,} shared items.',
                    leading_model_id,
                    trailing_model_id,
                    abs(difference) * scale,
                    unit,
                    coalesce(format(' ({:.1f} to {:.1f})', leading_lower, leading_upper), ''),
                    n_shared_items
                )
        end as sentence
    from worded

)

select
    benchmark_id,
    model_a_id,
    model_b_id,
    n_shared_items,
    difference,
    lower,
    upper,
    p_value,
    p_adjusted,
    verdict,
    better_model_id,
    sentence
from final
order by benchmark_id, model_a_id, model_b_id
