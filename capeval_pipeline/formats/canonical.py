"""`canonical`: a folder with items.*, results.* and/or pairs.* (Parquet, CSV or JSON lines); the pipeline's own format.

Records are results and pairs; items are not counted. Other files in the folder are none of this format's business.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.formats import cells, long
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.protocol import (
    ITEM_ROWS,
    JUDGMENT_ROWS,
    Chunk,
    FileFacts,
    Note,
    Reading,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import FileRefused, listed, message, refusal, shown
from capeval_pipeline.formats.tabular import Batch, TableLayout, batches, repeated_columns, table_layout
from capeval_pipeline.formats.unusable_amounts import UnusableAmounts

KEYS = frozenset({"item_id", "model_a", "model_b", "winner"})
SUFFIXES = (".parquet", ".csv", ".jsonl")
JUDGE_COLUMNS = ("judge", "worker", "annotator", "rater")
OUTCOMES = {"a": 1.0, "b": 0.0, "tie": 0.5}
_NEEDED = {"results": {"model", "item_id", "score"}, "pairs": {"item_id", "model_a", "model_b", "winner"}}


def member(folder: Path, stem: str) -> Path | None:
    """The file `<stem>.parquet|.csv|.jsonl` of a folder, also compressed; None if there is none."""
    for suffix in SUFFIXES:
        for packed in ("", ".gz", ".zst"):
            path = folder / f"{stem}{suffix}{packed}"
            if path.is_file():
                return path
    return None


def members(folder: Path) -> tuple[Path, ...]:
    """The files of a canonical folder that are read, in the order items, results, pairs."""
    found = (member(folder, stem) for stem in ("items", "results", "pairs"))
    return tuple(path for path in found if path is not None)


def matches(path: Path) -> float:
    """1 for a folder whose results.* or pairs.* has the columns of this format, 0.9 if there is no items.*; else 0."""
    if not path.is_dir():
        return 0.0
    found = {file.name.partition(".")[0]: file for file in members(path)}
    for stem, needed in _NEEDED.items():
        if stem in found:
            layout = table_layout(found[stem])
            if layout is not None and (needed <= set(layout.columns) or layout.columns == ()):
                return 1.0 if "items" in found else 0.9
    return 0.0


@dataclass(frozen=True)
class _Items:
    """What items.* says: rows for the chunk, and the content hash of each id. None where there is no such file."""

    rows: pa.Table
    ids: pa.Array
    hashes: pa.Array


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a canonical folder. Raises FileRefused naming the member: columns_missing, duplicate_item, truncated …"""
    items_file, results_file, pairs_file = (member(path, stem) for stem in ("items", "results", "pairs"))
    items = None if items_file is None else _read_items(items_file, options)
    if results_file is None and pairs_file is None:
        raise refusal(path, "columns_missing", "neither results nor pairs", "results.* or pairs.*")
    facts = FileFacts(format="canonical")
    results = None
    if results_file is not None:
        layout = _layout(results_file, "results")
        results = long.read_columns(results_file, layout, options, format_name="canonical")
        facts = replace(facts, main_metric=results.facts.main_metric, created=results.facts.created)
    pairs_layout = None if pairs_file is None else _layout(pairs_file, "pairs")
    return Reading(facts, _chunks(items, results_file, results, pairs_file, pairs_layout, options))


def _layout(path: Path, stem: str) -> TableLayout:
    layout = table_layout(path)
    if layout is None:
        raise refusal(path, "unknown_format", "is no table", "Parquet, CSV or JSON lines")
    if layout.columns == ():
        raise refusal(path, "truncated", "is no whole Parquet file", "a whole file", "Copy or export it again.")
    if repeated := repeated_columns(layout.columns):
        where = f"column {repeated[0]}"
        raise refusal(path, "duplicate_column", f"column {shown(repeated[0])} is there twice", "once", where=where)
    missing = sorted(_NEEDED.get(stem, {"item_id"}) - set(layout.columns))
    if missing:
        raise refusal(
            path,
            "columns_missing",
            f"no column {', '.join(missing)} among {listed(layout.columns, 120)}",
            ", ".join(sorted(_NEEDED.get(stem, {"item_id"}))),
        )
    return layout


