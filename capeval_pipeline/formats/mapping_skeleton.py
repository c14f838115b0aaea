"""The beginning of a mapping file for a file that no reader knows, shown to people, who finish it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capeval_pipeline.formats.mapped_records import paths_in
from capeval_pipeline.formats.opening import Head, head_of
from capeval_pipeline.formats.refusals import named, one_line
from capeval_pipeline.formats.tabular import table_layout

WORDS = {
    "item_id": ("item_id", "question_id", "instance_id", "session_id", "task_id", "prompt_id", "global_index", "uid",
                "id", "idx", "index"),
    "prompt": ("prompt", "question", "query", "instruction", "problem", "input"),
    "model": ("model", "model_id", "model_name", "generator", "engine", "system", "llm", "llm_selected"),
    "score": ("score", "correct", "is_correct", "llm_correct", "solved", "resolved", "passed", "grade", "reward",
              "total_score"),
    "model_a": ("model_a", "model_1", "left"),
    "model_b": ("model_b", "model_2", "right"),
    "winner": ("winner", "preference", "verdict"),
}  # fmt: skip
"""Names that a field often has, most telling first."""

PATH_CHARACTERS = 30
_SPENT = re.compile(r"token|usage|cost|price|usd|latency|time|duration|seconds", re.IGNORECASE)
_LIST_OF_OBJECTS = re.compile(r'"([^"\\]{1,60})"\s*:\s*\[\s*\{')


def skeleton(path: Path) -> str:
    """A mapping file on one line for this file, `…` where a person has to fill in."""
    layout = table_layout(path)
    if layout is not None and layout.kind != "jsonl":
        return _written("", {}, list(layout.columns))
    records, record = _first_record(head_of(path))
    return _written(records, record, paths_in(record))


def _first_record(head: Head) -> tuple[str, dict[str, Any]]:
    """Key of the list of records ("" where they are not in one), and the first of them as far as it can be read."""
    text = head.text.lstrip()
    whole = _value(text, 0)
    if isinstance(whole, dict):
        for key, value in whole.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return key, value[0]
        return "", whole
    if text[:1] == "[":
        first = _value(text, len(text) - len(text[1:].lstrip()))
        return "", first if isinstance(first, dict) else {}
    found = _LIST_OF_OBJECTS.search(text)
    first = _value(text, found.end() - 1) if found else None
    return (found[1], first) if found and isinstance(first, dict) else ("", {})


def _value(text: str, position: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, position)[0]
    except (ValueError, RecursionError):
        return None


def _written(records: str, record: Mapping[str, Any], paths: Sequence[str]) -> str:
    by_name: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: path.count(".")):  # of two alike the one less deep
        by_name.setdefault(path.rpartition(".")[2].strip().lower(), path)
    found = {key: next((by_name[word] for word in words if word in by_name), "") for key, words in WORDS.items()}
    keys = [("records", named(records))] if records else []
    keys.append(
        ("item_id", found["item_id"]) if found["item_id"] or not found["prompt"] else ("prompt", found["prompt"])
    )
    if found["model_a"]:
        keys += [(key, found[key]) for key in ("model_a", "model_b", "winner")]
    elif not found["score"] and (each := _numbers(record)):
        keys += [("each", named(each)), ("model", "each.key"), ("score", "each.value")]
    else:
        keys += [(key, found[key]) for key in ("model", "score")]
    return "{" + ", ".join(f"{key}: {one_line(path, PATH_CHARACTERS) if path else '…'}" for key, path in keys) + "}"


def _numbers(record: Mapping[str, Any]) -> str:
    """Key of an object of numbers, as scores by model are written; counts of tokens, costs and times are no scores."""
    for key, value in record.items():
        if (
            not isinstance(value, dict)
            or len(value) < 2
            or not all(isinstance(one, int | float) for one in value.values())
        ):
            continue
        if not any(_SPENT.search(str(name)) for name in (key, *value)):
            return key
    return ""
