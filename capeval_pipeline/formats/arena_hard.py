"""`arena_hard`: model_judgment/<judge>/<model>.jsonl of Arena-Hard-Auto, each answer against a baseline, twice.

The baseline is answer A in the first game and the model in the second. Both rows are seen from the model; a strong
verdict (A>>B) is one vote, and `margin` keeps that it was strong (2; plain 1; tie 0).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, shown
from capeval_pipeline.formats.rows import LINE, OrderFlips, RowCollector, as_key, json_lines
from capeval_pipeline.formats.tabular import Fault

KEYS = frozenset({"uid", "question_id", "judge", "model", "baseline", "games"})
LABELS = {"A>>B": (1.0, 2.0), "A>B": (1.0, 1.0), "A=B": (0.5, 0.0), "B>A": (0.0, 1.0), "B>>A": (0.0, 2.0)}
"""Label → outcome for A and margin."""


def matches(path: Path) -> float:
    """1 for lines with games, a model and uid or question_id, else 0."""
    if path.is_dir() or not (text := head_of(path).text.lstrip()).startswith("{"):
        return 0.0
    first = text.partition("\n")[0]
    has_id = '"uid"' in first or '"question_id"' in first
    return 1.0 if has_id and all(f'"{key}"' in first for key in ("games", "model", "score", "judge")) else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read the judgments of one model. Raises FileRefused while they are read: truncated, archive_damaged …"""
    return Reading(FileFacts(format="arena_hard"), _chunks(path, options))


def _chunks(path: Path, options: ReadOptions) -> Iterator[Chunk]:
    rows = RowCollector(path, options, LINE)
    flips = OrderFlips()
    try:
        for place, record in json_lines(path, options.limits):
            if isinstance(record, Fault):
                rows.refuse_fault(record)
            else:
                _judgment(rows, flips, place, record)
            if rows.is_full:
                yield rows.chunk()
        flips.tell(rows)
        yield rows.chunk()
    except FileRefused as fault:
        fault.n_read = max(fault.n_read, rows.n_records)
        raise


def _judgment(rows: RowCollector, flips: OrderFlips, place: int, record: dict[str, Any]) -> None:
    item = as_key(record.get("uid")) or as_key(record.get("question_id"))
    model, baseline = rows.options.model or as_key(record.get("model")), as_key(record.get("baseline"))
    names = {"uid": item, "model": model, "baseline": baseline}
    empty = next((name for name, value in names.items() if value is None), None)
    if item is None or empty is not None:
        rows.refuse(place, "key_missing", f"{empty} is empty", "a name")
        return
    if model == baseline:
        rows.refuse(place, "self_comparison", f"{shown(model)} against itself", "two models")
        return
    games = record.get("games")
    labels = (
        [game.get("score") if isinstance(game, dict) else None for game in games] if isinstance(games, list) else []
    )
    if len(labels) != 2 or any(label is None or label == "" for label in labels):
        rows.refuse(place, "incomplete_orders", f"verdicts are {shown(labels)}", "two games", "Neither counts.")
        return
    verdicts = [LABELS[label] for label in labels if isinstance(label, str) and label in LABELS]
    if len(verdicts) != 2:
        strange = next(label for label in labels if not isinstance(label, str) or label not in LABELS)
        rows.refuse(place, "unknown_label", f"score is {shown(strange)}", f"one of {', '.join(LABELS)}")
        return
    (first, margin_first), (second, margin_second) = verdicts
    outcomes = [1.0 - first, second]
    flips.add(place, item, list(outcomes))
    category = as_key(record.get("category"))
    rows.add_item(item, category=category)
    # the model is answer B in the first game, so it stands second there
    for outcome, margin, position in zip(outcomes, (margin_first, margin_second), (1, 0), strict=True):
        rows.add_judgment(
            place,
            item=item,
            model_a=model,
            model_b=baseline,
            outcome=outcome,
            margin=margin,
            position=position,
            judge=as_key(record.get("judge")),
            draw=0,
            category=category,
        )
    rows.end_record()
