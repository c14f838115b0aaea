"""Where the samples of an Inspect log lie: in one JSON document, or in the members of a zip, whole or in parts.

What a sample says is told in inspect.py. Of a sample that was written twice the later one counts, as the tool has it.
"""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval_pipeline.formats.archive import Archive
from capeval_pipeline.formats.json_stream import json_pieces
from capeval_pipeline.formats.json_text import JsonFault
from capeval_pipeline.formats.json_values import mapping
from capeval_pipeline.formats.protocol import ReadOptions
from capeval_pipeline.formats.refusals import refusal, shown
from capeval_pipeline.formats.rows import as_key

SAMPLES = ("samples",)
HEADER, JOURNAL = "header.json", "_journal/start.json"
ATTACHMENT = "attachment://"
SAMPLE_MEMBER = re.compile(r"samples/(?P<key>.+_epoch_\d+)(?P<is_parted>/sample)?\.json")

SampleKey = tuple[str | None, str | None]
"""Id and epoch of a sample, None where they are none."""


@dataclass(frozen=True)
class Sample:
    """A sample as the log holds it. `fault` instead of a record where it cannot be read; `later` where another one of
    the same id and epoch counts instead."""

    place: int
    where: object
    record: Any = None
    fault: JsonFault | None = None
    later: object | None = None


def document_header(path: Path, options: ReadOptions) -> tuple[dict[str, Any], list[SampleKey]]:
    """What stands beside the samples of a JSON log, and id and epoch of each sample: a first pass through the file."""
    header: dict[str, Any] = {}
    keys: list[SampleKey] = []
    for piece in json_pieces(path, options.limits, SAMPLES):
        record = piece.value
        if piece.is_element:
            is_sample = isinstance(record, dict)
            keys.append((as_key(record.get("id")), as_key(record.get("epoch"))) if is_sample else (None, None))
        elif len(piece.keys) == 1:
            header[piece.keys[0]] = record
    return header, keys


def document_samples(path: Path, options: ReadOptions, keys: list[SampleKey]) -> Iterator[Sample]:
    """Samples of a JSON log in their order: a second pass, as the header may stand behind them."""
    last = {key: place for place, key in enumerate(keys) if key[0] is not None}
    elements = (piece.value for piece in json_pieces(path, options.limits, SAMPLES) if piece.is_element)
    for place, (key, record) in enumerate(zip(keys, elements, strict=True)):
        later = last.get(key, place)
        yield Sample(place, place, record, later=None if later == place else later)


def zip_header(path: Path, options: ReadOptions) -> tuple[dict[str, Any], bool]:
    """Header of a zip log, and whether the run came to its end; of an unfinished run what its journal begins with."""
    with Archive(path, options.limits) as archive:
        by_name = {member.filename: member for member in archive.members}
        name = next((name for name in (HEADER, JOURNAL) if name in by_name), None)
        if name is None:
            expected = f"{HEADER} or {JOURNAL}"
            raise refusal(path, "header_only", "neither header nor journal", expected, "Copy the log again.")
        try:
            header = archive.read_json(by_name[name])
        except JsonFault as fault:
            raise refusal(path, "bad_json", str(fault), "one JSON object", where=f"member {name}") from fault
    if not isinstance(header, dict):
        raise refusal(path, "bad_json", f"is {shown(header)}", "one JSON object", where=f"member {name}")
    return header, name == HEADER and header.get("status") != "started"


def zip_samples(path: Path, options: ReadOptions) -> Iterator[Sample]:
    """Samples of a zip log in the order of its directory, whole ones and those in parts alike."""
    with Archive(path, options.limits) as archive:
        named = ((member, SAMPLE_MEMBER.fullmatch(member.filename)) for member in archive.members)
        found = [(member, match) for member, match in named if match is not None]
        last = {match["key"]: member for member, match in found}
        for place, (member, match) in enumerate(found):
            winner = last[match["key"]]
            if winner is not member:
                yield Sample(place, member.filename, later=winner.filename)
                continue
            try:
                record = archive.read_json(member)
            except JsonFault as fault:
                yield Sample(place, member.filename, fault=fault)
                continue
            if match["is_parted"] and isinstance(record, dict):
                record = _with_attachments(archive, member, record)
            yield Sample(place, member.filename, record)


def _with_attachments(archive: Archive, member: zipfile.ZipInfo, record: dict[str, Any]) -> dict[str, Any]:
    """A sample in parts with the texts its question refers to; the other parts (messages, events) are not needed."""
    if ATTACHMENT not in str(record.get("input")):
        return record
    folder = member.filename.removesuffix("sample.json")
    attached = dict(mapping(record.get("attachments")))
    for part in archive.members:
        if part.filename.startswith(f"{folder}attachments") and part.filename.endswith(".json"):
            try:
                attached |= mapping(archive.read_json(part))
            except JsonFault:  # the reference itself then stands for the text
                continue
    return record | {"attachments": attached}
