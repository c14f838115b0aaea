"""What `capeval route` reads: the published clusters of a benchmark, to place one prompt among them.

`$method` is a parameter of the query, the method whose clusters are the headline.
"""

from capeval_pipeline.reporting.queries.query import Query

HEADLINE_FIT = Query(
    "headline_fit",
    """
select *
from estimates.ecc_fits
where benchmark_id = $benchmark and method in ('ecc_shrunk', 'ecc')
order by method desc
limit 1
""",
)

ITEM_VECTORS = Query(
    "item_vectors",
    """
select item_id, embedder, embedding
from estimates.item_embeddings
where benchmark_id = $benchmark
""",
)

RESPONSIBILITIES = Query(
    "responsibilities",
    """
select method, item_id, cluster_id, responsibility, basis
from estimates.cluster_responsibilities
where benchmark_id = $benchmark and method = $method
""",
)

CLUSTER_STRENGTHS = Query(
    "cluster_strengths",
    """
select *
from estimates.cluster_strengths
where benchmark_id = $benchmark and method = $method
""",
)

CLUSTER_COSTS = Query(
    "cluster_costs",
    """
select cluster_id, model_id, mean_cost_usd
from marts.routing_table
where benchmark_id = $benchmark and method = $method
""",
)

CLUSTER_LABELS = Query(
    "cluster_labels",
    """
select cluster_id, label
from estimates.clusters
where benchmark_id = $benchmark and method = $method
""",
)

OVERALL_STRENGTHS = Query(
    "overall_strengths",
    """
select
    strengths.model_id,
    any_value(strengths.strength) as strength,
    avg(item_scores.cost_usd) as mean_cost_usd
from estimates.strengths as strengths
left join intermediate.item_scores as item_scores using (benchmark_id, model_id)
where benchmark_id = $benchmark
group by strengths.model_id
""",
)
