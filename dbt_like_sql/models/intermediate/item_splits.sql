with items as (

    select * from staging.stg_items

),

keyed as (

    select
        benchmark_id,
        item_id,
        md5(concat_ws(chr(31), coalesce(getvariable('seed'), 0), benchmark_id, text_key)) as split_key
    from items

),

final as (

    select
        *,
        -- 15 hex digits are what a bigint holds without touching its sign
        ('0x' || substr(split_key, 1, 15))::bigint / 1152921504606846976.0 as fraction
    from keyed

)

select
    benchmark_id,
    item_id,
    case when fraction < coalesce(getvariable('test_share'), 0.2) then 'test' else 'train' end as split,
    split_key
from final
