"""Layer `readings`: what each file said, before files meet; ingestion.resolution makes the layer `raw` of it.

Kept so that replacing, adding or forgetting a file gives exactly what reading all the remaining files from scratch
would give. Nobody but ingest reads these tables. Items and models are numbered within a file, which keeps the rows of
answers small; `place` put into `place_format` is the location of a record.
"""

from capeval_pipeline.storage.tables.contract import (
    Table,
    flag,
    integer,
    moment,
    partitioned,
    real,
    required,
    text,
    vector,
)

SCHEMA = "readings"

_FILE_ID = text("file_id", "SHA-256 of the inflated content; of a folder, of its members", nullable=False)
_RECORD = integer("record", "running number of the record in the file, from 0", nullable=False)
_PLACE = (
    integer("place", "line, row or sample of the record"),
    text("place_format", "words around the place, with {}", nullable=False),
)
_CELL = required(
    integer("item_number", "item, as numbered in readings.items"),
    integer("model_number", "model, as numbered in readings.models"),
    integer("generation_id", "running number of the scored answer, from 0"),
)

READ_FILES = partitioned(
    SCHEMA,
    "files",
    ["file_id"],
    [
        _FILE_ID,
        text("path", "where the file was, relative to the data folder if inside", nullable=False),
        text("format", "format it was read as; NULL if unknown"),
        text("status", "read or refused", nullable=False),
        text("reading_key", "hash of content, companions, options and reader", nullable=False),
        *required(
            integer("n_read", "records of this benchmark seen in the file", "records"),
            integer("n_kept", "records kept before other files are met", "records"),
            integer("n_rejected", "records refused before other files are met", "records"),
            integer("n_duplicate", "records repeated inside the file", "records"),
            moment("ingested_at", "when the file was read"),
        ),
        moment("created", "the file's own time of writing"),
        moment("modified_at", "modification time of the file"),
        text("tool_version", "version of the tool that wrote the file"),
        integer("claimed_items", "samples the file says its run had", "items"),
        text("benchmark_facts", "what benchmark.yml and the file declare, and the prices (JSON)", nullable=False),
        text("replaced_by_file_id", "newer content of the same path; NULL while this one counts"),
        text("lies_at", "where the file lies: relative to the data folder if inside, else absolute; NULL: as path"),
    ],
    "Files as read; one row per benchmark and file.",
)

READ_ITEMS = partitioned(
    SCHEMA,
    "items",
    ["file_id", "item_number"],
    [
        _FILE_ID,
        integer("item_number", "running number in the file, from 0", nullable=False),
        text("declared_id", "id the file gives; NULL where it gives only a running number"),
        text("content_hash", "SHA-256 of prompt and choices; NULL without text"),
        text("prompt", "text of the item"),
        text("category", "category the file gives"),
        vector("embedding", "vector the file gives for the item"),
    ],
    "Items as files name them; one row per benchmark, file and number.",
)

READ_MODELS = partitioned(
    SCHEMA,
    "models",
    ["file_id", "raw_name"],
    [
        _FILE_ID,
        integer("model_number", "running number in the file, from 0; spellings of one model share it", nullable=False),
        text("raw_name", "name as the file writes it", nullable=False),
        text("model_id", "model, canonical spelling", nullable=False),
        text("settings", "settings of the run (JSON)", nullable=False),
    ],
    "Models as files name them; one row per benchmark, file and spelling.",
)

READ_GENERATIONS = partitioned(
    SCHEMA,
    "generations",
    ["file_id", "item_number", "model_number", "generation_id"],
    [
        _FILE_ID,
        _RECORD,
        *_PLACE,
        *_CELL,
        text("status", "ok, error, unscored or invalid", nullable=False),
        real("score", "score as given; NULL unless status is ok", "score"),
        text("metric", "metric the score is of"),
        text("outcome", "the file's own word for the verdict"),
        flag("is_cached", "whether the answer came from a cache"),
        real("cost_reported_usd", "cost the file reports", "USD"),
        real("judge_cost_usd", "cost of judging", "USD"),
        real("latency_s", "time the answer took", "s"),
        integer("input_tokens", "input tokens without cached ones", "tokens"),
        integer("output_tokens", "output tokens with reasoning", "tokens"),
        integer("cache_read_tokens", "input tokens read from a cache", "tokens"),
        integer("cache_write_tokens", "input tokens written to a cache", "tokens"),
        integer("reasoning_tokens", "output tokens spent on reasoning", "tokens"),
        moment("answered_at", "when the answer was given; NULL where the row does not say"),
    ],
    "Scored answers as files give them; one row per benchmark, file, item, model and generation.",
)

READ_JUDGMENTS = partitioned(
    SCHEMA,
    "judgments",
    ["file_id", "item_number", "model_a_number", "model_b_number", "judge_id", "position", "draw"],
    [
        _FILE_ID,
        _RECORD,
        *_PLACE,
        *required(
            integer("item_number", "item, as numbered in readings.items"),
            integer("model_a_number", "first model, as numbered in readings.models"),
            integer("model_b_number", "second model, as numbered in readings.models"),
        ),
        real("outcome", "1 a won, 0.5 tie, 0 b won, or between", "share", nullable=False),
        text("judge_id", "who judged; NULL where the file does not say"),
        integer("position", "place of model a in the presentation: 0 first, 1 second; NULL if unknown"),
        integer("draw", "running number of the judge's vote on this pair, from 0", nullable=False),
        real("margin", "by how much, in the judge's own scale"),
        text("category", "category the file gives the judgment"),
        real("judge_cost_usd", "cost of judging", "USD"),
    ],
    "Judgments as files give them; one row per benchmark, file, item, pair, judge, position and draw.",
)

READ_METRIC_VALUES = partitioned(
    SCHEMA,
    "metric_values",
    ["file_id", "item_number", "model_number", "generation_id", "metric"],
    [
        _FILE_ID,
        _RECORD,
        *_PLACE,
        *_CELL,
        text("metric", "name of the metric", nullable=False),
        real("value", "value of the metric; NULL if missing"),
        flag("is_main", "whether the score is taken from this metric", nullable=False),
    ],
    "Metrics as files give them; one row per benchmark, file, item, model, generation and metric.",
)

READ_REJECTIONS = partitioned(
    SCHEMA,
    "rejections",
    ["file_id", "location", "reason"],
    [
        _FILE_ID,
        *required(
            text("location", "line, row, sample, member, key or column, else 'file'"),
            text("severity", "rejected, duplicate or warning"),
            text("reason", "short code"),
            text("message", "one line: what was found, what was expected, what to do"),
        ),
    ],
    "What was refused, repeated or doubtful inside one file; one row per benchmark, file, location and reason.",
)

READING_TABLES: tuple[Table, ...] = (
    READ_FILES,
    READ_ITEMS,
    READ_MODELS,
    READ_GENERATIONS,
    READ_JUDGMENTS,
    READ_METRIC_VALUES,
    READ_REJECTIONS,
)
