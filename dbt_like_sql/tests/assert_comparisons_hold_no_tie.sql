-- The models of a sampled pair have different scores and the winner has the higher one.
with comparisons as (

    select * from intermediate.comparisons

),

item_scores as (

    select * from intermediate.item_scores

)

select
    comparisons.benchmark_id,
    comparisons.item_id,
    comparisons.model_a_id,
    comparisons.model_b_id,
    comparisons.outcome,
    first_scores.quality as quality_a,
    second_scores.quality as quality_b
from comparisons
left join item_scores as first_scores
    on
        comparisons.benchmark_id = first_scores.benchmark_id
        and comparisons.item_id = first_scores.item_id
        and comparisons.model_a_id = first_scores.model_id
left join item_scores as second_scores
    on
        comparisons.benchmark_id = second_scores.benchmark_id
        and comparisons.item_id = second_scores.item_id
        and comparisons.model_b_id = second_scores.model_id
where
    comparisons.source = 'scores'
    and not coalesce((comparisons.outcome - 0.5) * (first_scores.quality - second_scores.quality) > 0, false)
