"""`mt_bench`: judgments of MT-Bench, JSON lines: pairs judged in both orders, or single grades from 1 to 10.

An item is a question and its turn (`81/1`). A pair gives two rows, one an order; if one order has no verdict, neither
counts. A grade of -1 says that the judge failed, so the answer is unscored.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.json_values import score_of_json
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, shown
from capeval_pipeline.formats.rows import LINE, OrderFlips, RowCollector, as_key, json_lines
from capeval_pipeline.formats.tabular import Fault

KEYS = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner", "turn", "judge"})
OUTCOMES = {"model_1": 1.0, "model_2": 0.0, "tie": 0.5}
RANGE = (1.0, 10.0)
FAILED = -1


def matches(path: Path) -> float:
    """1 for lines with question_id and turn, and either two winners or a model and its score; else 0."""
    if path.is_dir() or not (text := head_of(path).text.lstrip()).startswith("{"):
        return 0.0
    first = text.partition("\n")[0]
    if '"question_id"' not in first or '"turn"' not in first:
        return 0.0
    is_pair = all(f'"{key}"' in first for key in ("model_1", "model_2", "g1_winner", "g2_winner"))
    is_single = all(f'"{key}"' in first for key in ("model", "score", "judge")) and '"games"' not in first
    return 1.0 if is_pair or is_single else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a file of judgments. Raises FileRefused while it is read: truncated, archive_damaged …"""
    is_pair = '"g1_winner"' in head_of(path).text  # not only in the first line, which may be a broken one
    score_range = None if is_pair else options.score_range or RANGE
    facts = FileFacts(format="mt_bench", score_range=score_range)
    return Reading(facts, _chunks(path, options, is_pair=is_pair))


def _chunks(path: Path, options: ReadOptions, *, is_pair: bool) -> Iterator[Chunk]:
    """Chunks of a file of pairs or of grades; a line of the other kind, which has another range, is refused."""
    rows = RowCollector(path, options, LINE, RANGE)
    flips = OrderFlips()
    try:
        for place, record in json_lines(path, options.limits):
            if isinstance(record, Fault):
                rows.refuse_fault(record)
            elif ("g1_winner" in record or "model_1" in record) != is_pair:
                found, expected = ("a grade", "a pair") if is_pair else ("a pair", "a grade")
                rows.refuse(place, "bad_row", f"is {found}", f"{expected} as the others")
            elif is_pair:
                _pair(rows, flips, place, record)
            else:
                _single(rows, place, record)
            if rows.is_full:
                yield rows.chunk()
        flips.tell(rows)
        yield rows.chunk()
    except FileRefused as fault:
        fault.n_read = max(fault.n_read, rows.n_records)
        raise


def _item(record: dict[str, Any]) -> str | None:
    question = as_key(record.get("question_id"))
    return None if question is None else f"{question}/{as_key(record.get('turn')) or 1}"


def _judge(record: dict[str, Any]) -> str | None:
    """Name of the judge; in a list it is followed by the name of its prompt."""
    judge = record.get("judge")
    return as_key(judge[0] if isinstance(judge, list) and judge else judge)


def _pair(rows: RowCollector, flips: OrderFlips, place: int, record: dict[str, Any]) -> None:
    item = _item(record)
    models = [as_key(record.get(name)) for name in ("model_1", "model_2")]
    if item is None or None in models:
        rows.refuse(place, "key_missing", "question_id, model_1 or model_2 is empty", "names")
        return
    if models[0] == models[1]:
        rows.refuse(place, "self_comparison", f"{shown(models[0])} against itself", "two models")
        return
    winners = [record.get(name) for name in ("g1_winner", "g2_winner")]
    outcomes = [OUTCOMES.get(winner) if isinstance(winner, str) else None for winner in winners]
    if None in outcomes:
        without = next(winner for winner, outcome in zip(winners, outcomes, strict=True) if outcome is None)
        is_failure = without is None or without in ("", "error")
        reason = "incomplete_orders" if is_failure else "unknown_label"
        rows.refuse(
            place, reason, f"winners are {shown(winners)}", f"{', '.join(OUTCOMES)} in both orders", "Neither counts."
        )
        return
    flips.add(place, item, outcomes)
    rows.add_item(item)
    for position, outcome in enumerate(outcomes):
        rows.add_judgment(
            place, item=item, model_a=models[0], model_b=models[1], outcome=outcome, judge=_judge(record),
            position=position, draw=0,
        )  # fmt: skip
    rows.end_record()


def _single(rows: RowCollector, place: int, record: dict[str, Any]) -> None:
    item, model = _item(record), rows.options.model or as_key(record.get("model"))
    if item is None or model is None:
        rows.refuse(place, "key_missing", f"{'question_id' if item is None else 'model'} is empty", "a name")
        return
    rows.add_item(item)
    given = record.get("score")
    code, value = score_of_json(given)
    if code == cells.OK and value == FAILED:
        code = cells.UNSCORED
    rows.add_score(place, given, code, value, item=item, model=model, generation_id=0)
    rows.end_record()
