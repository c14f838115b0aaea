"""Views on the studies in planted worlds, which are of no benchmark."""

from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.estimator_names import ESTIMATORS
from capeval_pipeline.reporting.numbers import count, percent, score
from capeval_pipeline.reporting.views.view import Column, View, plain, with_interval

INTERVAL_COVERAGE = View(
    "interval_coverage",
    "How often the answer's 95 % intervals held the truth in planted worlds, and what so few benchmarks leave open; "
    "refused figures count with their bracket.",
    queries.INTERVAL_COVERAGE,
    (
        plain("interval", "interval"),
        plain("world", "world"),
        plain("draws", "n_generations", count),
        with_interval("coverage", "coverage", "coverage_lower", "coverage_upper", percent),
        plain("mean width", "mean_width", score),
        plain("given as one figure", "share_point", percent),
        plain("benchmarks", "n_seeds", count),
    ),
)

BIAS_DECAY = View(
    "oracle_bias_decay",
    "How much too high the naive maximum is, by world, models and draws; exponent of its decay.",
    queries.BIAS_DECAY,
    (
        plain("world", "world"),
        plain("models", "n_models", count),
        plain("draws", "n_generations", count),
        plain("true oracle", "true_oracle", score),
        plain("naive", "naive", score),
        plain("bias", "bias", score),
        plain("local exponent", "local_exponent", score),
    ),
)

TOPIC_ENTROPY = View(
    "topic_entropy",
    "Gain of the oracle over the best single model by the mix of topics.",
    queries.TOPIC_ENTROPY,
    (
        plain("topics", "world"),
        plain("mix", "mixture"),
        plain("entropy, nats", "entropy", score),
        plain("gap", "oracle_gap", score),
    ),
)

DEBIASER_COMPARISON = View(
    "debiaser_comparison",
    "Every estimator against the truth of planted worlds; coverage is of its interval for exactly these items.",
    queries.DEBIASER_COMPARISON,
    (
        plain("world", "world"),
        plain("draws", "n_generations", count),
        Column("estimate", lambda row: ESTIMATORS.get(row["estimator"], str(row["estimator"])), False),
        plain("bias", "bias", score),
        plain("error (RMS)", "rmse", score),
        plain("coverage", "coverage", percent),
    ),
)
