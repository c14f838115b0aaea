with cluster_strengths as (

    select * from estimates.cluster_strengths

),

clusters as (

    select * from estimates.clusters

),

strengths as (

    select * from estimates.strengths

),

items as (

    select * from staging.stg_items

),

example_places as (

    select
        benchmark_id,
        method,
        cluster_id,
        unnest(top_item_ids) as item_id,
        generate_subscripts(top_item_ids, 1) as place
    from clusters

),

examples as (

    select
        example_places.benchmark_id,
        example_places.method,
        example_places.cluster_id,
        list(left(items.prompt, 300) order by example_places.place) as example_prompts
    from example_places
    inner join items
        on
            example_places.benchmark_id = items.benchmark_id
            and example_places.item_id = items.item_id
    where items.prompt is not null
    group by example_places.benchmark_id, example_places.method, example_places.cluster_id

),

-- a model that was never compared in the cluster has only its prior: it comes after all that were
ranked as (

    select
        *,
        row_number() over (
            partition by benchmark_id, method, cluster_id
            order by is_compared desc, strength desc, model_id asc
        ) as rank_in_cluster,
        first_value(lower) over (
            partition by benchmark_id, method, cluster_id
            order by is_compared desc, strength desc, model_id asc
        ) as best_lower
    from cluster_strengths

),

final as (

    select
        ranked.benchmark_id,
        ranked.method,
        ranked.cluster_id,
        clusters.label,
        clusters.weight,
        ranked.model_id,
        ranked.rank_in_cluster,
        ranked.strength,
        ranked.lower,
        ranked.upper,
        ranked.is_compared,
        ranked.is_compared
        and (ranked.rank_in_cluster = 1 or ranked.upper >= ranked.best_lower) as is_among_best,
        strengths.rank as rank_overall,
        strengths.rank - ranked.rank_in_cluster as ranks_gained,
        clusters.top_terms,
        clusters.top_categories,
        clusters.top_item_ids,
        examples.example_prompts
    from ranked
    left join clusters
        on
            ranked.benchmark_id = clusters.benchmark_id
            and ranked.method = clusters.method
            and ranked.cluster_id = clusters.cluster_id
    left join examples
        on
            ranked.benchmark_id = examples.benchmark_id
            and ranked.method = examples.method
            and ranked.cluster_id = examples.cluster_id
    left join strengths
        on
            ranked.benchmark_id = strengths.benchmark_id
            and ranked.model_id = strengths.model_id

)

select
    benchmark_id,
    method,
    cluster_id,
    label,
    weight,
    model_id,
    rank_in_cluster,
    strength,
    lower,
    upper,
    is_compared,
    is_among_best,
    rank_overall,
    ranks_gained,
    top_terms,
    top_categories,
    top_item_ids,
    example_prompts
from final
order by benchmark_id, method, cluster_id, rank_in_cluster
