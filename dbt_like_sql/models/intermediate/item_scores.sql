with generations as (

    select * from staging.stg_generations

),

-- means of one generation are exact whatever the order; those of several are made again below, in order
cells as (

    select
        benchmark_id,
        item_id,
        model_id,
        count(*) as n_generations,
        avg(score) as score,
        avg(quality) as quality,
        count(*) filter (where quality = 1) as n_correct,
        bool_and(quality in (0, 1)) as is_binary,
        avg(cost_usd) as cost_usd,
        max(latency_s) as latency_p95_s
    from generations
    where score is not null
    group by benchmark_id, item_id, model_id

),

repeated_cells as (

    select
        benchmark_id,
        item_id,
        model_id
    from cells
    where n_generations > 1

),

-- sums in the order of generations: the last bits of a mean must not depend on the order of files. Kept apart from
-- the cells above because ordered sums of two million cells with one generation take a hundred seconds
repeated as (

    select
        generations.benchmark_id,
        generations.item_id,
        generations.model_id,
        avg(generations.score order by generations.generation_id) as score,
        avg(generations.quality order by generations.generation_id) as quality,
        stddev_samp(generations.score order by generations.generation_id) as score_sd,
        avg(generations.cost_usd order by generations.generation_id) as cost_usd,
        -- a latency that was seen, not a point between two: with fewer than 20 draws that is the largest
        quantile_disc(generations.latency_s, 0.95) as latency_p95_s
    from generations
    inner join repeated_cells
        on
            generations.benchmark_id = repeated_cells.benchmark_id
            and generations.item_id = repeated_cells.item_id
            and generations.model_id = repeated_cells.model_id
    where generations.score is not null
    group by generations.benchmark_id, generations.item_id, generations.model_id

),

binary_benchmarks as (

    select
        benchmark_id,
        bool_and(is_binary) as is_binary
    from cells
    group by benchmark_id

),

final as (

    select
        cells.benchmark_id,
        cells.item_id,
        cells.model_id,
        cells.n_generations,
        coalesce(repeated.score, cells.score) as score,
        coalesce(repeated.quality, cells.quality) as quality,
        repeated.score_sd,
        case when binary_benchmarks.is_binary then cells.n_correct end as n_correct,
        coalesce(repeated.cost_usd, cells.cost_usd) as cost_usd,
        coalesce(repeated.latency_p95_s, cells.latency_p95_s) as latency_p95_s
    from cells
    inner join binary_benchmarks
        on cells.benchmark_id = binary_benchmarks.benchmark_id
    left join repeated
        on
            cells.benchmark_id = repeated.benchmark_id
            and cells.item_id = repeated.item_id
            and cells.model_id = repeated.model_id

)

select
    benchmark_id,
    item_id,
    model_id,
    n_generations,
    score,
    quality,
    score_sd,
    n_correct,
    cost_usd,
    latency_p95_s
from final
