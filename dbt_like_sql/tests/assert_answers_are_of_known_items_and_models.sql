-- Every answer and every judgment is of an item in raw.items and of models in raw.models.
with generations as (

    select * from raw.generations

),

judgments as (

    select * from raw.judgments

),

items as (

    select * from raw.items

),

models as (

    select * from raw.models

),

named as (

    select
        benchmark_id,
        'item' as kind,
        item_id as name
    from generations
    union
    select
        benchmark_id,
        'item' as kind,
        item_id as name
    from judgments
    union
    select
        benchmark_id,
        'model' as kind,
        model_id as name
    from generations
    union
    select
        benchmark_id,
        'model' as kind,
        model_a_id as name
    from judgments
    union
    select
        benchmark_id,
        'model' as kind,
        model_b_id as name
    from judgments

),

known as (

    select
        benchmark_id,
        'item' as kind,
        item_id as name
    from items
    union all
    select
        benchmark_id,
        'model' as kind,
        model_id as name
    from models

)

select
    named.benchmark_id,
    named.kind,
    named.name
from named
left join known
    on
        named.benchmark_id = known.benchmark_id
        and named.kind = known.kind
        and named.name = known.name
where known.name is null
