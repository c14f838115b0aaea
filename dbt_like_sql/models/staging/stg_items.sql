with items as (

    select * from raw.items

),

final as (

    select
        benchmark_id,
        item_id,
        nullif(prompt, '') as prompt,
        nullif(category, '') as category,
        content_hash,
        -- items of one text share a split side and are listed together; without text an item is alike only itself
        coalesce(content_hash, item_id) as text_key,
        embedding,
        declared_ids
    from items

)

select
    benchmark_id,
    item_id,
    prompt,
    category,
    content_hash,
    text_key,
    embedding,
    declared_ids
from final
