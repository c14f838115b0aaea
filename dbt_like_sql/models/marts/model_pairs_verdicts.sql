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

-- points are hundredths of a closed range; where the range is open, and for strengths, the number is as it is
scaled as (

    select
        model_pairs.*,
        case
            when scored_benchmarks.benchmark_id is null then '{:.2f} logits'
            when benchmarks.score_high > benchmarks.score_low then '{:.1f} points'
            else '{:.3g}'
        end as gap_words,
        case
            when scored_benchmarks.benchmark_id is null then ' ({:.2f} to {:.2f})'
            when benchmarks.score_high > benchmarks.score_low then ' ({:.1f} to {:.1f})'
            else ' ({:.3g} to {:.3g})'
        end as interval_words,
        case
            when scored_benchmarks.benchmark_id is null then 1
            when benchmarks.score_high > benchmarks.score_low
                then 100 / (benchmarks.score_high - benchmarks.score_low)
            else 1
        end as scale,
        -- a difference of scores is as given, so where lower is better a negative one is a lead
        (model_pairs.difference < 0)
        != (scored_benchmarks.benchmark_id is not null and not coalesce(benchmarks.higher_is_better, true))
        and model_pairs.difference != 0 as is_b_leading
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
        case when is_b_leading then model_b_id else model_a_id end as leading_model_id,
        case when is_b_leading then model_a_id else model_b_id end as trailing_model_id,
        format(gap_words, abs(difference) * scale)
        || coalesce(
            case
                -- the leader's lead, whatever the sign of the difference
                when difference < 0 then format(interval_words, -upper * scale, -lower * scale)
                else format(interval_words, lower * scale, upper * scale)
            end,
            ''
        )
        || format(' on {:,} shared {}.', n_shared_items, case when n_shared_items = 1 then 'item' else 'items' end)
            as measured
    from scaled

),

final as (

    select
        *,
        case
            when difference is null then format('{} and {} were never compared.', model_a_id, model_b_id)
            when verdict = 'cannot_tell'
                then format('{} and {} cannot be told apart: {}', leading_model_id, trailing_model_id, measured)
            else format('{} is ahead of {} by {}', leading_model_id, trailing_model_id, measured)
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
