"""Layer `raw`: what the files said, one part a benchmark. Nothing is averaged, rounded or filled in here."""

from capeval_pipeline.storage.tables.contract import (
    ITEM_ID,
    MODEL_ID,
    Table,
    flag,
    integer,
    moment,
    partitioned,
    real,
    required,
    text,
    texts,
    vector,
)

SCHEMA = "raw"

BENCHMARKS = partitioned(
    SCHEMA,
    "benchmarks",
    [],
    [
        text("name", "name of the benchmark, without its version", nullable=False),
        text("version", "version, where one is known"),
        real("score_low", "lowest possible score; NULL where the range is open below", "score"),
        real("score_high", "highest possible score; NULL where the range is open above", "score"),
        flag("higher_is_better", "whether a larger score is better", nullable=False),
        text("error_policy", "how errors count: ignore or wrong; NULL where not declared (the setting decides)"),
        flag("has_true_generations", "false where draws were expanded from counts: their order means nothing"),
        text("zero_cost", "what a reported cost of 0 means: unknown or real"),
        text("metric", "name of the main metric"),
        text("settings", "stage blocks of benchmark.yml (JSON)"),
    ],
    "What benchmark.yml and the files declare; one row per benchmark.",
)

FILES = partitioned(
    SCHEMA,
    "files",
    ["file_id"],
    [
        text("file_id", "SHA-256 of the inflated content; of a folder, of its members", nullable=False),
        text("path", "where the file was, relative to the data folder if inside", nullable=False),
        text("format", "format it was read as; NULL if unknown"),
        *required(
            integer("n_read", "records of this benchmark seen in the file", "records"),
            integer("n_kept", "records whose rows are in", "records"),
            integer("n_rejected", "records whose verdict was refused", "records"),
            integer("n_duplicate", "records that were there before with the same values", "records"),
            moment("ingested_at", "when the file was read"),
        ),
        text("replaced_by_file_id", "newer content of the same path; NULL while this one counts"),
        text("status", "read or refused", nullable=False),
        text("tool_version", "version of the tool that wrote the file"),
        moment("created", "the file's own time of writing, else its modification time"),
        integer("claimed_items", "samples the file says its run had", "items"),
        text("warnings", "warnings by reason (JSON)"),
    ],
    "The ledger of files; one row per benchmark and file, n_read = n_kept + n_rejected + n_duplicate.",
)

ITEMS = partitioned(
    SCHEMA,
    "items",
    ["item_id"],
    [
        ITEM_ID,
        text("prompt", "text of the item"),
        text("category", "category the files give"),
        text("content_hash", "SHA-256 of prompt and choices; NULL without text"),
        vector("embedding", "vector the files give for the item"),
        texts("declared_ids", "ids the files gave the item"),
    ],
    "Items; one row per benchmark and item.",
)

MODELS = partitioned(
    SCHEMA,
    "models",
    ["model_id"],
    [
        MODEL_ID,
        texts("raw_names", "spellings found in the files"),
        text("provider", "who serves the model"),
        text("revision", "revision of the weights"),
        text("quantization", "quantization of the weights"),
        text("look_alike_of", "first model whose name differs only in case, separators or last path part"),
        text("settings", "settings of the runs (JSON)"),
    ],
    "Models; one row per benchmark and model.",
)

GENERATIONS = partitioned(
    SCHEMA,
    "generations",
    ["item_id", "model_id", "generation_id"],
    [
        ITEM_ID,
        MODEL_ID,
        integer("generation_id", "running number of the scored answer, from 0", nullable=False),
        text("status", "ok, error, unscored or invalid", nullable=False),
        real("score", "score as given; NULL unless status is ok", "score"),
        real("cost_usd", "cost of the answer; unknown is NULL", "USD"),
        text("cost_source", "reported, recomputed or unknown", nullable=False),
        integer("input_tokens", "input tokens without cached ones", "tokens"),
        integer("output_tokens", "output tokens with reasoning", "tokens"),
        real("latency_s", "time the answer took", "s"),
        text("metric", "metric the score is of"),
        text("outcome", "the file's own word for the verdict"),
        flag("is_cached", "whether the answer came from a cache"),
        real("cost_reported_usd", "cost the file reports", "USD"),
        real("cost_recomputed_usd", "cost from tokens and the price table", "USD"),
        real("judge_cost_usd", "cost of judging, never part of cost_usd", "USD"),
        integer("cache_read_tokens", "input tokens read from a cache", "tokens"),
        integer("cache_write_tokens", "input tokens written to a cache", "tokens"),
        integer("reasoning_tokens", "output tokens spent on reasoning", "tokens"),
        text("file_id", "file the row came from", nullable=False),
        text("price_date", "first day of the dated price that cost_recomputed_usd is made with; NULL without one"),
    ],
    "Scored answers; one row per benchmark, item, model and generation.",
)

JUDGMENTS = partitioned(
    SCHEMA,
    "judgments",
    ["item_id", "model_a_id", "model_b_id", "judge_id", "position", "draw"],
    [
        ITEM_ID,
        text("model_a_id", "one model of the pair, as presented or in text order", nullable=False),
        text("model_b_id", "the other model", nullable=False),
        real("outcome", "1 a won, 0.5 tie, 0 b won, or between", "share", nullable=False),
        text("judge_id", "who judged; NULL where the files do not say"),
        integer("position", "place of model a in the presentation: 0 first, 1 second; NULL if unknown"),
        integer("draw", "running number of the judge's vote on this pair, from 0", nullable=False),
        real("margin", "by how much, in the judge's own scale"),
        text("category", "category the files give the judgment"),
        real("judge_cost_usd", "cost of judging", "USD"),
        text("file_id", "file the row came from", nullable=False),
    ],
    "Judgments of pairs; one row per benchmark, item, pair, judge, position and draw.",
)

METRIC_VALUES = partitioned(
    SCHEMA,
    "metric_values",
    ["item_id", "model_id", "generation_id", "metric"],
    [
        ITEM_ID,
        MODEL_ID,
        integer("generation_id", "running number of the scored answer, from 0", nullable=False),
        text("metric", "name of the metric", nullable=False),
        real("value", "value of the metric; NULL if missing"),
        flag("is_main", "whether raw.generations takes its score from this metric", nullable=False),
        text("file_id", "file the row came from", nullable=False),
    ],
    "All metrics of scored answers; one row per benchmark, item, model, generation and metric.",
)

REJECTIONS = partitioned(
    SCHEMA,
    "rejections",
    ["file_id", "location", "reason"],
    [
        *required(
            text("file_id", "file with the record"),
            text("location", "line, row, sample, member, key or column, else 'file'"),
            text("severity", "rejected, duplicate or warning"),
            text("reason", "short code"),
            text("message", "one line: what was found, what was expected, what to do"),
        ),
    ],
    "What was refused, repeated or doubtful; one row per benchmark, file, location and reason.",
)

RAW_TABLES: tuple[Table, ...] = (
    BENCHMARKS,
    FILES,
    ITEMS,
    MODELS,
    GENERATIONS,
    JUDGMENTS,
    METRIC_VALUES,
    REJECTIONS,
)
