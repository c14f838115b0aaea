"""`arena`: votes between two models, one a row; the winner as a label or as three columns of 0 and 1.

Columns `model_a, model_b, winner`, or `left, right, winner`; CSV, TSV, JSON lines, Parquet. A prompt that was asked
once still gives a comparison.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from capeval_pipeline.formats import cells, votes
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import refusal, shown
from capeval_pipeline.formats.tabular import Batch, TableLayout, batches, repeated_columns, table_layout

KEYS = frozenset({"model_a", "model_b", "winner"})
SIDES = (("model_a", "model_b"), ("left", "right"))
ITEM_COLUMNS = ("item_id", "question_id", "prompt_id")
JUDGE_COLUMNS = ("judge", "judge_id", "worker", "annotator", "rater")
TEXT_COLUMNS = ("prompt", "question", "instruction")
TRUE, FALSE = frozenset({"1", "true", "1.0"}), frozenset({"0", "false", "0.0", ""})


@dataclass(frozen=True)
class _Roles:
    """Which column means what. `winners` are one column of labels, or three of 0 and 1 (a, b, tie)."""

    sides: tuple[str, str]
    winners: tuple[str, ...]
    item: str | None
    vote: str | None
    prompt: str | None
    judge: str | None
    extras: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        named = (*self.sides, *self.winners, self.item, self.vote, self.prompt, self.judge, *self.extras)
        return list(dict.fromkeys(name for name in named if name is not None))


def _roles(columns: Sequence[str]) -> _Roles | None:
    sides = next((pair for pair in SIDES if set(pair) <= set(columns)), None)
    if sides is None:
        return None
    one_hot = tuple(f"winner_{name}" for name in (*sides, "tie"))
    winners = ("winner",) if "winner" in columns else one_hot if set(one_hot) <= set(columns) else None
    if winners is None:
        return None

    def first(names: Sequence[str]) -> str | None:
        return next((name for name in names if name in columns), None)

    return _Roles(
        sides=sides,
        winners=winners,
        item=first(ITEM_COLUMNS),
        vote=first(("id",)),
        prompt=first(TEXT_COLUMNS),
        judge=first(JUDGE_COLUMNS),
        extras=tuple(name for name in ("category", "judge_cost_usd") if name in columns),
    )


def matches(path: Path) -> float:
    """0.8 for a table of votes most of whose first labels are known ones, else 0."""
    layout = None if path.is_dir() else table_layout(path)
    roles = None if layout is None else _roles(layout.columns)
    if layout is None or roles is None or (roles.item, roles.vote, roles.prompt) == (None, None, None):
        return 0.0
    if len(roles.winners) == 3 or layout.kind == "parquet":
        return 0.8
    labels = [label for label in _first_labels(path, layout) if label]
    n_known = sum(label.strip().lower() in votes.WORDS for label in labels)
    return 0.8 if not labels or 2 * n_known > len(labels) else 0.0


def _first_labels(path: Path, layout: TableLayout) -> list[str]:
    if layout.kind == "csv":
        position = layout.columns.index("winner")
        return [row[position] for row in layout.sample if len(row) > position]
    labels = []
    for line in head_of(path).text.split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("winner"), str):
            labels.append(record["winner"])
    return labels


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a table of votes. Raises FileRefused: columns_missing, duplicate_column, truncated …"""
    layout = table_layout(path)
    roles = None if layout is None else _roles(layout.columns)
    if layout is None or roles is None:
        expected = "model_a, model_b (or left, right) and winner"
        raise refusal(path, "columns_missing", "has not the columns of a vote", expected, "Rename the columns.")
    repeated = [name for name in repeated_columns(layout.columns) if name in roles.columns]
    if repeated:
        found, where = f"column {shown(repeated[0])} is there twice", f"column {repeated[0]}"
        raise refusal(path, "duplicate_column", found, "each column once", "Drop or rename one.", where=where)
    stream = batches(path, layout, roles.columns, options.limits)
    first = next(stream, None)
    is_numbered = first is not None and roles.prompt is not None and _is_whole(first.columns[roles.prompt])
    rows = votes.Votes(
        path,
        options,
        layout.place_format,
        votes.WORDS,
        is_repeatable=roles.judge is None and roles.item is None and (roles.vote is None or is_numbered),
    )
    return Reading(FileFacts(format="arena"), rows.chunks(_renamed(first, stream, roles, is_numbered=is_numbered)))


def _is_whole(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column of prompts holds numbers of prompts, not texts."""
    texts = cells.encoded(cells.as_keys(column)).dictionary.to_pylist()
    return bool(texts) and all(cells.WHOLE.fullmatch(text) for text in texts)


def _renamed(first: Batch | None, rest: Iterator[Batch], roles: _Roles, *, is_numbered: bool) -> Iterator[Batch]:
    """Batches with the column names of votes.

    An item is named by its own id, else by the number of its prompt, else by the id of the vote, else by its text:
    where prompts are numbered, `id` counts votes or pairs.
    """
    batch = first
    while batch is not None:
        columns = {"model_a": batch.columns[roles.sides[0]], "model_b": batch.columns[roles.sides[1]]}
        columns["winner"] = _winner(batch, roles)
        item = roles.item or (roles.prompt if is_numbered else roles.vote)
        if item is not None:
            columns["item_id"] = batch.columns[item]
        if roles.prompt is not None and not is_numbered:
            columns["prompt"] = batch.columns[roles.prompt]
        if roles.judge is not None:
            columns["judge"] = batch.columns[roles.judge]
        columns |= {name: batch.columns[name] for name in roles.extras}
        yield Batch(columns, batch.places, batch.faults)
        batch = next(rest, None)


def _winner(batch: Batch, roles: _Roles) -> pa.Array | pa.ChunkedArray:
    """The column of labels; of three columns of 0 and 1 the one that is 1, and what they say where that is not so."""
    if len(roles.winners) == 1:
        return batch.columns[roles.winners[0]]
    words = (*roles.sides, "tie")
    columns = [cells.as_text(batch.columns[name]).to_pylist() for name in roles.winners]
    labels = []
    for values in zip(*columns, strict=True):
        texts = [(value or "").strip().lower() for value in values]
        chosen = [word for word, text in zip(words, texts, strict=True) if text in TRUE]
        strange = [text for text in texts if text not in TRUE and text not in FALSE]
        labels.append(strange[0] if strange else " and ".join(chosen) or None)
    return pa.array(labels, pa.string())
