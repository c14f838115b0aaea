"""`wide`: items down, models across; a cell is a score. Also RouterBench (`<m>`, `<m>|total_cost`).

A record is a cell that is not missing. The table is looked at whole before anything of it is kept, because what makes
it unusable (two columns that may be one model, a row of averages) shows only then. One of more than a batch is not
held: it is read once to be looked at, once more for rows that share an item, and once for its cells.
"""

import ast
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.protocol import (
    CHUNK_RECORDS,
    GENERATION_ROWS,
    ITEM_ROWS,
    Chunk,
    FileFacts,
    Note,
    Reading,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import FileRefused, listed, message, named, one_line, refusal, shown
from capeval_pipeline.formats.tabular import Batch, TableLayout, batches, repeated_columns, table_layout
from capeval_pipeline.formats.unusable_amounts import UnusableAmounts

KEYS = frozenset({"item_id", "prompt", "question", "category", "eval_name"})
ID_NAMES = frozenset({"item_id", "id", "sample_id", "question_id", "task_id", "uid"})
PROMPT_NAMES = ("prompt", "question", "text")
CATEGORY_NAMES = ("category", "eval_name")
SUMMARY_NAMES = frozenset({"average", "avg", "mean", "total", "sum", "overall", "oracle", "oracle_model_to_route_to"})
NAMES_OF_MODELS = frozenset({"model", "model_id", "model_name", "model_a", "model_b"})
"""Columns that say which model a row is of: their table is no wide one, and its scores are not of a model `correct`."""
NAMES_OF_SCORES = frozenset(
    {"score", "correct", "is_correct", "acc", "accuracy", "passed", "solved", "resolved", "reward"}
)
"""Columns of scores of a model that is named elsewhere or nowhere."""
SUMMARY_ROWS = frozenset({"average", "avg", "mean", "total", "sum", "overall"})
COST, RESPONSE = "|total_cost", "|model_response"
MAX_UNWRAPPED = 1_000_000
MAX_COMPARED = 8_000_000
"""Cells of items with more than one row that are compared at once."""
MAX_NAMED = 20
"""Contradicting items that are kept to be named in the message."""
_PERCENT = re.compile(r"([+-]?(?:\d+[.,]?\d*|[.,]\d+))\s*%", re.ASCII)
_INDEX = re.compile(r"__index_level_\d+__|unnamed: \d+(_level_\d+)?", re.IGNORECASE)
"""What the index of a data frame is called once it was written and read."""
_ERROR_CELL = re.compile(r"#.*[!?]")


def score_of_cell(text: str, *, has_decimal_comma: bool) -> tuple[int, float]:
    """Verdict code and value of a cell; missing cells are UNSCORED. Percent is a hundredth; yes and no are 1 and 0."""
    word = text.strip()
    if _ERROR_CELL.fullmatch(word):
        return cells.UNSCORED, math.nan
    if word.lower() in ("yes", "no"):
        return cells.OK, float(word.lower() == "yes")
    percent = _PERCENT.fullmatch(word)
    number = percent[1] if percent else word
    if has_decimal_comma and number.count(",") == 1 and "." not in number:
        number = number.replace(",", ".")
    code, value = cells.score_of_text(number)
    return code, value / 100 if percent and code == cells.OK else value


@dataclass(frozen=True)
class _Roles:
    """Which column is what; `skipped` are summaries, `companioned` the models of RouterBench that have columns of costs
    or answers."""

    item: str | None
    prompt: str | None
    category: str | None
    candidates: tuple[str, ...]
    costs: dict[str, str]
    skipped: tuple[str, ...]
    companioned: frozenset[str]


def _folded(name: str) -> str:
    return re.sub(r"[\s_]+", "_", name.strip().lower())


def _roles(layout: TableLayout) -> _Roles:
    names = [name for name in layout.columns if name.strip()]
    item = next((name for name in names if _folded(name) in ID_NAMES), None)
    prompt = next((name for wanted in PROMPT_NAMES for name in names if _folded(name) == wanted), None)
    category = next((name for wanted in CATEGORY_NAMES for name in names if _folded(name) == wanted), None)
    models = frozenset(
        name.removesuffix(suffix) for suffix in (COST, RESPONSE) for name in names if name.endswith(suffix)
    )
    rest = [name for name in names if name not in (item, prompt, category) and not _INDEX.fullmatch(name.strip())]
    skipped = tuple(name for name in rest if _folded(name) in SUMMARY_NAMES and name not in models)
    if models:
        candidates = tuple(name for name in rest if name not in skipped and not name.endswith((COST, RESPONSE)))
        costs = {name: name + COST for name in candidates if name + COST in names}
        return _Roles(item, prompt, category, candidates, costs, (), models)
    return _Roles(item, prompt, category, tuple(name for name in rest if name not in skipped), {}, skipped, models)


def matches(path: Path) -> float:
    """0.8 for RouterBench columns, 0.4 for items and a column of scores, 0.3 if no column names an item.

    0 if columns are called as those of long tables are.
    """
    layout = None if path.is_dir() else table_layout(path)
    if layout is None or layout.kind == "jsonl" or not layout.columns:
        return 0.0
    roles = _roles(layout)
    if roles.companioned:
        return 0.8
    if (NAMES_OF_MODELS | NAMES_OF_SCORES) & {_folded(name) for name in layout.columns}:
        return 0.0
    if layout.kind == "csv" and not _has_scores(layout, roles):
        return 0.0
    return 0.4 if roles.item is not None or roles.prompt is not None else 0.3


def _has_scores(layout: TableLayout, roles: _Roles) -> bool:
    """Whether a sampled column of the table holds numbers; without an item column all must, or it is no such table."""
    found = [_holds_scores(layout, name) for name in roles.candidates]
    return any(found) if roles.item is not None or roles.prompt is not None else bool(found) and all(found)


def _holds_scores(layout: TableLayout, name: str) -> bool:
    """Whether at least half of what a column's sample says is scores; False where nothing was sampled."""
    position = layout.columns.index(name)
    column = [row[position] for row in layout.sample if len(row) > position]
    codes = [score_of_cell(text, has_decimal_comma=layout.separator != ",")[0] for text in column]
    said = [code for code in codes if code != cells.UNSCORED]
    return bool(said) and sum(code == cells.OK for code in said) * 2 >= len(said)


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a wide table. Raises FileRefused: columns_missing, duplicate_column, look_alike_columns, duplicate_item,
    summary_row."""
    layout = table_layout(path)
    if layout is None:
        raise refusal(path, "unknown_format", "is no table", "CSV, TSV or Parquet")
    if not layout.columns:
        raise refusal(path, "truncated", "is no whole Parquet file", "a whole file", "Copy or export it again.")
    faults = _column_faults(path, layout)
    if repeated_columns(layout.columns):  # rows of such a table cannot be looked at
        _raise_all(faults)
    roles = _roles(layout)
    if roles.item is None and roles.prompt is None:
        raise refusal(
            path,
            "columns_missing",
            f"no column names an item among {listed(layout.columns, 100)}",
            "a column item_id (or a prompt); the order of rows is no identity",
            "Add a column item_id.",
        )
    used = (roles.item, roles.prompt, roles.category, *roles.candidates, *roles.costs.values())
    table = _Wide(path, layout, roles, options, [name for name in used if name])
    _raise_all([*faults, *table.faults()])
    return Reading(FileFacts(format="wide"), table.chunks())


def _column_faults(path: Path, layout: TableLayout) -> list[FileRefused]:
    """Columns that may be one model: there twice, or differing in case or signs only."""
    faults = []
    repeated = repeated_columns(layout.columns)
    if repeated:
        faults.append(
            refusal(
                path,
                "duplicate_column",
                f"columns there twice: {listed(repeated, 120)}",
                "each column once",
                where=f"column {named(repeated[0])}",
            )
        )
    alike = defaultdict(list)
    for name in dict.fromkeys(layout.columns):
        if name.strip():
            alike[re.sub(r"[/_\-\s]+", "", name.lower())].append(name)
    groups = [" = ".join(group) for group in alike.values() if len(group) > 1]
    if groups:
        faults.append(
            refusal(
                path,
                "look_alike_columns",
                f"columns that differ only in case or signs: {listed(groups, 120, '; ')}",
                "names that differ",
                "Rename or drop one.",
                where=f"column {named(groups[0].split(' = ')[0])}",
            )
        )
    return faults


def _raise_all(faults: Sequence[FileRefused]) -> None:
    """Refuse a table for the first of its faults and name the others with it."""
    if faults:
        faults[0].also = tuple(faults[1:])
        raise faults[0]


class _Rows:
    """A batch of a wide table: what its rows are called, and its columns."""

    def __init__(self, batch: Batch, roles: _Roles) -> None:
        self.batch, self.roles = batch, roles
        self.n_rows = batch.n_rows
        self.places = batch.places.to_numpy()

    def column(self, name: str) -> pa.Array:
        return cells.plain(self.batch.columns[name])

    def keys(self, name: str | None) -> list[str | None]:
        return [None] * self.n_rows if name is None else cells.as_text(self.column(name)).to_pylist()

    @cached_property
    def items(self) -> list[str | None]:
        return self.keys(self.roles.item)

    @cached_property
    def prompts(self) -> list[str | None]:
        if self.roles.prompt is None:
            return [None] * self.n_rows
        return cells.mapped(cells.as_text(self.column(self.roles.prompt)), unwrapped, pa.string()).to_pylist()

    @cached_property
    def hashes(self) -> list[str | None]:
        return [None if text is None else text_hash(text) for text in self.prompts]

    def named_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the rows that name an item, and a hash of what they call it: of item and content."""
        is_named = [
            item is not None or content is not None for item, content in zip(self.items, self.hashes, strict=True)
        ]
        called = map(hash, zip(self.items, self.hashes, strict=True))
        return np.flatnonzero(is_named), np.fromiter(called, np.int64, self.n_rows)[is_named]

    def costs(self, models: Sequence[str], unusable: UnusableAmounts) -> np.ndarray | None:
        """Costs by model and row, NaN where unknown; None for a table without costs."""
        if not self.roles.costs:
            return None
        costs = np.full((len(models), self.n_rows), np.nan)
        for number, name in enumerate(models):
            if name in self.roles.costs:
                column = self.column(self.roles.costs[name])
                paid = unusable.without(self.roles.costs[name], self.batch, column, cells.as_numbers(column))
                costs[number] = paid.to_numpy(zero_copy_only=False)
        return costs


class _Wide:
    """A wide table, batch by batch; only one that is a single batch is held."""

    def __init__(
        self, path: Path, layout: TableLayout, roles: _Roles, options: ReadOptions, wanted: Sequence[str]
    ) -> None:
        self.path, self.layout, self.roles, self.options, self.wanted = path, layout, roles, options, wanted
        low, high = options.score_range or (0.0, 1.0)
        self.score_range = (low, high)
        self.models: list[str] = []
        self.unused: list[str] = []
        self.summaries: list[tuple[int, str]] = []
        stream = batches(path, layout, wanted, options.limits)
        start = list(islice(stream, 2))
        is_one = len(start) < 2 or start[1].n_rows + len(start[1].faults) == 0
        self._held = start[:1] if is_one else None
        self.repeated = self._look_at(start[:1] if is_one else chain(start, stream))

    def _batches(self) -> Iterator[Batch]:
        yield from (
            self._held if self._held is not None else batches(self.path, self.layout, self.wanted, self.options.limits)
        )

    def _look_at(self, whole: Iterable[Batch]) -> np.ndarray:
        """Find the columns that are models and rows of averages. Gives back the hashes of what more than one row is
        called, sorted.

        A model is a column of which at least half of the cells that say something are numbers. Among columns with
        costs or answers beside them, one without them has to hold scores of the declared range: it may be a model whose
        costs nobody wrote down, and it may be a count of tokens.
        """
        n_said, n_good = dict.fromkeys(self.roles.candidates, 0), dict.fromkeys(self.roles.candidates, 0)
        called = [np.zeros(0, np.int64)]
        for batch in whole:
            rows = _Rows(batch, self.roles)
            for name in self.roles.candidates:
                codes = self._scores(rows, name).codes
                n_said[name] += int((codes != cells.UNSCORED).sum())
                n_good[name] += int((codes == cells.OK).sum())
                if not self.roles.companioned or name in self.roles.companioned:
                    n_good[name] += int((codes == cells.OUT_OF_RANGE).sum())
            self.summaries += [
                (place, item) for place, item in zip(rows.places.tolist(), rows.items, strict=True)
                if item is not None and item.strip().lower() in SUMMARY_ROWS
            ]  # fmt: skip
            called.append(rows.named_rows()[1])
        self.models = [name for name, number in n_good.items() if number and number * 2 >= n_said[name]]
        self.unused = [name for name in self.roles.candidates if n_said[name] and name not in self.models]
        hashes = np.concatenate(called)
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def _scores(self, rows: _Rows, name: str) -> cells.Scores:
        has_comma = self.layout.separator != "," and self.layout.kind == "csv"

        def rule(text: str) -> tuple[int, float]:
            return score_of_cell(text, has_decimal_comma=has_comma)

        return cells.as_scores(rows.column(name), self.score_range, rule)

    def chunks(self) -> Iterator[Chunk]:
        """Records batch by batch: broken rows, then span of rows by span, in each the models one after the other."""
        notes = self._file_notes()
        unusable = UnusableAmounts(self.path, self.layout.place_format)
        start = 0
        rows_per_chunk = max(1, CHUNK_RECORDS // max(1, len(self.models)))
        for batch in self._batches():
            rows = _Rows(batch, self.roles)
            n_read = len(batch.faults)
            for number, fault in enumerate(batch.faults, start):
                where = self.layout.place_format.format(fault.place)
                notes.append((number, "rejected", where, fault.reason, fault.message))
            start += n_read
            scores = [self._scores(rows, name) for name in self.models]
            codes = np.stack([each.codes for each in scores] or [np.zeros(rows.n_rows, np.int8)])
            values = np.stack([each.values for each in scores] or [np.zeros(rows.n_rows)])
            costs = rows.costs(self.models, unusable)
            categories = rows.keys(self.roles.category)
            for first in range(0, max(rows.n_rows, 1), rows_per_chunk):
                span = slice(first, min(first + rows_per_chunk, rows.n_rows))
                generations, refused = self._cells(rows, span, start, codes[:, span], values[:, span], costs)
                n_cells = int((codes[:, span] != cells.UNSCORED).sum()) if self.models else 0
                start += n_cells
                items = {
                    "item": rows.items[span],
                    "content_hash": rows.hashes[span],
                    "prompt": rows.prompts[span] if self.options.keep_text else [None] * len(rows.items[span]),
                    "category": categories[span],
                }
                yield chunk_of(
                    n_read=n_read + n_cells,
                    place_format=self.layout.place_format,
                    items=rows_of(ITEM_ROWS, items),
                    generations=generations,
                    rejections=rejection_rows([*notes, *refused]),
                )
                notes, n_read = [], 0
        if told := unusable.notes():
            yield chunk_of(n_read=0, rejections=rejection_rows(told))

    def _file_notes(self) -> list[Note]:
        notes: list[Note] = []
        for reason, columns, found, expected in (
            ("summary_column", self.roles.skipped, "columns that sum up", "one column a model"),
            ("extra_columns", self.unused, "columns not used", "columns of scores, one a model"),
        ):
            if columns:
                where = f"column {named(columns[0])}" if reason == "summary_column" else "file"
                told = f"{found}: {listed(columns, 120)}"
                text = message(self.path.name, where, told, expected, "They are left out.")
                notes.append((None, "warning", where, reason, text))
        return notes

    def faults(self) -> list[FileRefused]:
        """Rows for which the table is refused: sums and averages, and one item in two different rows."""
        faults = []
        if self.summaries:
            place, item = self.summaries[0]
            more = f", and {len(self.summaries) - 1} more" if len(self.summaries) > 1 else ""
            faults.append(
                refusal(
                    self.path,
                    "summary_row",
                    f"a row is called {shown(item)}{more}",
                    "items only",
                    "Delete the row.",
                    where=self.layout.place_format.format(place),
                )
            )
        contradicting: dict[str, int] = {}
        step = max(1, MAX_COMPARED // max(1, len(self.models)))
        for first in range(0, len(self.repeated) if self.models else 0, step):
            self._contradictions(self.repeated[first : first + step], contradicting)
        if contradicting:
            names = sorted(contradicting, key=contradicting.__getitem__)
            told = one_line(", ".join(names), 120)
            faults.append(
                refusal(
                    self.path,
                    "duplicate_item",
                    f"items with two different rows: {told}",
                    "one row an item",
                    "Keep one of them.",
                    where=f"key {names[0]}"[:60],
                )
            )
        return faults

    def _contradictions(self, repeated: np.ndarray, found: dict[str, int]) -> None:
        """Add to `found` the names of items, of those whose hashes are given, with scores that differ, and their rows.

        Some names are enough: the first MAX_NAMED.
        """
        known = np.full((len(repeated), len(self.models)), np.nan)
        for batch in self._batches():
            rows = _Rows(batch, self.roles)
            indices, hashes = rows.named_rows()
            at = np.minimum(np.searchsorted(repeated, hashes), len(repeated) - 1)
            is_one = repeated[at] == hashes
            indices, at = indices[is_one], at[is_one]
            if not len(indices):
                continue
            values = np.stack([self._scores(rows, name).values[indices] for name in self.models], axis=1)
            for index, position, given in zip(indices.tolist(), at.tolist(), values, strict=True):
                before = known[position]
                if ((before != given) & ~np.isnan(before) & ~np.isnan(given)).any() and len(found) < MAX_NAMED:
                    found.setdefault(self._called(rows, index), int(rows.places[index]))
                known[position] = np.where(np.isnan(before), given, before)

    def _called(self, rows: _Rows, index: int) -> str:
        """What an item is called in messages: its id, else its text, or the hash of it where no text may be told."""
        item, prompt = rows.items[index], rows.prompts[index]
        return item or (prompt if self.options.keep_text else f"h{(rows.hashes[index] or '')[:12]}") or ""

    def _cells(
        self, rows: _Rows, span: slice, start: int, codes: np.ndarray, values: np.ndarray, costs: np.ndarray | None
    ) -> tuple[pa.Table | None, list[Note]]:
        """Rows of all cells of a span that say something, records counted from `start`, and the refused ones.

        codes, values : (n_models, n_rows of the span).
        """
        if not self.models:
            return None, []
        model, row = np.nonzero(codes != cells.UNSCORED)
        n_said, taken = len(row), pa.array(row)
        items = pa.array(rows.items[span], pa.string()).take(taken)
        hashes = pa.array(rows.hashes[span], pa.string()).take(taken)
        has_key = pc.or_(items.is_valid(), hashes.is_valid())
        is_ok = codes[model, row] == cells.OK
        columns = {
            "record": np.arange(start, start + n_said),
            "place": rows.places[span][row],
            "item": items,
            "content_hash": hashes,
            "model": pa.DictionaryArray.from_arrays(pa.array(model, pa.int32()), pa.array(self.models, pa.string())),
            "generation_id": np.zeros(n_said, np.int64),
            "status": pa.array(["invalid", "ok"]).take(pa.array(is_ok.astype(np.int8))),
            "score": pa.array(values[model, row], mask=~is_ok),
        }
        if costs is not None:
            paid = costs[:, span][model, row]
            columns["cost_reported_usd"] = pa.array(paid, mask=np.isnan(paid))
        bad = np.flatnonzero(~is_ok | ~has_key.to_numpy(zero_copy_only=False))
        notes = self._refused_cells(rows, span, start, bad, model, row, codes, has_key)
        return rows_of(GENERATION_ROWS, columns, n_said).filter(has_key), notes

    def _refused_cells(
        self,
        rows: _Rows,
        span: slice,
        start: int,
        bad: np.ndarray,
        model: np.ndarray,
        row: np.ndarray,
        codes: np.ndarray,
        has_key: pa.Array,
    ) -> list[Note]:
        """A rejection for each of the cells numbered `bad`, which lie at (model, row) of the span."""
        notes: list[Note] = []
        names, places = self.models, rows.places[span]
        low, high = self.score_range
        given: tuple[str, pa.Array] | None = None
        for number in bad.tolist():
            name, index = names[model[number]], int(row[number])
            where = f"{self.layout.place_format.format(places[index])}, column {name}"
            if not has_key[number].as_py():
                reason, found, expected, advice = "key_missing", "the row names no item", "a name", ""
            else:
                if given is None or given[0] != name:  # cells come model by model
                    given = (name, rows.column(name))
                value = given[1][span.start + index].as_py()
                reason, found = cells.REASON[int(codes[model[number], index])], f"score is {shown(value)}"
                expected = f"a number from {low:g} to {high:g}"
                advice = "Declare score_range in benchmark.yml." if reason == "score_out_of_range" else ""
            text = message(self.path.name, where, found, expected, advice)
            notes.append((start + number, "rejected", where, reason, text))
        return notes


def unwrapped(text: str) -> str:
    """The texts inside a prompt that is a printed list, joined by line ends; any other prompt as it is."""
    if not (text.startswith("[") and text.endswith("]")) or len(text) > MAX_UNWRAPPED:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    is_texts = isinstance(value, list) and value and all(isinstance(part, str) for part in value)
    return "\n".join(value) if is_texts else text
