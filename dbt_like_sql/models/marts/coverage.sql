with models as (

    select * from raw.models

),

items as (

    select * from raw.items

),

generations as (

    select * from raw.generations

),

judgments as (

    select * from staging.stg_judgments

),

files as (

    select * from raw.files

),

benchmarks as (

    select * from raw.benchmarks

),

staged as (

    select * from staging.stg_generations

),

item_scores as (

    select * from intermediate.item_scores

),

item_counts as (

    select
        benchmark_id,
        count(*) as n_items
    from items
    group by benchmark_id

),

policies as (

    select
        benchmark_id,
        min(error_policy) as policy
    from staged
    group by benchmark_id

),

status_counts as (

    select
        benchmark_id,
        model_id,
        count(*) filter (where status = 'ok') as n_ok,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'unscored') as n_unscored,
        count(*) filter (where status = 'invalid') as n_invalid,
        count(distinct item_id) as n_items_run
    from generations
    group by benchmark_id, model_id

),

votes as (

    select
        benchmark_id,
        model_a_id as model_id
    from judgments
    union all
    select
        benchmark_id,
        model_b_id as model_id
    from judgments

),

vote_counts as (

    select
        benchmark_id,
        model_id,
        count(*) as n_judgments
    from votes
    group by benchmark_id, model_id

),

-- only cells with an error have two means; all others are taken as they stand in item_scores
error_cells as (

    select distinct
        benchmark_id,
        item_id,
        model_id
    from generations
    where status = 'error'

),

cells_both_ways as (

    select
        generations.benchmark_id,
        generations.item_id,
        generations.model_id,
        avg(generations.score order by generations.generation_id) as mean_ignoring_errors,
        avg(
            case
                when generations.status = 'ok' then generations.score
                when generations.status = 'error'
                    then
                        case
                            when coalesce(benchmarks.higher_is_better, true) then benchmarks.score_low
                            else benchmarks.score_high
                        end
            end
            order by generations.generation_id
        ) as mean_errors_wrong,
        -- with an open range the worst score, and so this mean, is not known
        bool_and(
            case
                when coalesce(benchmarks.higher_is_better, true) then isfinite(benchmarks.score_low)
                else isfinite(benchmarks.score_high)
            end is true
        ) as is_worst_known
    from generations
    inner join error_cells
        on
            generations.benchmark_id = error_cells.benchmark_id
            and generations.item_id = error_cells.item_id
            and generations.model_id = error_cells.model_id
    left join benchmarks
        on generations.benchmark_id = benchmarks.benchmark_id
    where generations.status in ('ok', 'error')
    group by generations.benchmark_id, generations.item_id, generations.model_id

),

cells as (

    select
        coalesce(item_scores.benchmark_id, cells_both_ways.benchmark_id) as benchmark_id,
        coalesce(item_scores.item_id, cells_both_ways.item_id) as item_id,
        coalesce(item_scores.model_id, cells_both_ways.model_id) as model_id,
        item_scores.n_generations,
        case
            when cells_both_ways.item_id is null then item_scores.score else cells_both_ways.mean_ignoring_errors
        end as mean_ignoring_errors,
        case
            when cells_both_ways.item_id is null then item_scores.score else cells_both_ways.mean_errors_wrong
        end as mean_errors_wrong,
        coalesce(cells_both_ways.is_worst_known, true) as is_worst_known
    from item_scores
    full outer join cells_both_ways
        on
            item_scores.benchmark_id = cells_both_ways.benchmark_id
            and item_scores.item_id = cells_both_ways.item_id
            and item_scores.model_id = cells_both_ways.model_id

),

means as (

    select
        benchmark_id,
        model_id,
        count(n_generations) as n_scored_items,
        min(n_generations) as generations_min,
        median(n_generations) as generations_median,
        max(n_generations) as generations_max,
        avg(mean_ignoring_errors order by item_id) as mean_ignoring_errors,
        case when bool_and(is_worst_known) then avg(mean_errors_wrong order by item_id) end as mean_errors_wrong
    from cells
    group by benchmark_id, model_id

),

model_files as (

    select distinct
        benchmark_id,
        model_id,
        file_id
    from generations

),

claims as (

    select
        model_files.benchmark_id,
        model_files.model_id,
        max(files.claimed_items) as claimed_items
    from model_files
    inner join files
        on
            model_files.benchmark_id = files.benchmark_id
            and model_files.file_id = files.file_id
    where files.replaced_by_file_id is null
    group by model_files.benchmark_id, model_files.model_id

),

final as (

    select
        models.benchmark_id,
        models.model_id,
        coalesce(item_counts.n_items, 0) as n_items,
        coalesce(status_counts.n_ok, 0) as n_ok,
        coalesce(status_counts.n_error, 0) as n_error,
        coalesce(status_counts.n_unscored, 0) as n_unscored,
        coalesce(status_counts.n_invalid, 0) as n_invalid,
        coalesce(item_counts.n_items, 0) - coalesce(status_counts.n_items_run, 0) as n_not_run,
        coalesce(means.n_scored_items, 0) as n_scored_items,
        coalesce(vote_counts.n_judgments, 0) as n_judgments,
        means.generations_min,
        means.generations_median,
        means.generations_max,
        means.mean_ignoring_errors,
        means.mean_errors_wrong,
        policies.policy,
        claims.claimed_items
    from models
    left join item_counts
        on models.benchmark_id = item_counts.benchmark_id
    left join policies
        on models.benchmark_id = policies.benchmark_id
    left join status_counts
        on
            models.benchmark_id = status_counts.benchmark_id
            and models.model_id = status_counts.model_id
    left join vote_counts
        on
            models.benchmark_id = vote_counts.benchmark_id
            and models.model_id = vote_counts.model_id
    left join means
        on
            models.benchmark_id = means.benchmark_id
            and models.model_id = means.model_id
    left join claims
        on
            models.benchmark_id = claims.benchmark_id
            and models.model_id = claims.model_id

)

select
    benchmark_id,
    model_id,
    n_items,
    n_ok,
    n_error,
    n_unscored,
    n_invalid,
    n_not_run,
    n_scored_items,
    n_judgments,
    generations_min,
    generations_median,
    generations_max,
    mean_ignoring_errors,
    mean_errors_wrong,
    policy,
    claimed_items
from final
order by benchmark_id, model_id
