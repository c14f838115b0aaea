with generations as (

    select * from raw.generations

),

benchmarks as (

    select * from raw.benchmarks

),

declared as (

    select
        benchmark_id,
        coalesce(error_policy, getvariable('error_policy'), 'ignore') as error_policy,
        coalesce(higher_is_better, true) as higher_is_better,
        case when isfinite(score_low) then score_low end as score_low,
        case when isfinite(score_high) then score_high end as score_high
    from benchmarks

),

counted as (

    select
        generations.*,
        coalesce(declared.error_policy, getvariable('error_policy'), 'ignore') as error_policy,
        coalesce(declared.higher_is_better, true) as higher_is_better,
        declared.score_low,
        declared.score_high,
        case
            when generations.status = 'ok' then generations.score
            -- the worst of a range that is open on that side is not known, so the error stays without a score
            when generations.status = 'error' and declared.error_policy = 'wrong'
                then case when declared.higher_is_better then declared.score_low else declared.score_high end
        end as counted_score
    from generations
    left join declared
        on generations.benchmark_id = declared.benchmark_id

),

final as (

    select
        * exclude (score),
        counted_score as score,
        case
            when score_high > score_low and higher_is_better
                then (counted_score - score_low) / (score_high - score_low)
            when score_high > score_low
                then (score_high - counted_score) / (score_high - score_low)
            when higher_is_better then counted_score
            else -counted_score
        end as quality
    from counted

)

select
    benchmark_id,
    item_id,
    model_id,
    generation_id,
    status,
    score,
    quality,
    error_policy,
    cost_usd,
    cost_source,
    input_tokens,
    output_tokens,
    latency_s,
    metric,
    outcome,
    is_cached,
    cost_reported_usd,
    cost_recomputed_usd,
    judge_cost_usd,
    cache_read_tokens,
    cache_write_tokens,
    reasoning_tokens,
    file_id
from final
