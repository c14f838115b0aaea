with judgments as (

    select * from raw.judgments

),

-- every pair in text order, its outcome and position turned round with it
ordered as (

    select
        benchmark_id,
        item_id,
        judge_id,
        margin,
        category,
        judge_cost_usd,
        file_id,
        draw,
        least(model_a_id, model_b_id) as model_a_id,
        greatest(model_a_id, model_b_id) as model_b_id,
        case when model_a_id > model_b_id then 1 - outcome else outcome end as outcome,
        case when model_a_id > model_b_id then 1 - position else position end as position
    from judgments
    where model_a_id != model_b_id

),

-- the k-th presentation in one position and the k-th in the other are one vote; where the position is not known,
-- every presentation is a vote of its own
numbered as (

    select
        *,
        row_number() over (
            partition by benchmark_id, item_id, model_a_id, model_b_id, judge_id, position
            order by draw, outcome, file_id
        ) as presentation
    from ordered

),

merged as (

    select
        benchmark_id,
        item_id,
        model_a_id,
        model_b_id,
        judge_id,
        presentation,
        position is null as is_position_unknown,
        count(*) as n_presentations,
        case when count(*) = 1 then min(position) end as position,
        case
            -- both positions agree on the winner, or on a tie
            when min(sign(outcome - 0.5)) = max(sign(outcome - 0.5)) then (min(outcome) + max(outcome)) / 2
            else 0.5
        end as outcome,
        (min(margin) + max(margin)) / 2 as margin,
        min(category) as category,
        case when count(judge_cost_usd) = count(*) then sum(judge_cost_usd order by position) end as judge_cost_usd,
        min(file_id) as file_id
    from numbered
    group by
        benchmark_id, item_id, model_a_id, model_b_id, judge_id, presentation, is_position_unknown

),

final as (

    select
        *,
        row_number() over (
            partition by benchmark_id, item_id, model_a_id, model_b_id, judge_id
            order by is_position_unknown, presentation
        ) - 1 as draw
    from merged

)

select
    benchmark_id,
    item_id,
    model_a_id,
    model_b_id,
    judge_id,
    position,
    draw,
    outcome,
    margin,
    n_presentations,
    category,
    judge_cost_usd,
    file_id
from final
