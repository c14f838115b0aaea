"""Layer `meta`: which version of what was made from which versions, when, by which code."""

from capeval_pipeline.storage.tables.contract import (
    Table,
    flag,
    integer,
    moment,
    partitioned,
    real,
    required,
    text,
    unpartitioned,
)

SCHEMA = "meta"

DATA_VERSIONS = unpartitioned(
    SCHEMA,
    "data_versions",
    ["schema", "table", "benchmark_id"],
    [
        *required(
            text("schema", "layer of the table"),
            text("table", "name of the table"),
            text("benchmark_id", "benchmark of the part; '' for a table that is not partitioned"),
            text("data_version", "hash of the content, clock columns apart"),
        ),
        integer("delta_version", "version of the lake's table that holds this content"),
        text("code_version", "version of the code that made it"),
        text("inputs", "data versions it was made from, by table (JSON)"),
        text("config", "effective settings of the stage (JSON)"),
        integer("seed", "seed of its random choices"),
        text("run_id", "run that made it"),
        moment("materialized_at", "when it was made"),
    ],
    "Versions of all parts; one row per schema, table and benchmark.",
)

PARTITION_STATE = partitioned(
    SCHEMA,
    "partition_state",
    [],
    [text("data_version", "hash of the data versions of all tables of the benchmark", nullable=False)],
    "State of a benchmark as a whole; one row per benchmark.",
)

PIPELINE_VERSION = unpartitioned(
    SCHEMA,
    "pipeline_version",
    ["version"],
    [
        text("version", "version of the pipeline that built the warehouse", nullable=False),
        text("duckdb_version", "version of DuckDB that wrote it"),
        text("python_version", "version of Python that ran it"),
        moment("materialized_at", "when the warehouse was built"),
    ],
    "The program that built the warehouse; one row.",
)

PREVIOUS_LEADERBOARD = unpartitioned(
    SCHEMA,
    "previous_leaderboard",
    ["benchmark_id", "model_id"],
    [
        text("benchmark_id", "benchmark: its name, or name@version", nullable=False),
        text("model_id", "model, canonical spelling", nullable=False),
        integer("rank", "rank then, 1 = best", nullable=False),
        integer("rank_lower", "1 + number of models significantly better"),
        integer("rank_upper", "number of models − number significantly worse"),
        real("mean_score", "mean score then", "score"),
        text("data_version", "version of estimates.strengths it is from", nullable=False),
    ],
    "Ranks before estimates.strengths of the benchmark last changed; one row per benchmark and model.",
)

HELD_BACK = unpartitioned(
    SCHEMA,
    "held_back",
    ["benchmark_id"],
    required(
        text("benchmark_id", "benchmark: its name, or name@version"),
        text("reason", "the claim that its present rows break, and one of them"),
        flag("is_left_out", "nothing of it is published; else its last sound rows are"),
        text("sentence", "what that means for a reader, and why"),
    ),
    "Benchmarks that are not published as they are now, since they contradict themselves; one row per benchmark.",
)

META_TABLES: tuple[Table, ...] = (DATA_VERSIONS, PARTITION_STATE, PIPELINE_VERSION, PREVIOUS_LEADERBOARD, HELD_BACK)