def _read_items(path: Path, options: ReadOptions) -> _Items:
    layout = _layout(path, "items")
    known = ("item_id", "prompt", "category", "embedding")
    wanted = [name for name in known if layout.kind == "jsonl" or name in layout.columns]
    parts = list(batches(path, layout, wanted, options.limits))
    for batch in parts:
        if batch.faults:
            fault = batch.faults[0]
            raise FileRefused(fault.reason, f"line {fault.place}", fault.message)
    ids = pa.concat_arrays([cells.plain(cells.as_keys(batch.columns["item_id"])) for batch in parts])
    columns: dict[str, Any] = {"item": ids}
    for name in ("prompt", "category"):
        if name in wanted:
            columns[name] = pa.concat_arrays([cells.as_text(batch.columns[name]) for batch in parts])
    if "embedding" in wanted:
        columns["embedding"] = pa.concat_arrays([_vectors(path, batch.columns["embedding"]) for batch in parts])
    prompt = columns.get("prompt")
    hashes = pa.nulls(len(ids), pa.string()) if prompt is None else cells.mapped(prompt, text_hash, pa.string())
    if ids.null_count:
        place = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0]) + 1
        raise refusal(path, "key_missing", f"item_id of item {place} is empty", "a name", where=f"row {place}")
    _refuse_contradictions(path, ids, hashes)
    if not options.keep_text:
        columns.pop("prompt", None)
    return _Items(rows_of(ITEM_ROWS, {**columns, "content_hash": hashes}, len(ids)), ids, hashes)


def _refuse_contradictions(path: Path, ids: pa.Array, hashes: pa.Array) -> None:
    """One id with two texts in one items file: results do not say which is meant."""
    texts = pa.table({"item": ids, "text": hashes}).group_by("item").aggregate([("text", "count_distinct")])
    repeated = texts.filter(pc.greater(texts.column("text_count_distinct"), 1)).column("item").to_pylist()
    if repeated:
        raise refusal(
            path,
            "duplicate_item",
            f"item_id {shown(min(repeated))} has two texts ({len(repeated)} such ids)",
            "one text an id",
            where=f"key {min(repeated)}",
        )


