"""One big JSON document read piece by piece: its long array an element at a time, what stands beside it whole.

Memory follows the largest element and not the file. What is wrong with a document is told in the words of
`read_json_document`, of which this is the version for logs of any size.
"""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval_pipeline.formats.json_text import JsonFault, decode_json_at
from capeval_pipeline.formats.opening import BLOCK_BYTES, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import refusal, shown

_BLANKS = " \t\n\r"
_TAIL = 16
"""Characters at the end of what is known that a cut word, number or escape may take up."""

_WORDS = ("null", "true", "false", "NaN", "Infinity", "-Infinity")
_NUMBER_ENDS = re.compile(r"\.|(\.\d+)?[eE][+-]?", re.ASCII)


@dataclass(frozen=True)
class Piece:
    """A value of a document. keys : where it stands; is_element : it is an element of the array at `keys`."""

    keys: tuple[str, ...]
    value: Any
    is_element: bool = False


def json_pieces(path: Path, limits: Limits, array: tuple[str, ...]) -> Iterator[Piece]:
    """Pieces of a JSON document in their order: elements of the array under the keys `array`, all other values whole.

    Without keys the document itself is the array. What is no array there is one piece. Raises FileRefused: truncated,
    bad_json, bad_encoding, nesting_too_deep, file_too_large, …
    """
    with open_inflated(path, limits) as stream:
        text = _Text(path, limits, utf8_blocks(stream, path))
        try:
            yield from _value(text, (), array)
            if text.next_character():
                raise JsonFault("bad_json", f"is no JSON (Extra data at character {text.place})")
        except JsonFault as fault:
            if fault.reason == "bad_json" and text.is_cut:
                found = f"ends at byte {stream.n_bytes} inside an unfinished JSON value"
                raise refusal(path, "truncated", found, "a whole file", "Copy it again.") from fault
            raise refusal(path, fault.reason, str(fault), "one JSON document") from fault


def _value(text: "_Text", keys: tuple[str, ...], array: tuple[str, ...]) -> Iterator[Piece]:
    start = text.next_character()
    if start == "[" and keys == array:
        yield from _elements(text, keys)
    elif start == "{" and len(keys) < len(array) and array[: len(keys)] == keys:
        yield from _members(text, keys, array)
    else:
        yield Piece(keys, text.value(len(keys)))


def _elements(text: "_Text", keys: tuple[str, ...]) -> Iterator[Piece]:
    text.skip("[")
    if text.next_character() == "]":
        text.skip("]")
        return
    while True:
        yield Piece(keys, text.value(len(keys) + 1), is_element=True)
        if text.next_character() != ",":
            text.skip("]")
            return
        text.skip(",")


def _members(text: "_Text", keys: tuple[str, ...], array: tuple[str, ...]) -> Iterator[Piece]:
    text.skip("{")
    seen: set[str] = set()
    if text.next_character() == "}":
        text.skip("}")
        return
    while True:
        if text.next_character() != '"':
            raise text.expecting("property name enclosed in double quotes")
        key = text.value(len(keys) + 1)
        if key in seen:
            raise JsonFault("bad_json", f"key {shown(key)} is given twice")
        seen.add(key)
        text.next_character()
        text.skip(":")
        yield from _value(text, (*keys, key), array)
        if text.next_character() != ",":
            text.skip("}")
            return
        text.skip(",")


def is_beginning(rest: str) -> bool:
    """Whether what is left at a fault, up to the end of a document, is nothing or the beginning of a word or number."""
    rest = rest.strip()
    return any(word.startswith(rest) for word in _WORDS) or _NUMBER_ENDS.fullmatch(rest) is not None


class _Text:
    """The part of a text that is known, read on as far as it is asked for."""

    def __init__(self, path: Path, limits: Limits, blocks: Iterator[bytes]) -> None:
        self.path, self.limits, self.blocks = path, limits, blocks
        self.known, self.position = "", 0
        self.n_dropped = self.n_bytes = self.n_lines = 0
        self.is_whole = False
        self.is_cut = False
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def place(self) -> int:
        return self.n_dropped + self.position + 1

    def _read_on(self, n_characters: int = BLOCK_BYTES) -> None:
        """Know at least `n_characters` more, or the rest; what was used up is forgotten."""
        parts = [self.known[self.position :]]
        self.n_dropped += self.position
        self.position = 0
        n_new = 0
        while n_new < n_characters and not self.is_whole:
            block = next(self.blocks, b"")
            self.n_bytes += len(block)
            if self.n_bytes > self.limits.document_bytes:
                found = f"one JSON document of more than {self.limits.document_bytes} bytes"
                raise refusal(self.path, "file_too_large", found, "at most the setting `limits.document_bytes`")
            self.is_whole = not block
            try:
                text = self.decoder.decode(block, final=self.is_whole)
            except UnicodeDecodeError as error:
                line = self.n_lines + error.object[: error.start].count(b"\n") + 1
                found = f"byte 0x{error.object[error.start]:02x} at line {line}"
                raise refusal(self.path, "bad_encoding", found, "UTF-8", "Save as UTF-8.") from error
            self.n_lines += block.count(b"\n")
            parts.append(text)
            n_new += len(text)
        self.known = "".join(parts)

    def next_character(self) -> str:
        """The next character that is no blank, without using it up; empty at the end."""
        while True:
            while self.position < len(self.known):
                if self.known[self.position] not in _BLANKS:
                    return self.known[self.position]
                self.position += 1
            if self.is_whole:
                return ""
            self._read_on()

    def skip(self, character: str) -> None:
        """Use up this character, which must be the next one."""
        if self.next_character() != character:
            raise self.expecting(f"{character!r} delimiter" if character in ",:" else f"',' or {character!r}")
        self.position += 1

    def expecting(self, what: str) -> JsonFault:
        """The fault of another character, or of the end, where `what` should stand."""
        self.next_character()
        self.is_cut = self.is_whole and is_beginning(self.known[self.position :])
        return JsonFault("bad_json", f"is no JSON (Expecting {what} at character {self.place})")

    def value(self, depth: int) -> Any:
        """The next value, use it up. depth : how deep in the document it stands."""
        self.next_character()
        n_more = BLOCK_BYTES
        while True:
            try:
                value, end = decode_json_at(self.known, self.position, depth=self.limits.json_depth - depth)
            except json.JSONDecodeError as error:
                is_at_end = error.pos >= len(self.known) - _TAIL or error.msg.startswith("Unterminated string")
                if self.is_whole or not is_at_end:
                    is_open = error.msg.startswith(("Unterminated string", "Invalid \\u"))
                    self.is_cut = self.is_whole and (is_open or is_beginning(self.known[error.pos :]))
                    where = self.n_dropped + error.pos + 1
                    raise JsonFault(
                        "bad_json", f"is no JSON ({error.msg.removesuffix(' at')} at character {where})"
                    ) from error
            except JsonFault as fault:
                if fault.reason == "nesting_too_deep":
                    found = f"is nested more than {self.limits.json_depth} levels deep"
                    raise JsonFault(fault.reason, found) from fault
                raise
            else:
                # a number at the end of what is known may go on
                if end < len(self.known) or self.is_whole:
                    self.position = end
                    return value
            self._read_on(n_more)
            n_more *= 2  # so that a long element is not decoded once a block
