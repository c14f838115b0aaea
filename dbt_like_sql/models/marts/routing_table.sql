with cluster_strengths as (

    select * from estimates.cluster_strengths

),

clusters as (

    select * from estimates.clusters

),

responsibilities as (

    select * from estimates.cluster_responsibilities

),

item_scores as (

    select * from intermediate.item_scores

),

-- one clustering a benchmark: the one its headlines are of
chosen_methods as (

    select
        benchmark_id,
        arg_min(method, case method when 'ecc_shrunk' then 0 when 'ecc' then 1 else 2 end) as method
    from clusters
    where method in ('ecc_shrunk', 'ecc', 'comp_only')
    group by benchmark_id

),

strengths as (

    select cluster_strengths.*
    from cluster_strengths
    inner join chosen_methods
        on
            cluster_strengths.benchmark_id = chosen_methods.benchmark_id
            and cluster_strengths.method = chosen_methods.method

),

win_probabilities as (

    select
        strengths.benchmark_id,
        strengths.cluster_id,
        strengths.model_id,
        avg(1 / (1 + exp(opponents.strength - strengths.strength)) order by opponents.model_id) as win_probability
    from strengths
    inner join strengths as opponents
        on
            strengths.benchmark_id = opponents.benchmark_id
            and strengths.cluster_id = opponents.cluster_id
            and strengths.model_id != opponents.model_id
    group by strengths.benchmark_id, strengths.cluster_id, strengths.model_id

),

-- responsibilities below a thousandth change no mean by more than rounding and are most of the rows
weights as (

    select
        responsibilities.benchmark_id,
        responsibilities.cluster_id,
        responsibilities.item_id,
        responsibilities.responsibility
    from responsibilities
    inner join chosen_methods
        on
            responsibilities.benchmark_id = chosen_methods.benchmark_id
            and responsibilities.method = chosen_methods.method
    where responsibilities.responsibility >= 0.001

),

compared_models as (

    select distinct
        benchmark_id,
        model_id
    from strengths

),

-- sums in units of 1e-15: whole numbers add up to the same in any order, and ordering tens of millions of rows is slow
cluster_totals as (

    select
        weights.benchmark_id,
        weights.cluster_id,
        item_scores.model_id,
        sum((1e15 * weights.responsibility)::hugeint) as responsibility,
        sum((1e15 * weights.responsibility * item_scores.quality)::hugeint) as quality,
        sum((1e15 * weights.responsibility)::hugeint) filter (where item_scores.cost_usd is not null)
            as responsibility_with_cost,
        sum((1e15 * weights.responsibility * item_scores.cost_usd)::hugeint) as cost_usd
    from item_scores
    inner join compared_models
        on
            item_scores.benchmark_id = compared_models.benchmark_id
            and item_scores.model_id = compared_models.model_id
    inner join weights
        on
            item_scores.benchmark_id = weights.benchmark_id
            and item_scores.item_id = weights.item_id
    group by weights.benchmark_id, weights.cluster_id, item_scores.model_id

),

cluster_means as (

    select
        benchmark_id,
        cluster_id,
        model_id,
        quality / responsibility as mean_quality,
        cost_usd / responsibility_with_cost as mean_cost_usd
    from cluster_totals

),

final as (

    select
        strengths.benchmark_id,
        strengths.method,
        strengths.cluster_id,
        clusters.label,
        clusters.weight,
        strengths.model_id,
        row_number() over (
            partition by strengths.benchmark_id, strengths.cluster_id
            order by strengths.is_compared desc, strengths.strength desc, strengths.model_id asc
        ) as choice,
        strengths.strength,
        win_probabilities.win_probability,
        cluster_means.mean_quality,
        cluster_means.mean_cost_usd,
        strengths.is_compared
    from strengths
    left join clusters
        on
            strengths.benchmark_id = clusters.benchmark_id
            and strengths.method = clusters.method
            and strengths.cluster_id = clusters.cluster_id
    left join win_probabilities
        on
            strengths.benchmark_id = win_probabilities.benchmark_id
            and strengths.cluster_id = win_probabilities.cluster_id
            and strengths.model_id = win_probabilities.model_id
    left join cluster_means
        on
            strengths.benchmark_id = cluster_means.benchmark_id
            and strengths.cluster_id = cluster_means.cluster_id
            and strengths.model_id = cluster_means.model_id

)

select
    benchmark_id,
    method,
    cluster_id,
    label,
    weight,
    model_id,
    choice,
    strength,
    win_probability,
    mean_quality,
    mean_cost_usd,
    is_compared
from final
order by benchmark_id, cluster_id, choice
