-- Items of one text are on one side of the split.
with items as (

    select * from staging.stg_items

),

item_splits as (

    select * from intermediate.item_splits

)

select
    items.benchmark_id,
    items.text_key,
    count(distinct item_splits.split) as n_sides
from items
inner join item_splits
    on
        items.benchmark_id = item_splits.benchmark_id
        and items.item_id = item_splits.item_id
group by items.benchmark_id, items.text_key
having count(distinct item_splits.split) > 1
