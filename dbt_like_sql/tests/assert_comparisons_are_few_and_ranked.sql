-- An item has no comparison, or two to pairs_per_item of them, ranked 0, 1, … without a gap.
with comparisons as (

    select * from intermediate.comparisons

),

versions as (

    select * from meta.data_versions

),

-- what the comparisons were made with, where that is on record; else what is set now
limits as (

    select
        versions.benchmark_id,
        max(json_extract(versions.config, '$.pairs_per_item')::bigint) as pairs_per_item
    from versions
    where versions.schema = 'intermediate' and versions.table = 'comparisons'
    group by versions.benchmark_id

),

counted as (

    select
        benchmark_id,
        item_id,
        count(*) as n_comparisons,
        min(sample_rank) as first_rank,
        max(sample_rank) as last_rank
    from comparisons
    group by benchmark_id, item_id

)

select
    counted.benchmark_id,
    counted.item_id,
    counted.n_comparisons,
    counted.first_rank,
    counted.last_rank
from counted
left join limits
    on counted.benchmark_id = limits.benchmark_id
where
    counted.n_comparisons < 2
    or counted.first_rank != 0
    or counted.last_rank != counted.n_comparisons - 1
    or counted.n_comparisons > coalesce(limits.pairs_per_item, getvariable('pairs_per_item'), 7)
