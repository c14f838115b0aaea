-- Every model that an estimate names is in raw.models.
with named as (

    select
        benchmark_id,
        model_id,
        'estimates.strengths' as named_in
    from estimates.strengths
    union
    select
        benchmark_id,
        model_a_id as model_id,
        'estimates.model_pairs' as named_in
    from estimates.model_pairs
    union
    select
        benchmark_id,
        model_b_id as model_id,
        'estimates.model_pairs' as named_in
    from estimates.model_pairs
    union
    select
        benchmark_id,
        model_id,
        'estimates.cluster_strengths' as named_in
    from estimates.cluster_strengths
    union
    select
        benchmark_id,
        best_model_id as model_id,
        'estimates.clusters' as named_in
    from estimates.clusters
    union
    select
        benchmark_id,
        held_out_model_id as model_id,
        'estimates.cold_start_evaluation' as named_in
    from estimates.cold_start_evaluation
    union
    select
        benchmark_id,
        best_model_id as model_id,
        'estimates.frontier_headlines' as named_in
    from estimates.frontier_headlines
    union
    select
        benchmark_id,
        recommended_model_id as model_id,
        'simulations.identification_runs' as named_in
    from simulations.identification_runs

),

models as (

    select * from raw.models

)

select
    named.benchmark_id,
    named.model_id,
    named.named_in
from named
left join models
    on
        named.benchmark_id = models.benchmark_id
        and named.model_id = models.model_id
where named.model_id is not null and models.model_id is null
