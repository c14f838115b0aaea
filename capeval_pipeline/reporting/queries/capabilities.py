"""Clusters, what they are worth, and routing by them."""

from capeval_pipeline.reporting.queries.query import Query

CLUSTER_PROFILES = Query(
    "cluster_profiles",
    """
with chosen as (

    select method
    from estimates.ecc_fits
    where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc', 'comp_only')
    order by method desc
    limit 1

),

shown as (

    select model_id, rank, strength
    from estimates.strengths
    where benchmark_id = $benchmark
    order by rank, model_id
    limit 30

)

select
    profiles.cluster_id,
    clusters.label,
    clusters.weight,
    profiles.model_id,
    profiles.strength,
    profiles.lower,
    profiles.upper,
    profiles.is_compared,
    profiles.strength - shown.strength as above_overall,
    shown.rank as rank_overall,
    rank() over (
        partition by profiles.cluster_id, profiles.is_compared order by profiles.strength desc
    ) as rank_of_shown,
    (select count(*) from estimates.strengths where benchmark_id = $benchmark) as n_models
from estimates.cluster_strengths as profiles
inner join chosen
    on profiles.method = chosen.method
inner join shown
    on profiles.model_id = shown.model_id
inner join estimates.clusters as clusters
    on
        profiles.benchmark_id = clusters.benchmark_id
        and profiles.method = clusters.method
        and profiles.cluster_id = clusters.cluster_id
where profiles.benchmark_id = $benchmark
order by profiles.cluster_id, shown.rank, profiles.model_id
""",
)

CLUSTERS = Query(
    "clusters",
    """
with chosen as (

    select method
    from estimates.ecc_fits
    where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc', 'comp_only')
    order by method desc
    limit 1

)

select
    cluster_id,
    any_value(label) as label,
    any_value(weight) as weight,
    list(model_id order by rank_in_cluster) filter (where is_among_best) as best_model_ids,
    count(*) filter (where is_compared) as n_compared,
    count(*) filter (where is_compared and abs(ranks_gained) >= 2) as n_moved,
    any_value(top_categories) as top_categories,
    any_value(top_terms) as top_terms,
    any_value(example_prompts) as example_prompts,
    any_value(top_item_ids) as top_item_ids
from marts.cluster_leaderboard
where
    benchmark_id = $benchmark
    and method = (select chosen.method from chosen)
group by cluster_id
order by cluster_id
""",
)

ECC_GAINS = Query(
    "ecc_gains",
    """
select method, inference, pair_subset, n_pairs, gain_percent, gain_lower, gain_upper
from estimates.ecc_evaluation
where benchmark_id = $benchmark
order by inference <> 'emb', method, inference, pair_subset
""",
)

ROUTING = Query(
    "routing",
    """
select
    router,
    probe_policy,
    n_items,
    mean_score,
    score_lower,
    score_upper,
    mean_cost_usd,
    share_of_oracle_gain,
    share_lower,
    share_upper
from estimates.routing_evaluation
where benchmark_id = $benchmark
order by probe_policy <> 'none', probe_policy, mean_score desc, router
""",
)
