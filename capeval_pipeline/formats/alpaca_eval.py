"""`alpaca_eval`: annotations.json of AlpacaEval, a list of preferences between a baseline and a model.

Instructions have no id, so an item is known by its text. The outcome is that of generator_2, the model: a preference of
1 is the baseline's win, 2 the model's, between is a probability; 0 and 1.5 are ties. The price is the judge's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.json_values import amount, score_of_json
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, shown
from capeval_pipeline.formats.rows import LINE, MEMBER, RowCollector, as_key, json_lines, json_members
from capeval_pipeline.formats.tabular import Fault

KEYS = frozenset({"instruction", "output_1", "generator_1", "output_2", "generator_2", "annotator", "preference"})
SIGNATURE = ('"instruction"', '"generator_1"', '"generator_2"', '"preference"')


def matches(path: Path) -> float:
    """1 for JSON records with instruction, two generators and a preference, else 0."""
    if path.is_dir():
        return 0.0
    text = head_of(path).text.lstrip()
    return 1.0 if text[:1] in ("[", "{") and all(key in text for key in SIGNATURE) else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a file of annotations. Raises FileRefused while it is read: truncated, bad_json …"""
    return Reading(FileFacts(format="alpaca_eval"), _chunks(path, options))


def _chunks(path: Path, options: ReadOptions) -> Iterator[Chunk]:
    is_list = head_of(path).text.lstrip()[:1] == "["
    rows = RowCollector(path, options, MEMBER if is_list else LINE)
    records = json_members(path, options.limits) if is_list else json_lines(path, options.limits)
    try:
        for place, record in records:
            if isinstance(record, Fault):
                rows.refuse_fault(record)
            else:
                _annotation(rows, place, record)
            if rows.is_full:
                yield rows.chunk()
        yield rows.chunk()
    except FileRefused as fault:
        fault.n_read = max(fault.n_read, rows.n_records)
        raise


def _annotation(rows: RowCollector, place: int, record: dict[str, Any]) -> None:
    text = record.get("instruction")
    content = text_hash(text) if isinstance(text, str) else None
    baseline, model = as_key(record.get("generator_1")), as_key(record.get("generator_2"))
    if content is None or baseline is None or model is None:
        rows.refuse(place, "key_missing", "instruction, generator_1 or generator_2 is empty", "texts")
        return
    if baseline == model:
        rows.refuse(place, "self_comparison", f"{shown(model)} against itself", "two models")
        return
    given = record.get("preference")
    code, preference = score_of_json(given)
    if code == cells.UNSCORED:
        rows.refuse(place, "no_verdict", "preference is empty", "a number from 1 to 2, or 0")
        return
    if code == cells.OK and preference != 0 and not 1 <= preference <= 2:
        code = cells.OUT_OF_RANGE
    if code != cells.OK:
        rows.refuse(place, cells.REASON[code], f"preference is {shown(given)}", "a number from 1 to 2, or 0")
        return
    category = as_key(record.get("dataset"))
    rows.add_item(None, content, str(text), category)
    rows.add_judgment(
        place,
        content_hash=content,
        model_a=model,
        model_b=baseline,
        outcome=0.5 if preference == 0 else preference - 1,
        judge=as_key(record.get("annotator")),
        draw=0,
        category=category,
        judge_cost_usd=amount(record.get("price_per_example")),
    )
    rows.end_record()
