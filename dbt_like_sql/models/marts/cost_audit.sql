with models as (

    select * from raw.models

),

generations as (

    select * from raw.generations

),

judgments as (

    select * from staging.stg_judgments

),

counted as (

    select
        benchmark_id,
        model_id,
        count(*) as n_rows,
        count(*) filter (where cost_source = 'reported') as n_reported,
        count(*) filter (where cost_source = 'recomputed') as n_recomputed,
        count(*) filter (where cost_source = 'unknown') as n_unknown,
        count(*) filter (where cost_reported_usd = 0) as n_zero,
        count(*) filter (where is_cached) as n_cached,
        count(*) filter (where cost_reported_usd < 0) as n_negative,
        count(*) filter (
            where
            cost_reported_usd > 0
            and abs(cost_recomputed_usd - cost_reported_usd) > 0.01 * cost_reported_usd
        ) as n_mismatch,
        count(*) filter (where input_tokens is null or output_tokens is null) as n_missing_tokens,
        count(cost_usd) as n_known,
        count(input_tokens) as n_with_tokens,
        min(input_tokens) = max(input_tokens) and min(output_tokens) = max(output_tokens) as has_equal_tokens,
        count(cost_usd) >= 5 and min(cost_usd) = max(cost_usd) as has_constant_cost,
        string_agg(distinct price_date, ', ' order by price_date) as price_date,
        sum(cost_usd order by cost_usd) as total_cost_usd,
        sum(judge_cost_usd order by judge_cost_usd) as generation_judge_cost_usd
    from generations
    group by benchmark_id, model_id

),

-- equal token counts are suspect only where the other models' vary
compared as (

    select
        *,
        n_with_tokens >= 5
        and has_equal_tokens
        and bool_or(n_with_tokens >= 5 and not has_equal_tokens) over (partition by benchmark_id)
            as has_constant_tokens
    from counted

),

-- a judgment's cost is of two models: half of it is counted to each
judging as (

    select
        benchmark_id,
        model_a_id as model_id,
        judge_cost_usd / 2 as judge_cost_usd
    from judgments
    where judge_cost_usd is not null
    union all
    select
        benchmark_id,
        model_b_id as model_id,
        judge_cost_usd / 2 as judge_cost_usd
    from judgments
    where judge_cost_usd is not null

),

judging_totals as (

    select
        benchmark_id,
        model_id,
        sum(judge_cost_usd order by judge_cost_usd) as judge_cost_usd
    from judging
    group by benchmark_id, model_id

),

final as (

    select
        models.benchmark_id,
        models.model_id,
        coalesce(compared.n_rows, 0) as n_rows,
        coalesce(compared.n_known, 0) as n_known,
        coalesce(compared.n_reported, 0) as n_reported,
        coalesce(compared.n_recomputed, 0) as n_recomputed,
        coalesce(compared.n_unknown, 0) as n_unknown,
        coalesce(compared.n_zero, 0) as n_zero,
        coalesce(compared.n_cached, 0) as n_cached,
        coalesce(compared.n_negative, 0) as n_negative,
        coalesce(compared.n_mismatch, 0) as n_mismatch,
        coalesce(compared.n_missing_tokens, 0) as n_missing_tokens,
        coalesce(compared.has_constant_tokens, false) as has_constant_tokens,
        coalesce(compared.has_constant_cost, false) as has_constant_cost,
        compared.total_cost_usd,
        case
            when compared.generation_judge_cost_usd is not null or judging_totals.judge_cost_usd is not null
                then coalesce(compared.generation_judge_cost_usd, 0) + coalesce(judging_totals.judge_cost_usd, 0)
        end as judge_cost_usd,
        compared.price_date
    from models
    left join compared
        on
            models.benchmark_id = compared.benchmark_id
            and models.model_id = compared.model_id
    left join judging_totals
        on
            models.benchmark_id = judging_totals.benchmark_id
            and models.model_id = judging_totals.model_id

)

select
    benchmark_id,
    model_id,
    n_rows,
    n_known,
    n_reported,
    n_recomputed,
    n_unknown,
    n_zero,
    n_cached,
    n_negative,
    n_mismatch,
    n_missing_tokens,
    has_constant_tokens,
    has_constant_cost,
    total_cost_usd,
    judge_cost_usd,
    price_date
from final
order by benchmark_id, model_id
