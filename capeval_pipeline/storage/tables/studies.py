"""Layer `studies`: what the methods do on synthetic worlds with a known truth; not partitioned."""

from capeval_pipeline.storage.tables.contract import Table, integer, real, required, text, unpartitioned

SCHEMA = "studies"

ORACLE_BIAS_DECAY = unpartitioned(
    SCHEMA,
    "oracle_bias_decay",
    ["world", "n_models", "n_generations"],
    [
        *required(
            text("world", "synthetic world"),
            integer("n_models", "models", "models"),
            integer("n_generations", "draws per cell", "draws"),
            real("true_oracle", "mean over items of the largest mean", "quality"),
            real("naive", "expected mean over items of the largest sample mean", "quality"),
            real("bias", "naive − true_oracle", "quality"),
        ),
        real("local_exponent", "exponent of the decay of the bias in the number of draws"),
    ],
    "Exact bias of the naive oracle; one row per world, number of models and number of draws.",
)

DEBIASER_COMPARISON = unpartitioned(
    SCHEMA,
    "debiaser_comparison",
    ["world", "n_models", "n_generations", "estimator"],
    [
        *required(
            text("world", "synthetic world"),
            integer("n_models", "models", "models"),
            integer("n_generations", "draws per cell", "draws"),
            text("estimator", "oracle estimator"),
        ),
        real("bias", "mean error", "quality"),
        real("rmse", "root mean squared error", "quality"),
        real("coverage", "share of intervals that hold the truth", "share"),
    ],
    "Oracle estimators against the truth; one row per world, sizes and estimator.",
)

INTERVAL_COVERAGE = unpartitioned(
    SCHEMA,
    "interval_coverage",
    ["world", "n_items", "n_models", "n_generations", "interval"],
    [
        *required(
            text("world", "synthetic world"),
            integer("n_items", "items", "items"),
            integer("n_models", "models", "models"),
            integer("n_generations", "draws per cell", "draws"),
            text("interval", "which interval of the headline, nominally 95 %, and whose truth it should hold"),
            real("coverage", "share of benchmarks whose interval holds the truth", "share"),
            real("mean_width", "mean width of the interval", "quality"),
            real("share_point", "share of benchmarks for which a single figure was given", "share"),
            integer("n_seeds", "benchmarks", "benchmarks"),
        ),
    ],
    "Measured coverage of the frontier's intervals; one row per world, sizes and interval.",
)

TOPIC_ENTROPY = unpartitioned(
    SCHEMA,
    "topic_entropy",
    ["world", "mixture"],
    [
        *required(
            text("world", "synthetic world"),
            text("mixture", "mix of topics: their shares"),
            real("entropy", "entropy of the mix", "nat"),
            real("oracle_gap", "true oracle − best single model", "quality"),
        ),
    ],
    "What the mix of topics does to the oracle's gain; one row per world and mix.",
)

IDENTIFICATION_GAPS = unpartitioned(
    SCHEMA,
    "identification_gaps",
    ["world", "gap", "policy", "pull_budget"],
    [
        *required(
            text("world", "synthetic world"),
            real("gap", "best minus second mean", "quality"),
            text("policy", "allocation policy"),
            integer("pull_budget", "scored items spent", "pulls"),
            real("accuracy", "share of replays that name a best model", "share"),
            integer("n_runs", "replays", "replays"),
        ),
    ],
    "Identification on worlds with a known gap; one row per world, gap, policy and pull budget.",
)

STUDY_TABLES: tuple[Table, ...] = (
    ORACLE_BIAS_DECAY,
    DEBIASER_COMPARISON,
    INTERVAL_COVERAGE,
    TOPIC_ENTROPY,
    IDENTIFICATION_GAPS,
)
