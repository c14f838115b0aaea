"""`long`: one record a row, with item_id, model and score; CSV, TSV, JSON lines, Parquet, each also compressed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.protocol import (
    GENERATION_ROWS,
    ITEM_ROWS,
    METRIC_ROWS,
    Chunk,
    FileFacts,
    Note,
    Reading,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import FileRefused, listed, message, one_line, refusal, shown
from capeval_pipeline.formats.tabular import (
    Batch,
    TableLayout,
    batches,
    repeated_columns,
    table_layout,
    with_folder_columns,
)
from capeval_pipeline.formats.unusable_amounts import UnusableAmounts

KEYS = frozenset({"item_id", "model", "score"})
"""What a table of this format is known by; detection names the nearest formats by it."""

OPTIONAL = (
    "benchmark", "benchmark_version", "item_text", "prompt", "category", "generation", "status", "input_tokens",
    "cached_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "latency_s", "metric", "judge_cost_usd", "run_id",
    "created_at",
)  # fmt: skip
STATUSES = ("ok", "error", "unscored")
_OK, _ERROR, _UNSCORED, _INVALID = 0, 1, 2, 3
_STATUS_CODE = {"ok": _OK, "error": _ERROR, "unscored": _UNSCORED}
_NO_FAULT, _UNKNOWN = -1, 99
STATUS_WORDS = pa.array(["ok", "error", "unscored", "invalid"])


def matches(path: Path) -> float:
    """0.5 for a table with item_id and score (a missing model is then a fault of that table), else 0."""
    layout = None if path.is_dir() else table_layout(path)
    layout = None if layout is None else _with_folders(path, layout)
    return 0.5 if layout is not None and {"item_id", "score"} <= set(_folded(layout)) else 0.0


def _with_folders(path: Path, layout: TableLayout) -> TableLayout:
    """The layout with the columns that folders such as `model=007` are."""
    return with_folder_columns(path, layout, {*KEYS, *OPTIONAL})


def _folded(layout: TableLayout) -> dict[str, str]:
    """Column by its name in lower case without outer blanks."""
    return {name.strip().lower(): name for name in layout.columns}


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a long table. Raises FileRefused: columns_missing, duplicate_column, truncated, too_many_bad_rows …"""
    layout = table_layout(path)
    if layout is None:
        raise refusal(path, "unknown_format", "is no table", "CSV, TSV, JSON lines or Parquet")
    if not layout.columns:
        raise refusal(path, "truncated", "is no whole Parquet file", "a whole file", "Copy or export it again.")
    return read_columns(path, _with_folders(path, layout), options, format_name="long")


def read_columns(path: Path, layout: TableLayout, options: ReadOptions, *, format_name: str) -> Reading:
    """Reading of a table whose columns have the names of this format (also the results of a canonical folder)."""
    repeated = repeated_columns(name.strip().lower() for name in layout.columns)
    known = [name for name in repeated if name in KEYS or name in OPTIONAL]
    if known:
        raise refusal(
            path,
            "duplicate_column",
            f"column {shown(known[0])} is there twice",
            "each column once",
            "Drop or rename one; which is meant is not guessed.",
            where=f"column {known[0]}",
        )
    names = _folded(layout)
    needed = [name for name in ("item_id", "model", "score") if not (name == "model" and options.model)]
    missing = [name for name in needed if name not in names]
    if missing:
        raise refusal(
            path,
            "columns_missing",
            f"no column {', '.join(missing)} among {listed(layout.columns, 120)}",
            "item_id, model, score",
            "Rename the columns" + ("; or give --model." if "model" in missing else "."),
        )
    present = {name: names[name] for name in (*sorted(KEYS), *OPTIONAL) if name in names}
    if layout.kind == "jsonl":
        # a key may first stand far down: `status` where the first call fails, `generation` where a second try begins
        present |= {name: name for name in OPTIONAL if name not in names}
    stream = batches(path, layout, tuple(present.values()), options.limits)
    return read_batches(path, layout, options, present, stream, format_name=format_name)


