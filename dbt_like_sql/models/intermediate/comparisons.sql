with item_scores as (

    select * from intermediate.item_scores

),

item_splits as (

    select * from intermediate.item_splits

),

judgments as (

    select * from staging.stg_judgments

),

-- judgments where a benchmark has any, unless configured otherwise
sources as (

    select
        benchmark_id,
        coalesce(
            getvariable('comparison_source'), case when bool_or(has_judgments) then 'judgments' else 'scores' end
        ) as source
    from (
        select distinct
            benchmark_id,
            false as has_judgments
        from item_scores
        union all
        select distinct
            benchmark_id,
            true as has_judgments
        from judgments
    ) as present
    group by benchmark_id

),

scores as (

    select
        item_scores.benchmark_id,
        item_scores.item_id,
        item_scores.model_id,
        item_scores.quality
    from item_scores
    inner join sources
        on
            item_scores.benchmark_id = sources.benchmark_id
            and sources.source = 'scores'

),

-- every vote of an item has its own draw number, whoever the judge
votes as (

    select
        judgments.benchmark_id,
        judgments.item_id,
        judgments.model_a_id,
        judgments.model_b_id,
        judgments.outcome,
        row_number() over (
            partition by judgments.benchmark_id, judgments.item_id, judgments.model_a_id, judgments.model_b_id
            order by judgments.judge_id nulls first, judgments.draw
        ) - 1 as draw
    from judgments
    inner join sources
        on
            judgments.benchmark_id = sources.benchmark_id
            and sources.source = 'judgments'

),

results as (

    select
        benchmark_id,
        model_id,
        quality
    from scores
    union all
    select
        benchmark_id,
        model_a_id as model_id,
        outcome as quality
    from votes
    union all
    select
        benchmark_id,
        model_b_id as model_id,
        1 - outcome as quality
    from votes

),

-- rounded: in its last bits a mean may depend on the number of threads, and it decides who is in
model_means as (

    select
        benchmark_id,
        model_id,
        round(avg(quality), 9) as mean_quality
    from results
    group by benchmark_id, model_id

),

kept_models as (

    select
        benchmark_id,
        model_id,
        count(*) over (partition by benchmark_id) as n_models,
        row_number() over (partition by benchmark_id order by model_id) as model_number
    from (
        select
            *,
            row_number() over (partition by benchmark_id order by mean_quality desc, model_id asc) as model_rank
        from model_means
    ) as ranked
    where model_rank <= coalesce(getvariable('max_models'), 200)

),

cells as (

    select
        scores.benchmark_id,
        scores.item_id,
        scores.model_id,
        scores.quality,
        kept_models.n_models,
        kept_models.model_number
    from scores
    inner join kept_models
        on
            scores.benchmark_id = kept_models.benchmark_id
            and scores.model_id = kept_models.model_id

),

item_means as (

    select
        benchmark_id,
        item_id,
        avg(quality order by model_number) as mean_quality
    from cells
    where n_models > 64
    group by benchmark_id, item_id

),

-- above 64 models an item's pairs come from a pool: the 32 lowest-keyed models above the item's mean, 32 of the others
keyed_cells as (

    select
        cells.benchmark_id,
        cells.item_id,
        cells.model_id,
        cells.quality,
        cells.model_number,
        cells.quality - item_means.mean_quality > coalesce(getvariable('tie_margin'), 1e-9) as is_above_mean,
        md5(
            concat_ws(
                chr(31), coalesce(getvariable('seed'), 0), cells.benchmark_id, cells.item_id, cells.model_id
            )
        ) as model_key
    from cells
    inner join item_means
        on
            cells.benchmark_id = item_means.benchmark_id
            and cells.item_id = item_means.item_id
    where cells.n_models > 64

),

pool as (

    select
        benchmark_id,
        item_id,
        model_id,
        quality,
        model_number
    from cells
    where n_models <= 64
    union all
    select
        benchmark_id,
        item_id,
        model_id,
        quality,
        model_number
    from keyed_cells
    qualify row_number() over (partition by benchmark_id, item_id, is_above_mean order by model_key) <= 32

),

untied_pairs as (

    select
        first_models.benchmark_id,
        first_models.item_id,
        first_models.model_id as model_a_id,
        second_models.model_id as model_b_id,
        null::bigint as draw,
        first_models.quality > second_models.quality as is_a_winner
    from pool as first_models
    inner join pool as second_models
        on
            first_models.benchmark_id = second_models.benchmark_id
            and first_models.item_id = second_models.item_id
            and first_models.model_number < second_models.model_number
    where abs(first_models.quality - second_models.quality) > coalesce(getvariable('tie_margin'), 1e-9)

),

untied_votes as (

    select
        votes.benchmark_id,
        votes.item_id,
        votes.model_a_id,
        votes.model_b_id,
        votes.draw,
        votes.outcome > 0.5 as is_a_winner
    from votes
    inner join kept_models as first_models
        on
            votes.benchmark_id = first_models.benchmark_id
            and votes.model_a_id = first_models.model_id
    inner join kept_models as second_models
        on
            votes.benchmark_id = second_models.benchmark_id
            and votes.model_b_id = second_models.model_id
    where abs(votes.outcome - 0.5) > coalesce(getvariable('tie_margin'), 1e-9)

),

candidates as (

    select * from untied_pairs
    union all
    select * from untied_votes

),

-- keys are per pair (and draw), so another model adds keys and changes none; concat_ws leaves out the draw of scores
keyed as (

    select
        *,
        md5(
            concat_ws(
                chr(31), coalesce(getvariable('seed'), 0), benchmark_id, item_id, model_a_id, model_b_id, draw
            )
        ) as pair_key
    from candidates

),

sampled as (

    select
        benchmark_id,
        item_id,
        arg_min(
            {
                'model_a_id': model_a_id,
                'model_b_id': model_b_id,
                'draw': draw,
                'is_a_winner': is_a_winner
            },
            pair_key,
            coalesce(getvariable('pairs_per_item'), 7)
        ) as pairs
    from keyed
    group by benchmark_id, item_id
    -- one pair would be probe and evidence at once
    having count(*) >= 2

),

unpacked as (

    select
        benchmark_id,
        item_id,
        unnest(pairs) as pair,
        generate_subscripts(pairs, 1) - 1 as sample_rank
    from sampled

),

final as (

    select
        unpacked.benchmark_id,
        unpacked.item_id,
        unpacked.pair.model_a_id as model_a_id,
        unpacked.pair.model_b_id as model_b_id,
        coalesce(unpacked.pair.draw, 0) as draw,
        case when unpacked.pair.is_a_winner then 1.0 else 0.0 end::double as outcome,
        unpacked.sample_rank,
        case when unpacked.pair.draw is null then 'scores' else 'judgment' end as source,
        item_splits.split
    from unpacked
    left join item_splits
        on
            unpacked.benchmark_id = item_splits.benchmark_id
            and unpacked.item_id = item_splits.item_id

)

select
    benchmark_id,
    item_id,
    model_a_id,
    model_b_id,
    draw,
    outcome,
    sample_rank,
    source,
    split
from final
