with strengths as (

    select * from estimates.strengths

),

previous as (

    select * from meta.previous_leaderboard

),

previous_benchmarks as (

    select distinct benchmark_id from previous

),

models as (

    select
        benchmark_id,
        model_id
    from strengths
    union
    select
        benchmark_id,
        model_id
    from previous

),

final as (

    select
        models.benchmark_id,
        models.model_id,
        previous.rank as previous_rank,
        strengths.rank,
        previous.rank - strengths.rank as ranks_gained,
        previous.mean_score as previous_mean_score,
        strengths.mean_score,
        strengths.mean_score - previous.mean_score as score_change,
        case
            when previous.model_id is null then 'new'
            when strengths.model_id is null then 'gone'
            when strengths.rank < previous.rank_lower or strengths.rank > previous.rank_upper then 'moved'
            when strengths.rank != previous.rank then 'within its interval'
            else 'same'
        end as change
    from models
    -- without a previous state there is nothing to have changed
    inner join previous_benchmarks
        on models.benchmark_id = previous_benchmarks.benchmark_id
    left join previous
        on
            models.benchmark_id = previous.benchmark_id
            and models.model_id = previous.model_id
    left join strengths
        on
            models.benchmark_id = strengths.benchmark_id
            and models.model_id = strengths.model_id

)

select
    benchmark_id,
    model_id,
    previous_rank,
    rank,
    ranks_gained,
    previous_mean_score,
    mean_score,
    score_change,
    change
from final
order by benchmark_id, rank nulls last, model_id
