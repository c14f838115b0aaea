"""Clusters, what they are worth, and routing by them."""

from capeval_pipeline.reporting.queries.query import Query

CHOSEN = """
with chosen as (

    select method
    from estimates.ecc_fits
    where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc', 'comp_only')
    order by method desc
    limit 1

),
"""
"""The mixture that people are shown: the shrunk one where it was fitted, else the paper's, else comparisons alone."""

CLUSTER_PROFILES = Query(
    "cluster_profiles",
    CHOSEN
    + """
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
    CHOSEN
    + """
own as (

    select *
    from marts.cluster_leaderboard
    where
        benchmark_id = $benchmark
        and method = (select chosen.method from chosen)

),

-- pairs that can be told apart overall and stand the other way round here, with intervals that do not meet
reversed_pairs as (

    select
        higher.cluster_id,
        count(*) as n_reversed,
        arg_max(higher.model_id, higher.lower - lower_one.upper) as reversed_above,
        arg_max(lower_one.model_id, higher.lower - lower_one.upper) as reversed_below
    from own as higher
    inner join own as lower_one
        on
            higher.cluster_id = lower_one.cluster_id
            and higher.rank_overall > lower_one.rank_overall
            and higher.lower > lower_one.upper
    inner join marts.model_pairs_verdicts as overall
        on
            overall.benchmark_id = $benchmark
            and overall.model_a_id = least(higher.model_id, lower_one.model_id)
            and overall.model_b_id = greatest(higher.model_id, lower_one.model_id)
            and overall.better_model_id = lower_one.model_id
    where higher.is_compared and lower_one.is_compared
    group by higher.cluster_id

),

held as (

    select
        cluster_id,
        list(category order by share_of_cluster desc, category) as held_categories,
        list(share_of_cluster order by share_of_cluster desc, category) as held_shares,
        list(share_of_category order by share_of_cluster desc, category) as held_of_category
    from estimates.cluster_categories
    where
        benchmark_id = $benchmark
        and method = (select chosen.method from chosen)
        and share_of_cluster >= 0.1
    group by cluster_id

)

select
    own.cluster_id,
    any_value(own.label) as label,
    any_value(own.weight) as weight,
    list(own.model_id order by own.rank_in_cluster) filter (where own.is_among_best) as best_model_ids,
    list(own.rank_overall order by own.rank_in_cluster) filter (where own.is_among_best) as best_ranks_overall,
    count(*) filter (where own.is_compared) as n_compared,
    coalesce(any_value(reversed_pairs.n_reversed), 0) as n_reversed,
    any_value(reversed_pairs.reversed_above) as reversed_above,
    any_value(reversed_pairs.reversed_below) as reversed_below,
    any_value(held.held_categories) as held_categories,
    any_value(held.held_shares) as held_shares,
    any_value(held.held_of_category) as held_of_category,
    any_value(own.top_categories) as top_categories,
    any_value(own.top_terms) as top_terms,
    any_value(own.example_prompts) as example_prompts,
    any_value(own.top_item_ids) as top_item_ids
from own
left join reversed_pairs
    on own.cluster_id = reversed_pairs.cluster_id
left join held
    on own.cluster_id = held.cluster_id
group by own.cluster_id
order by own.cluster_id
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
