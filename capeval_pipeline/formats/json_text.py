"""JSON as people and tools write it: bare NaN, exact whole numbers, no key twice, no bottomless nesting."""

import json
import re
from pathlib import Path
from typing import Any

from capeval_pipeline.formats.opening import open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import refusal, shown


class JsonFault(ValueError):
    """A JSON text that cannot be used; `reason` is bad_json or nesting_too_deep."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise JsonFault("bad_json", f"key {shown(repeated)} is given twice")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeated_keys)


def parse_json(text: str, *, depth: int = 100) -> Any:
    """Value of a JSON text; bare NaN and Infinity are numbers, whole numbers are exact. Raises JsonFault."""
    try:
        if text.count("[") + text.count("{") > depth and _is_deeper(text, depth):
            raise JsonFault("nesting_too_deep", f"is nested more than {depth} levels deep")
        return _DECODER.decode(text)
    except JsonFault:
        raise
    except json.JSONDecodeError as error:
        found = error.msg.removesuffix(" at")
        raise JsonFault("bad_json", f"is no JSON ({found} at character {error.pos + 1})") from error
    except RecursionError as error:
        raise JsonFault("nesting_too_deep", f"is nested more than {depth} levels deep") from error
    except ValueError as error:  # a whole number of more digits than Python reads
        raise JsonFault("bad_json", "holds a whole number of more than 4300 digits") from error


def decode_json_at(text: str, position: int, *, depth: int) -> tuple[Any, int]:
    """The JSON value that begins at `position`, and where it ends. Raises JSONDecodeError, JsonFault."""
    try:
        value, end = _DECODER.raw_decode(text, position)
    except (JsonFault, json.JSONDecodeError):
        raise
    except RecursionError as error:
        raise JsonFault("nesting_too_deep", f"is nested more than {depth} levels deep") from error
    except ValueError as error:  # a whole number of more digits than Python reads
        raise JsonFault("bad_json", "holds a whole number of more than 4300 digits") from error
    if end - position > depth and _is_deeper(text[position:end], depth):
        raise JsonFault("nesting_too_deep", f"is nested more than {depth} levels deep")
    return value, end


_NO_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[^\[\]{}"]+', re.DOTALL)


def _is_deeper(text: str, limit: int) -> bool:
    """Whether brackets outside of texts are nested more than `limit` levels deep."""
    brackets = rest = _NO_BRACKETS.sub("", text).replace("{", "[").replace("}", "]")
    for _ in range(limit):  # every pass takes the innermost pairs away
        inner = rest.replace("[]", "")
        if inner == rest:
            break
        rest = inner
    if not rest:
        return False
    depth = 0
    for bracket in brackets:  # too deep, or not closed: one by one
        depth += 1 if bracket == "[" else -1
        if depth > limit:
            return True
    return False


def read_json_document(path: Path, limits: Limits) -> Any:
    """The one JSON value of a file. Raises FileRefused: truncated, bad_json, bad_encoding, file_too_large, …"""
    parts: list[bytes] = []
    n_bytes = 0
    with open_inflated(path, limits) as stream:
        for block in utf8_blocks(stream, path):
            parts.append(block)
            n_bytes += len(block)
            if n_bytes > limits.document_bytes:
                raise refusal(
                    path,
                    "file_too_large",
                    f"one JSON document of more than {limits.document_bytes} bytes",
                    "at most the setting `limits.document_bytes`",
                )
    raw = b"".join(parts)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refusal(
            path, "bad_encoding", f"byte 0x{raw[error.start]:02x} at line {line}", "UTF-8", "Save as UTF-8."
        ) from error
    try:
        return parse_json(text, depth=limits.json_depth)
    except JsonFault as fault:
        if fault.reason == "bad_json" and is_cut_json(text):
            raise refusal(
                path,
                "truncated",
                f"ends at byte {len(raw)} inside an unfinished JSON value",
                "a whole file",
                "Copy it again.",
            ) from fault
        raise refusal(path, fault.reason, str(fault), "one JSON document") from fault


def is_cut_json(text: str) -> bool:
    """Whether a broken JSON text is the beginning of one: its fault lies at its end."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return False
    return False
