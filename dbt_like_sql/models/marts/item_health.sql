with items as (

    select * from staging.stg_items

),

generations as (

    select * from raw.generations

),

item_stats as (

    select * from intermediate.item_stats

),

comparisons as (

    select * from intermediate.comparisons

),

errors as (

    select
        benchmark_id,
        item_id,
        count(*) as n_error
    from generations
    where status = 'error'
    group by benchmark_id, item_id

),

sampled as (

    select
        benchmark_id,
        item_id,
        count(*) as n_comparisons
    from comparisons
    group by benchmark_id, item_id

),

texts as (

    select
        benchmark_id,
        content_hash,
        list(item_id order by item_id) as item_ids
    from items
    where content_hash is not null
    group by benchmark_id, content_hash
    having count(*) > 1

),

declared as (

    select
        benchmark_id,
        item_id,
        content_hash,
        unnest(declared_ids) as declared_id
    from items

),

-- ids that files gave to more than one text
reused_ids as (

    select
        benchmark_id,
        declared_id
    from declared
    group by benchmark_id, declared_id
    having count(distinct content_hash) > 1

),

items_of_reused_ids as (

    select distinct
        declared.benchmark_id,
        declared.item_id
    from declared
    inner join reused_ids
        on
            declared.benchmark_id = reused_ids.benchmark_id
            and declared.declared_id = reused_ids.declared_id

),

final as (

    select
        items.benchmark_id,
        items.item_id,
        items.category,
        coalesce(item_stats.n_models, 0) as n_models,
        item_stats.mean_score,
        item_stats.is_solved_by_all,
        item_stats.is_solved_by_none,
        item_stats.discrimination,
        item_stats.quality_range = 0 as is_all_tied,
        coalesce(sampled.n_comparisons, 0) as n_comparisons,
        coalesce(errors.n_error, 0) as n_error,
        coalesce(list_filter(texts.item_ids, lambda other: other != items.item_id), []) as same_text_item_ids,
        items_of_reused_ids.item_id is not null as text_differs,
        items.prompt is not null as has_prompt
    from items
    left join item_stats
        on
            items.benchmark_id = item_stats.benchmark_id
            and items.item_id = item_stats.item_id
    left join sampled
        on
            items.benchmark_id = sampled.benchmark_id
            and items.item_id = sampled.item_id
    left join errors
        on
            items.benchmark_id = errors.benchmark_id
            and items.item_id = errors.item_id
    left join texts
        on
            items.benchmark_id = texts.benchmark_id
            and items.content_hash = texts.content_hash
    left join items_of_reused_ids
        on
            items.benchmark_id = items_of_reused_ids.benchmark_id
            and items.item_id = items_of_reused_ids.item_id

)

select
    benchmark_id,
    item_id,
    category,
    n_models,
    mean_score,
    is_solved_by_all,
    is_solved_by_none,
    discrimination,
    is_all_tied,
    n_comparisons,
    n_error,
    same_text_item_ids,
    text_differs,
    has_prompt
from final
order by benchmark_id, item_id