def _vectors(path: Path, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    values = cells.plain(column)
    if pa.types.is_string(values.type):
        try:
            lists = [None if text in (None, "") else json.loads(text) for text in values.to_pylist()]
            return pa.array(lists, pa.list_(pa.float64()))
        except (ValueError, RecursionError, pa.ArrowException) as error:
            found, expected = "an embedding is no list of numbers", "a list of numbers"
            raise refusal(path, "bad_row", found, expected, where="column embedding") from error
    try:
        return values.cast(pa.list_(pa.float64()))
    except pa.ArrowException as error:
        raise refusal(
            path, "bad_row", f"embedding is {values.type}", "a list of numbers", where="column embedding"
        ) from error


def _chunks(
    items: _Items | None,
    results_file: Path | None,
    results: Reading | None,
    pairs_file: Path | None,
    pairs_layout: TableLayout | None,
    options: ReadOptions,
) -> Iterator[Chunk]:
    n_records = 0
    rows = None if items is None else items.rows
    if results is not None and results_file is not None:
        for chunk in results.chunks:
            yield _placed(chunk, items, rows, results_file)
            n_records += chunk.n_read
            rows = None
    if pairs_file is not None and pairs_layout is not None:
        for chunk in _pair_chunks(pairs_file, pairs_layout, options, n_records):
            yield _placed(chunk, items, rows, pairs_file)
            rows = None


def _placed(chunk: Chunk, items: _Items | None, item_rows: pa.Table | None, file: Path) -> Chunk:
    """The chunk with the content hashes of its items, rows of unlisted items refused, and the member in its places."""
    place_format = f"{file.name} {chunk.place_format}"
    rejections = chunk.rejections
    if rejections.num_rows:
        location = pc.binary_join_element_wise(pa.scalar(file.name), rejections.column("location"), " ")
        named = pc.if_else(pc.equal(rejections.column("location"), "file"), "file", location)
        position = rejections.schema.get_field_index("location")
        rejections = rejections.set_column(position, "location", named.cast(pa.string()))
    tables = {"generations": chunk.generations, "judgments": chunk.judgments, "metric_values": chunk.metric_values}
    if items is not None:
        refused = set(rejections.column("record").to_pylist())
        notes: list[Note] = []
        for name, table in tables.items():
            if not table.num_rows:
                continue
            codes = cells.encoded(table.column("item"))
            found = pc.index_in(codes.dictionary, items.ids)
            index = found.take(codes.indices)
            unknown = index.is_null()
            if unknown.true_count:
                for row in table.filter(unknown).select(["record", "place", "item"]).to_pylist():
                    if row["record"] not in refused:
                        refused.add(row["record"])
                        where = place_format.format(row["place"])
                        text = message(
                            file.name,
                            where.removeprefix(f"{file.name} "),
                            f"item_id is {shown(row['item'])}",
                            "an item listed in items.*",
                        )
                        notes.append((row["record"], "rejected", where, "item_unknown", text))
                table, index = table.filter(index.is_valid()), index.drop_null()
            hashes = items.hashes.take(index)
            tables[name] = table.set_column(table.schema.get_field_index("content_hash"), "content_hash", hashes)
        if notes:
            rejections = pa.concat_tables([rejections, rejection_rows(notes)])
    return chunk_of(
        n_read=chunk.n_read,
        place_format=place_format,
        items=chunk.items if item_rows is None else item_rows,
        rejections=rejections,
        **tables,
    )


def _pair_chunks(path: Path, layout: TableLayout, options: ReadOptions, n_records: int) -> Iterator[Chunk]:
    judge = next((name for name in JUDGE_COLUMNS if name in layout.columns), None)
    extras = [name for name in ("category", "judge_cost_usd", "position") if name in layout.columns]
    wanted = ["item_id", "model_a", "model_b", "winner", *([judge] if judge else []), *extras]
    ignored = [name for name in layout.columns if name not in wanted and name.strip()]
    start = n_records
    unusable = UnusableAmounts(path, layout.place_format)
    for batch in batches(path, layout, wanted, options.limits):
        notes: list[Note] = []
        if ignored and n_records == start:
            found = f"columns not used: {listed(ignored, 150)}"
            text = message(path.name, "file", found, "the columns of the format", "They are ignored.")
            notes.append((None, "warning", "file", "extra_columns", text))
        yield _pair_chunk(path, layout, batch, judge, n_records, notes, unusable)
        n_records += batch.n_rows + len(batch.faults)
    if told := unusable.notes():
        yield chunk_of(n_read=0, rejections=rejection_rows(told))


def _pair_chunk(
    path: Path,
    layout: TableLayout,
    batch: Batch,
    judge: str | None,
    start: int,
    notes: list[Note],
    unusable: UnusableAmounts,
) -> Chunk:
    for number, fault in enumerate(batch.faults):
        notes.append((start + number, "rejected", layout.place_format.format(fault.place), fault.reason, fault.message))
    start += len(batch.faults)
    names = ("item_id", "model_a", "model_b")
    keys = {name: cells.as_keys(batch.columns[name], is_model=name != "item_id") for name in names}
    winners = cells.as_keys(batch.columns["winner"])
    outcome = cells.mapped(winners, lambda word: OUTCOMES.get(word.strip()), pa.float64())
    has_keys = pc.and_(pc.and_(keys["item_id"].is_valid(), keys["model_a"].is_valid()), keys["model_b"].is_valid())
    model_a, model_b = (cells.plain(keys[name]) for name in ("model_a", "model_b"))
    differs = pc.not_equal(pc.utf8_trim_whitespace(model_a), pc.utf8_trim_whitespace(model_b)).fill_null(True)
    good = pc.and_(pc.and_(has_keys, differs), outcome.is_valid())
    for index in np.flatnonzero(~good.to_numpy(zero_copy_only=False)):
        where = layout.place_format.format(batch.places[int(index)].as_py())
        winner = batch.columns["winner"][int(index)].as_py()
        if not has_keys[int(index)].as_py():
            reason, found, expected = "key_missing", "item_id, model_a or model_b is empty", "names"
        elif not differs[int(index)].as_py():
            found = f"{shown(model_a[int(index)].as_py())} against itself"
            reason, expected = "self_comparison", "two models"
        elif winner in (None, ""):
            reason, found, expected = "no_verdict", "winner is empty", "a, b or tie"
        else:
            reason, found, expected = "unknown_label", f"winner is {shown(winner)}", "a, b or tie"
        notes.append((start + int(index), "rejected", where, reason, message(path.name, where, found, expected)))
    columns: dict[str, Any] = {
        "record": pa.array(np.arange(start, start + batch.n_rows)),
        "place": batch.places,
        "item": keys["item_id"],
        "model_a": keys["model_a"],
        "model_b": keys["model_b"],
        "outcome": outcome,
    }
    if judge is not None:
        columns["judge"] = cells.as_text(batch.columns[judge])
    if "category" in batch.columns:
        columns["category"] = cells.as_text(batch.columns["category"])
    if "judge_cost_usd" in batch.columns:
        paid = batch.columns["judge_cost_usd"]
        columns["judge_cost_usd"] = unusable.without("judge_cost_usd", batch, paid, cells.as_numbers(paid))
    if "position" in batch.columns:  # 0: model_a was shown first, 1: model_b; anything else is not known
        position = cells.as_counts(batch.columns["position"]).values
        columns["position"] = pc.if_else(pc.less_equal(position, 1), position, pa.scalar(None, pa.int64()))
    judgments = rows_of(JUDGMENT_ROWS, columns, batch.n_rows).filter(good)
    return chunk_of(
        n_read=batch.n_rows + len(batch.faults),
        place_format=layout.place_format,
        judgments=judgments,
        rejections=rejection_rows(notes),
    )
