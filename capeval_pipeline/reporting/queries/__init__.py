"""The SQL behind every figure and table of the report and the reading commands, one query each, by question."""

from capeval_pipeline.reporting.queries.capabilities import CLUSTER_PROFILES, CLUSTERS, ECC_GAINS, ROUTING
from capeval_pipeline.reporting.queries.frontier import (
    BIAS_CURVE,
    BUDGET_CHOICES,
    FRONTIER_CURVES,
    FRONTIER_HEADLINES,
    FRONTIER_VERDICT,
    LATENCY_CURVES,
    LATENCY_LIMITS,
    LATENCY_MODELS,
    ORACLE_ESTIMATES,
    SINGLE_MODELS,
)
from capeval_pipeline.reporting.queries.identification import (
    IDENTIFICATION_CURVES,
    IDENTIFICATION_GAP_CLASSES,
    IDENTIFICATION_INTERVALS,
    IDENTIFICATION_SUMMARY,
)
from capeval_pipeline.reporting.queries.overview import (
    BENCHMARKS,
    DATA_VERSIONS,
    ERROR_POLICY,
    FIRST_SENTENCES,
    HEADER,
    VERDICTS,
)
from capeval_pipeline.reporting.queries.query import Answer, Query, Row, ask
from capeval_pipeline.reporting.queries.records import COST_AUDIT, COVERAGE, FILES, ITEM_HEALTH, ORDER_BIAS, REJECTIONS
from capeval_pipeline.reporting.queries.strengths import AGAINST_BEST, LEADERBOARD, RANK_CHANGES, WIN_RATES
from capeval_pipeline.reporting.queries.studies import (
    BIAS_DECAY,
    DEBIASER_COMPARISON,
    INTERVAL_COVERAGE,
    STUDY_VERSIONS,
    TOPIC_ENTROPY,
)

__all__ = [
    "AGAINST_BEST",
    "BENCHMARKS",
    "BIAS_CURVE",
    "BIAS_DECAY",
    "BUDGET_CHOICES",
    "CLUSTERS",
    "CLUSTER_PROFILES",
    "COST_AUDIT",
    "COVERAGE",
    "DATA_VERSIONS",
    "DEBIASER_COMPARISON",
    "ECC_GAINS",
    "ERROR_POLICY",
    "FILES",
    "FIRST_SENTENCES",
    "FRONTIER_CURVES",
    "FRONTIER_HEADLINES",
    "FRONTIER_VERDICT",
    "HEADER",
    "IDENTIFICATION_CURVES",
    "IDENTIFICATION_GAP_CLASSES",
    "IDENTIFICATION_INTERVALS",
    "IDENTIFICATION_SUMMARY",
    "INTERVAL_COVERAGE",
    "ITEM_HEALTH",
    "LATENCY_CURVES",
    "LATENCY_LIMITS",
    "LATENCY_MODELS",
    "LEADERBOARD",
    "ORACLE_ESTIMATES",
    "ORDER_BIAS",
    "RANK_CHANGES",
    "REJECTIONS",
    "ROUTING",
    "SINGLE_MODELS",
    "STUDY_VERSIONS",
    "TOPIC_ENTROPY",
    "VERDICTS",
    "WIN_RATES",
    "Answer",
    "Query",
    "Row",
    "ask",
]
