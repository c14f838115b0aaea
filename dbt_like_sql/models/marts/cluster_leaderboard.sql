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

example_texts as (

    select
        example_places.benchmark_id,
        example_places.method,
        example_places.cluster_id,
        example_places.place,
        items.prompt
    from example_places
    inner join items
        on
            example_places.benchmark_id = items.benchmark_id
            and example_places.item_id = items.item_id
    where items.prompt is not null

),

-- what all of a cluster's examples begin with (instructions, worked examples) says nothing of any of them; texts of
-- which the first and the last in order begin alike all begin alike
beginnings as (

    select
        benchmark_id,
        method,
        cluster_id,
        left(min(prompt), 4000) as first_prompt,
        left(max(prompt), 4000) as last_prompt
    from example_texts
    group by benchmark_id, method, cluster_id
    having min(prompt) != max(prompt)

),

common_lengths as (

    select
        benchmark_id,
        method,
        cluster_id,
        -- up to the last blank, so that no word is cut
        list_max(
            list_filter(
                range(1, 1 + least(length(first_prompt), length(last_prompt))),
                lambda place: substring(first_prompt, place, 1) in (' ', chr(10))
                and left(first_prompt, place) = left(last_prompt, place)
            )
        ) as n_common
    from beginnings

),

examples as (

    select
        example_texts.benchmark_id,
        example_texts.method,
        example_texts.cluster_id,
        list(
            case
                when common_lengths.n_common >= 60
                    then '… ' || ltrim(substring(example_texts.prompt, common_lengths.n_common + 1, 300))
                else left(example_texts.prompt, 300)
            end
            order by example_texts.place
        ) as example_prompts
    from example_texts
    left join common_lengths
        on
            example_texts.benchmark_id = common_lengths.benchmark_id
            and example_texts.method = common_lengths.method
            and example_texts.cluster_id = common_lengths.cluster_id
    group by example_texts.benchmark_id, example_texts.method, example_texts.cluster_id

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
