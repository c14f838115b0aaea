"""Tables for people, by question: which columns of a query are shown, under which heading, written how.

The report and the reading commands show the same views, so a number reads the same in both.
"""

from capeval_pipeline.reporting.views.capabilities import CLUSTERS, ECC_GAINS, ROUTING, clusters_alike
from capeval_pipeline.reporting.views.frontier import (
    BUDGET_CHOICES,
    FRONTIER,
    LATENCY_LIMITS,
    ORACLE_ESTIMATES,
    ROUTINGS,
)
from capeval_pipeline.reporting.views.identification import GAP_CLASSES, IDENTIFICATION, INTERVALS
from capeval_pipeline.reporting.views.records import (
    COST_AUDIT,
    COVERAGE,
    DATA_VERSIONS,
    FILES,
    ITEM_HEALTH,
    ORDER_BIAS,
    REJECTIONS,
)
from capeval_pipeline.reporting.views.strengths import AGAINST_BEST, LEADERBOARD, RANK_CHANGES
from capeval_pipeline.reporting.views.studies import BIAS_DECAY, DEBIASER_COMPARISON, INTERVAL_COVERAGE, TOPIC_ENTROPY
from capeval_pipeline.reporting.views.view import Column, View

__all__ = [
    "AGAINST_BEST",
    "BIAS_DECAY",
    "BUDGET_CHOICES",
    "CLUSTERS",
    "COST_AUDIT",
    "COVERAGE",
    "DATA_VERSIONS",
    "DEBIASER_COMPARISON",
    "ECC_GAINS",
    "FILES",
    "FRONTIER",
    "GAP_CLASSES",
    "IDENTIFICATION",
    "INTERVALS",
    "INTERVAL_COVERAGE",
    "ITEM_HEALTH",
    "LATENCY_LIMITS",
    "LEADERBOARD",
    "ORACLE_ESTIMATES",
    "ORDER_BIAS",
    "RANK_CHANGES",
    "REJECTIONS",
    "ROUTING",
    "ROUTINGS",
    "TOPIC_ENTROPY",
    "Column",
    "View",
    "clusters_alike",
]
