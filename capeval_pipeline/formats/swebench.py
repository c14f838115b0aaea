"""`swebench`: what SWE-bench and its submissions say of instances, in one of three shapes.

(A) results.json with lists of what was resolved: the rest is known from the list of all instances only, which
benchmark.yml names. (B) per_instance_details.json with cost and verdict an instance. (C) the report of the harness,
schema 2. An empty patch solves nothing, so it is 0; what did not run is an error and has no score.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.json_text import read_json_document
from capeval_pipeline.formats.json_values import amount, count, score_of_json, storable
from capeval_pipeline.formats.opening import head_of, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Limits, Reading, ReadOptions
from capeval_pipeline.formats.refusals import refusal, shown
from capeval_pipeline.formats.rows import MEMBER, RowCollector, as_key, is_inside, model_named
from capeval_pipeline.formats.safe_yaml import read_yaml

KEYS = frozenset({"resolved", "no_generation", "no_logs", "resolved_ids", "submitted_ids", "completed_ids"})
NAMES_MODEL_BY_PATH = True
METADATA = ("metadata.yaml", "metadata.yml")
SCHEMA = 2
LISTS, DETAILS, REPORT = "A", "B", "C"
MARKS = {
    LISTS: ('"no_generation"', '"no_logs"', '"resolved"'),
    DETAILS: ('"api_calls"', '"resolved"', '"cost"'),
    REPORT: ('"completed_ids"',),
}
SAID_BY_REPORTS = ('"submitted_instances"', '"resolved_ids"', '"unresolved_ids"')
"""One of these, too: which of them comes first, and so within what is looked at, differs by release."""
_OF_OBJECTS = re.compile(r'\{\s*"[^"]*"\s*:\s*\{')
VERDICTS: dict[str, tuple[str, float | None]] = {
    "resolved": ("ok", 1.0),
    "unresolved": ("ok", 0.0),
    "empty_patch": ("ok", 0.0),
    "error": ("error", None),
    "incomplete": ("error", None),
    "no_generation": ("error", None),
    "no_logs": ("error", None),
}
"""The file's own word → status and score."""


def matches(path: Path) -> float:
    """1 for an object with the keys of one of the three shapes, else 0."""
    return 0.0 if path.is_dir() or _shape(path) is None else 1.0


def _shape(path: Path) -> str | None:
    text = head_of(path).text.lstrip()
    if text[:1] != "{":
        return None
    if not _OF_OBJECTS.match(text) and '"api_calls"' in text:
        return None
    shape = next((shape for shape, marks in MARKS.items() if all(mark in text for mark in marks)), None)
    return None if shape == REPORT and not any(mark in text for mark in SAID_BY_REPORTS) else shape


def companions(path: Path) -> tuple[Path, ...]:
    """The submission's metadata, beside the file or one folder up."""
    folders = (path.parent, path.parent.parent) if path.parent.name == "results" else (path.parent,)
    return tuple(file for folder in folders for name in METADATA if is_inside(file := folder / name))[:1]


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one file. Raises FileRefused: instances_needed, model_unknown, version_too_new, truncated …"""
    document = read_json_document(path, options.limits)
    shape = _shape(path)
    if not isinstance(document, dict) or shape is None:
        raise refusal(path, "unknown_format", "has none of the three shapes", "resolved, resolved_ids or details")
    version = document.get("schema_version")
    if shape == REPORT and isinstance(version, int | float) and version > SCHEMA:
        raise refusal(path, "version_too_new", f"has schema_version {shown(version)}", f"at most {SCHEMA}")
    named = path.name.removesuffix(".gz").removesuffix(".json").rpartition(".")[0].replace("__", "/")
    model = model_named(path, options, _metadata_name(path), named if shape == REPORT else None)
    claimed = count(document.get("total_instances")) if shape == REPORT else None
    if options.instances is not None:  # what a person lists goes before what the file says of itself
        claimed = len(set(read_instances(options.instances, options.limits)))
    rows = RowCollector(path, options, MEMBER)
    if shape == DETAILS:
        chunks = _details(rows, document, model, claimed)
    else:
        instances = _instances(path, options) if shape == LISTS else None
        chunks = _lists(rows, document, model, instances, claimed)
    return Reading(FileFacts(format="swebench", claimed_items=claimed), chunks)


def _metadata_name(path: Path) -> str | None:
    """`name` of the submission's metadata, at the top or under `info`."""
    for file in companions(path):
        content = read_yaml(file, "config_invalid")
        parts = [content, content.get("info")] if isinstance(content, dict) else []
        names = [part["name"] for part in parts if isinstance(part, dict) and isinstance(part.get("name"), str)]
        return next((" ".join(name.split()) for name in names if name.strip()), None)
    return None