def read_batches(
    path: Path,
    layout: TableLayout,
    options: ReadOptions,
    present: dict[str, str],
    stream: Iterator[Batch],
    *,
    format_name: str,
) -> Reading:
    """Reading of batches, however they were made; `present` gives the column of each field of this format."""
    metric = options.metric
    first = next(stream, None)
    if metric is None and "metric" in present:
        metric = _first_metric(first)
    created = None
    if "created_at" in present and first is not None:
        created = cells.latest_time(first.columns[present["created_at"]])
    facts = FileFacts(format=format_name, main_metric=metric, created=created)
    reader = _LongRows(path, layout, options, present, metric)
    return Reading(facts, reader.chunks(first, stream))


def _first_metric(batch: Batch | None) -> str | None:
    if batch is None:
        return None
    column = next((column for name, column in batch.columns.items() if name.strip().lower() == "metric"), None)
    names = [] if column is None else cells.as_text(column).drop_null()
    return names[0].as_py() if len(names) else None


class _LongRows:
    """Turns batches of one file into chunks; holds what chunks of a file share."""

    def __init__(
        self, path: Path, layout: TableLayout, options: ReadOptions, present: dict[str, str], metric: str | None
    ) -> None:
        self.path, self.layout, self.options, self.present, self.metric = path, layout, options, present, metric
        self.score_range = options.score_range or (0.0, 1.0)
        self.hashes: dict[str, str | None] = {}
        self.seen_metrics: set[str] = set()
        self.unusable = UnusableAmounts(path, layout.place_format)
        self.n_records = 0

    def chunks(self, first: Batch | None, stream: Iterator[Batch]) -> Iterator[Chunk]:
        batch = first
        while batch is not None:
            try:
                yield self.chunk(batch)
                batch = next(stream, None)
                if batch is None:
                    self._refuse_unknown_metric()
                    if told := [*self._defaulted_metric(), *self.unusable.notes()]:
                        yield chunk_of(n_read=0, rejections=rejection_rows(told))
            except FileRefused as fault:
                fault.n_read = max(fault.n_read, self.n_records)
                raise

    def _defaulted_metric(self) -> list[Note]:
        """A warning where rows have several metrics and nobody chose: which one comes first is the file's accident."""
        if self.options.metric is not None or len(self.seen_metrics) < 2:
            return []
        names = one_line(", ".join(sorted(self.seen_metrics)), 120)
        found, advice = f"scores are {shown(self.metric)} of {names}", "Declare metric in benchmark.yml."
        text = message(self.path.name, "file", found, "a chosen metric", advice)
        return [(None, "warning", "file", "metric_defaulted", text)]

    def _refuse_unknown_metric(self) -> None:
        """A metric that was asked for and that no row has would leave every cell without a score."""
        if self.options.metric is not None and self.seen_metrics and self.metric not in self.seen_metrics:
            names = one_line(", ".join(sorted(self.seen_metrics)), 120)
            raise refusal(self.path, "metric_unknown", f"no row has metric {shown(self.metric)}", f"one of {names}")

    def column(self, batch: Batch, name: str) -> pa.Array | pa.ChunkedArray | None:
        """A column of the batch; None where no record of it has the key."""
        column = batch.columns[self.present[name]] if name in self.present else None
        is_absent = column is not None and self.layout.kind == "jsonl" and column.null_count == len(column)
        return None if is_absent and name in OPTIONAL else column

    def chunk(self, batch: Batch) -> Chunk:
        """Records of a batch: broken rows first, then the others in their order."""
        n_faults, n_rows = len(batch.faults), batch.n_rows
        start = self.n_records
        self.n_records += n_faults + n_rows
        rejected: list[tuple[int, str, str, str]] = [
            (start + number, self._where(fault.place), fault.reason, fault.message)
            for number, fault in enumerate(batch.faults)
        ]
        records = np.arange(start + n_faults, start + n_faults + n_rows)
        keys = self._keys(batch)
        status, score, reasons = self._verdicts(batch)
        generation, bad_generation = self._generations(batch)
        # a mapping may name items by their text alone
        named = keys["item"] if "item_id" in self.present else keys["content_hash"]
        has_key = pc.and_(named.is_valid(), keys["model"].is_valid()).to_numpy(zero_copy_only=False)
        placed = has_key & ~bad_generation
        for index in np.flatnonzero(~placed | (reasons != _NO_FAULT)):
            rejected.append(self._rejection(batch, int(index), int(records[index]), has_key, bad_generation, reasons))

        is_main = np.ones(n_rows, bool)
        named = self.column(batch, "metric")
        metric = None if named is None else cells.as_text(named)
        if metric is not None:
            metric = metric.fill_null(self.metric or "score")
            self.seen_metrics |= set(pc.unique(metric).to_pylist())
            is_main = pc.equal(metric, self.metric or "score").to_numpy(zero_copy_only=False)
        common = {
            "record": pa.array(records), "place": batch.places, "generation_id": pa.array(generation), **keys,
        }  # fmt: skip
        everything = {
            **common,
            "status": STATUS_WORDS.take(pa.array(status)),
            "score": pa.array(score, mask=status != _OK),
            "metric": metric if metric is not None else None,
            **self._amounts(batch),
        }
        generations = rows_of(GENERATION_ROWS, everything, n_rows).filter(pa.array(placed & is_main))
        values = None
        if metric is not None:
            columns = {**common, "metric": metric, "value": everything["score"], "is_main": pa.array(is_main)}
            values = rows_of(METRIC_ROWS, columns, n_rows).filter(pa.array(placed))
        notes: list[Note] = [(record, "rejected", where, reason, text) for record, where, reason, text in rejected]
        extra = [name for name in self.layout.columns if name.strip() and name not in self.present.values()]
        if start == 0 and extra:
            found = f"columns not used: {listed(extra, 150)}"
            text = message(self.path.name, "file", found, "the columns of the format", "They are ignored.")
            notes.append((None, "warning", "file", "extra_columns", text))
        return chunk_of(
            n_read=n_faults + n_rows,
            place_format=self.layout.place_format,
            items=self._items(batch, keys, placed),
            generations=generations,
            metric_values=values,
            rejections=rejection_rows(notes),
        )

    def _where(self, place: int) -> str:
        return self.layout.place_format.format(place)

    def _keys(self, batch: Batch) -> dict[str, pa.Array]:
        """Columns that say whose record it is."""
        item = self.column(batch, "item_id")
        model = self.column(batch, "model")
        keys: dict[str, pa.Array] = {
            "item": pa.nulls(batch.n_rows, pa.string()) if item is None else cells.as_keys(item)
        }
        if model is None or self.options.model:
            keys["model"] = pa.array([self.options.model] * batch.n_rows, pa.string())
        else:
            keys["model"] = cells.as_keys(model, is_model=True)
        prompt = self._prompt(batch)
        if prompt is not None:
            keys["content_hash"] = cells.mapped(prompt, self._hash, pa.string())
        for name in ("benchmark", "benchmark_version"):
            column = self.column(batch, name)
            if column is not None:
                keys[name] = cells.as_text(column)
        return keys

    def _prompt(self, batch: Batch) -> pa.Array | pa.ChunkedArray | None:
        text = self.column(batch, "item_text")
        return self.column(batch, "prompt") if text is None else text

    def _hash(self, text: str) -> str | None:
        if text not in self.hashes:
            if len(self.hashes) > 100_000:
                self.hashes.clear()
            self.hashes[text] = text_hash(text)
        return self.hashes[text]

    def _verdicts(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Status codes, scores, and the cells.REASON code of a refused verdict (or _NO_FAULT, _UNKNOWN)."""
        column = self.column(batch, "score")
        assert column is not None
        scores = cells.as_scores(column, self.score_range)
        if self.column(batch, "metric") is not None:
            scores = self._open_range_of_other_metrics(batch, scores)
        status = np.full(batch.n_rows, _OK, np.int8)
        status[scores.codes == cells.UNSCORED] = _UNSCORED
        status[scores.codes > cells.UNSCORED] = _INVALID
        reasons = np.where(scores.codes > cells.UNSCORED, scores.codes, _NO_FAULT)
        declared = self.column(batch, "status")
        if declared is not None:
            words = cells.encoded(cells.as_keys(declared))
            table = [_STATUS_CODE.get(text.strip().lower(), _UNKNOWN) for text in words.dictionary.to_pylist()]
            index = words.indices.fill_null(len(table)).to_numpy(zero_copy_only=False)
            said = np.array([*table, _OK], np.int8)[index]
            for code in (_ERROR, _UNSCORED):
                status[said == code], reasons[said == code] = code, _NO_FAULT
            status[said == _UNKNOWN], reasons[said == _UNKNOWN] = _INVALID, _UNKNOWN
        return status, scores.values, reasons

    def _open_range_of_other_metrics(self, batch: Batch, scores: cells.Scores) -> cells.Scores:
        """The declared range is that of the main metric; others may have any finite value."""
        column = self.column(batch, "metric")
        score = self.column(batch, "score")
        assert column is not None and score is not None
        is_main = pc.equal(cells.as_text(column).fill_null(self.metric or "score"), self.metric or "score")
        free = cells.as_scores(score, (-np.inf, np.inf))
        main = is_main.to_numpy(zero_copy_only=False)
        return cells.Scores(np.where(main, scores.codes, free.codes), np.where(main, scores.values, free.values))

    def _generations(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        column = self.column(batch, "generation")
        if column is None:
            return np.zeros(batch.n_rows, np.int64), np.zeros(batch.n_rows, bool)
        return cells.as_generations(column)

    def _rejection(
        self, batch: Batch, index: int, record: int, has_key: np.ndarray, bad: np.ndarray, reasons: np.ndarray
    ) -> tuple[int, str, str, str]:
        """Rejection of one row: no key, else no generation number, else no usable verdict."""
        where = self._where(batch.places[index].as_py())

        def cell(name: str) -> object:
            column = self.column(batch, name)
            return None if column is None else column[index].as_py()

        if not has_key[index]:
            name = next(key for key in ("item_id", "item_text", "prompt") if key in self.present)
            empty = name if cell(name) in (None, "") else "model"
            reason, found, expected, advice = "key_missing", f"{empty} is empty", "a name", ""
        elif bad[index]:
            found, expected, advice = f"generation is {shown(cell('generation'))}", "a whole number from 0", ""
            reason = "generation_bad"
        elif reasons[index] == _UNKNOWN:
            reason, found = "status_unknown", f"status is {shown(cell('status'))}"
            expected, advice = ", ".join(STATUSES), ""
        else:
            low, high = self.score_range
            reason, found = cells.REASON[int(reasons[index])], f"score is {shown(cell('score'))}"
            expected = f"a number from {low:g} to {high:g}"
            advice = "Declare score_range in benchmark.yml." if reason == "score_out_of_range" else ""
        return record, where, reason, message(self.path.name, where, found, expected, advice)

    def _amounts(self, batch: Batch) -> dict[str, pa.Array]:
        """Costs, times and tokens; what is no number is unknown."""
        found: dict[str, pa.Array] = {}
        amounts = {"cost_reported_usd": "cost_usd", "judge_cost_usd": "judge_cost_usd", "latency_s": "latency_s"}
        for target, name in amounts.items():
            column = self.column(batch, name)
            if column is not None:
                found[target] = self.unusable.without(self.present[name], batch, column, cells.as_numbers(column))
        for target, name in (
            ("input_tokens", "input_tokens"), ("output_tokens", "output_tokens"),
            ("cache_read_tokens", "cached_tokens"), ("reasoning_tokens", "reasoning_tokens"),
        ):  # fmt: skip
            column = self.column(batch, name)
            if column is not None:
                found[target] = self.unusable.without(self.present[name], batch, column, cells.as_counts(column))
        created = self.column(batch, "created_at")
        if created is not None:
            times = cells.as_times(created)
            found["answered_at"] = self.unusable.without(self.present["created_at"], batch, created, times)
        return found

    def _items(self, batch: Batch, keys: dict[str, pa.Array], placed: np.ndarray) -> pa.Table:
        """Texts and categories of the items, one row for each different set of values in the batch."""
        prompt, category = self._prompt(batch), self.column(batch, "category")
        if prompt is None and category is None:
            return ITEM_ROWS.empty_table()
        columns = {name: cells.plain(column) for name, column in keys.items() if name != "model"}
        columns["prompt"] = pa.nulls(batch.n_rows, pa.string())
        if prompt is not None and self.options.keep_text:
            columns["prompt"] = cells.as_text(prompt)
        if category is not None:
            columns["category"] = cells.as_text(category)
        table = pa.table(columns).filter(pa.array(placed))
        unique = table.group_by(table.column_names, use_threads=False).aggregate([])
        return rows_of(ITEM_ROWS, {name: unique.column(name) for name in unique.column_names}, unique.num_rows)
