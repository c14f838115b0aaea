"""What a reader takes and gives: options in, facts and chunks of Arrow tables out.

A reader knows one format. Which benchmark a file belongs to, what other files said, and what the lake holds is not
its business; nor are repeated keys, which `ingestion.reading` settles for all formats alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from capeval_pipeline.formats.refusals import PLACE_CHARACTERS, one_line

CHUNK_RECORDS = 65_536
"""Records of one chunk at most."""

CHUNK_BYTES = 32 * 1024**2
"""Bytes of a file after which a chunk ends though its records are few: some records are megabytes."""


@dataclass(frozen=True)
class Limits:
    """What a file may cost before it is refused; bytes, counts and levels."""

    inflated_bytes: int = 2 * 1024**3
    archive_bytes: int = 20 * 1024**3
    archive_members: int = 200_000
    inflation_ratio: int = 200
    ratio_free_bytes: int = 10 * 1024**2
    line_bytes: int = 32 * 1024**2
    document_bytes: int = 2 * 1024**3
    json_depth: int = 100
    n_bad_rows: int = 1_000


@dataclass(frozen=True)
class ReadOptions:
    """What the person or benchmark.yml decided for this unit.

    score_range : lowest and highest possible score; None where nothing was declared, an open side is ±inf.
    keep_text : False drops prompts (hashes and ids stay).
    folder : name of the folder the file lies in, unless it names the benchmark; it may name the model.
    mapping : the mapping file to read by, where a person named one.
    instances : file with the id of every item of the benchmark, one a line.
    """

    metric: str | None = None
    model: str | None = None
    score_range: tuple[float, float] | None = None
    keep_text: bool = True
    folder: str | None = None
    mapping: Path | None = None
    instances: Path | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class FileFacts:
    """What the file says about itself; None is unknown."""

    format: str
    benchmark: str | None = None
    version: str | None = None
    tool_version: str | None = None
    created: datetime | None = None
    main_metric: str | None = None
    score_range: tuple[float, float] | None = None
    higher_is_better: bool | None = None
    claimed_items: int | None = None
    model_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """At most CHUNK_RECORDS records as Arrow tables in the schemas below.

    `record` counts the file's records from 0 through all chunks; `place` is put into `place_format` to say where a
    record stands ("line {}"). Every record is in a row or in a rejection of severity rejected or duplicate.
    """

    items: pa.Table
    generations: pa.Table
    judgments: pa.Table
    metric_values: pa.Table
    rejections: pa.Table
    n_read: int
    place_format: str = "line {}"


@dataclass(frozen=True)
class Reading:
    """A file as a reader gives it: facts at once, records chunk by chunk."""

    facts: FileFacts
    chunks: Iterator[Chunk]


_OWNER = [("benchmark", pa.string()), ("benchmark_version", pa.string())]
_CELL = [
    ("record", pa.int64()),
    ("place", pa.int64()),
    ("item", pa.string()),
    ("content_hash", pa.string()),
    ("model", pa.string()),
    ("generation_id", pa.int64()),
]
ITEM_ROWS = pa.schema(
    [
        *_OWNER,
        ("item", pa.string()),
        ("content_hash", pa.string()),
        ("prompt", pa.string()),
        ("category", pa.string()),
        ("embedding", pa.list_(pa.float64())),
    ]
)
GENERATION_ROWS = pa.schema(
    [
        *_OWNER,
        *_CELL,
        ("status", pa.string()),
        ("score", pa.float64()),
        ("metric", pa.string()),
        ("outcome", pa.string()),
        ("is_cached", pa.bool_()),
        ("cost_reported_usd", pa.float64()),
        ("judge_cost_usd", pa.float64()),
        ("latency_s", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cache_read_tokens", pa.int64()),
        ("cache_write_tokens", pa.int64()),
        ("reasoning_tokens", pa.int64()),
        ("answered_at", pa.timestamp("us", "UTC")),
    ]
)
METRIC_ROWS = pa.schema(
    [*_OWNER, *_CELL, ("metric", pa.string()), ("value", pa.float64()), ("is_main", pa.bool_())],
)
JUDGMENT_ROWS = pa.schema(
    [
        *_OWNER,
        ("record", pa.int64()),
        ("place", pa.int64()),
        ("item", pa.string()),
        ("content_hash", pa.string()),
        ("model_a", pa.string()),
        ("model_b", pa.string()),
        ("outcome", pa.float64()),
        ("judge", pa.string()),
        ("position", pa.int64()),
        ("draw", pa.int64()),
        ("margin", pa.float64()),
        ("category", pa.string()),
        ("judge_cost_usd", pa.float64()),
    ]
)
REJECTION_ROWS = pa.schema(
    [
        *_OWNER,
        ("record", pa.int64()),
        ("severity", pa.string()),
        ("location", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
    ]
)


def rows_of(schema: pa.Schema, columns: Mapping[str, Any], n_rows: int | None = None) -> pa.Table:
    """Table of `schema` from the columns given; the others are unknown (NULL). Dictionary columns stay encoded."""
    if n_rows is None:
        n_rows = len(next(iter(columns.values()))) if columns else 0
    arrays, fields = [], []
    for schema_field in schema:
        given = columns.get(schema_field.name)
        if given is None:
            array = pa.nulls(n_rows, schema_field.type)
        elif isinstance(given, pa.Array | pa.ChunkedArray):
            is_encoded = pa.types.is_dictionary(given.type)
            array = given if is_encoded or given.type == schema_field.type else given.cast(schema_field.type)
        else:
            array = _array(given, schema_field.type)
        arrays.append(array)
        fields.append(pa.field(schema_field.name, array.type))
    return pa.table(arrays, schema=pa.schema(fields))


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Values as Arrow holds them. Half of a surrogate pair, which is no text, is written as its escape; it is so rare
    that it is looked for only where Arrow has met one."""
    try:
        return pa.array(values, type_)
    except UnicodeEncodeError:
        texts = [value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
                 for value in values]  # fmt: skip
        return pa.array(texts, type_)


def chunk_of(
    *,
    n_read: int,
    place_format: str = "line {}",
    items: pa.Table | None = None,
    generations: pa.Table | None = None,
    judgments: pa.Table | None = None,
    metric_values: pa.Table | None = None,
    rejections: pa.Table | None = None,
) -> Chunk:
    """A chunk whose missing tables are empty."""
    return Chunk(
        items=ITEM_ROWS.empty_table() if items is None else items,
        generations=GENERATION_ROWS.empty_table() if generations is None else generations,
        judgments=JUDGMENT_ROWS.empty_table() if judgments is None else judgments,
        metric_values=METRIC_ROWS.empty_table() if metric_values is None else metric_values,
        rejections=REJECTION_ROWS.empty_table() if rejections is None else rejections,
        n_read=n_read,
        place_format=place_format,
    )


Note = tuple[int | None, str, str, str, str]
"""A rejection while it is made: record (None: of the file), severity, location, reason, message."""


def rejection_rows(notes: Sequence[Note]) -> pa.Table:
    """Notes as a table of rejections."""
    record, severity, location, reason, text = zip(*notes, strict=True) if notes else ((), (), (), (), ())
    # half a surrogate pair is named as JSON writes it, not as a byte of a file name
    places = [one_line(place.encode("utf-8", "backslashreplace").decode(), PLACE_CHARACTERS) for place in location]
    columns = {"record": record, "severity": severity, "location": places, "reason": reason, "message": text}
    return rows_of(REJECTION_ROWS, columns)