def _instances(path: Path, options: ReadOptions) -> list[str]:
    if options.instances is None:
        found = "lists what was resolved, not what was tried"
        advice = "Put a file with one id a line beside it and name it in benchmark.yml: instances: FILE."
        raise refusal(path, "instances_needed", found, "the list of all instances", advice)
    return list(dict.fromkeys(read_instances(options.instances, options.limits)))


def read_instances(path: Path, limits: Limits) -> list[str]:
    """Ids of a list, one a line. Raises FileRefused: bad_encoding, instances_needed for an empty list."""
    with open_inflated(path, limits) as stream:
        raw = b"".join(utf8_blocks(stream, path))
    try:
        ids = [line.strip() for line in raw.decode().split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise refusal(path, "bad_encoding", f"byte 0x{raw[error.start]:02x} is not UTF-8", "UTF-8") from error
    if not ids:
        raise refusal(path, "instances_needed", "lists no instance", "one id a line")
    return ids


def _lists(
    rows: RowCollector, document: Mapping[str, Any], model: str, instances: list[str] | None, claimed: int | None
) -> Iterator[Chunk]:
    """One record an instance of all lists, in the order in which they name it."""
    words: dict[str, list[str]] = {name: [] for name in instances or ()}
    for key, ids in document.items():
        # a report also lists containers and images that were left over
        if not isinstance(ids, list) or (instances is None and not key.endswith("_ids")):
            continue
        word = key.removesuffix("_ids")
        for given in ids:
            name = as_key(given)
            if name is None:
                rows.note(0, "key_missing", f"{key} lists {shown(given)}", "ids", where=f"key {key}")
                rows.end_record()
            elif word in VERDICTS or instances is None:
                words.setdefault(name, []).append(word)
    for place, (name, said) in enumerate(words.items()):
        known = list(dict.fromkeys(word for word in said if word in VERDICTS))
        where = f"key {name}"
        if instances is not None and place >= len(instances):
            rows.note(place, "item_unknown", f"{said[0]} lists {shown(name)}", "an id of the instances", where=where)
            rows.end_record()
            continue
        verdicts = {VERDICTS[word] for word in known} or {("ok", 0.0) if instances is not None else ("unscored", None)}
        outcome = ", ".join(known) or ("unresolved" if instances is not None else said[0])
        cell = {"item": name, "model": model, "generation_id": 0, "outcome": outcome, "metric": "resolved"}
        rows.add_item(name)
        if len(verdicts) > 1:
            rows.add_generation(place, status="invalid", **cell)
            found = f"is in the lists {', '.join(known)}"
            rows.note(place, "conflicting_duplicate", found, "one verdict", "Neither is used.", where=where)
        else:
            status, score = verdicts.pop()
            rows.add_generation(place, status=status, score=score, **cell)
        rows.end_record()
    _warn_of_coverage(rows, len(words), claimed)
    yield rows.chunk()


def _warn_of_coverage(rows: RowCollector, n_told: int, claimed: int | None) -> None:
    if claimed is not None and n_told < claimed:
        source = "total_instances says" if rows.options.instances is None else "the list of instances says"
        rows.warn("coverage", f"{n_told} instances", f"{claimed} as {source}", "The rest is not run.")


def _details(rows: RowCollector, document: Mapping[str, Any], model: str, claimed: int | None) -> Iterator[Chunk]:
    for place, (given_name, details) in enumerate(document.items()):
        name = storable(given_name)
        where = f"key {name}"
        if not name or not isinstance(details, dict):
            rows.note(place, "bad_row", f"is {shown(details)}", "an id with cost, api_calls, resolved", where=where)
            rows.end_record()
            continue
        rows.add_item(name)
        given = details.get("resolved")
        code, value = score_of_json(given)
        outcome = {1.0: "resolved", 0.0: "unresolved"}.get(value) if code == cells.OK else None
        rows.add_score(
            place, given, code, value, item=name, model=model, generation_id=0, outcome=outcome, metric="resolved",
            cost_reported_usd=amount(details.get("cost")),
        )  # fmt: skip
        rows.end_record()
    _warn_of_coverage(rows, len(document), claimed)
    yield rows.chunk()
