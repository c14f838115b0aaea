"""What all readers share: opening (gz, zstd, byte-order marks, limits), JSON, hashes, messages and the count check.

How cells become keys, scores and numbers stands in cells.py, how tables become columns in tabular.py.
"""

import gzip
import hashlib
import json
import re
import reprlib
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.formats.protocol import Limits

HEAD_BYTES = 64 * 1024
FIRST_LINE_BYTES = 4 * 1024**2
"""How much of a text is looked at if its first line is longer than the head: thousands of models make a long header,
and one long prompt a long line of JSON."""
BLOCK_BYTES = 1024 * 1024
MESSAGE_CHARACTERS = 300
VALUE_CHARACTERS = 60
NAME_CHARACTERS = 70
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class FileRefused(CapevalError):
    """A whole file cannot be used; `reason` is the code, `location` the place, `n_read` the records seen until then."""

    def __init__(self, reason: str, location: str, text: str, n_read: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.location = location
        self.n_read = n_read


def escaped(character: str) -> str:
    """A character that cannot be printed as \\xNN or \\uNNNN; a byte of a file name that is no UTF-8 as itself."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str, limit: int) -> str:
    """Text on one line, control characters escaped, cut to `limit` characters with an ellipsis."""
    plain = text[: 4 * limit]
    if not plain.isprintable():
        plain = "".join(
            character if character.isprintable() else " " if character.isspace() else escaped(character)
            for character in plain
        )
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


class _Short(reprlib.Repr):
    """A printer that stops early: a value may be huge, or small in the file and huge when printed (YAML anchors)."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 3, 2 * VALUE_CHARACTERS, VALUE_CHARACTERS, 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 12

    def repr_int(self, value: int, level: int) -> str:
        # Python prints no whole number of more than 4300 digits
        return (
            super().repr_int(value, level) if value.bit_length() < 10_000 else "a whole number of 3,000 or more digits"
        )


_SHORT = _Short()


def shown(value: object) -> str:
    """A value as messages show it: quoted text or JSON, at most VALUE_CHARACTERS characters."""
    if isinstance(value, str):
        text = repr(value[: 2 * VALUE_CHARACTERS])
    else:
        text = _SHORT.repr(value) if isinstance(value, list | tuple | dict | set | int) else str(value)
    return one_line(text.encode("utf-8", "backslashreplace").decode(), VALUE_CHARACTERS)


def message(file: str, where: str, found: str, expected: str, advice: str = "") -> str:
    """`{file}: {where}: {found}; expected {expected}. {advice}` on one line of at most 300 characters.

    Names of files and places are cut where they are long, so that what is to be done is still there.
    """
    tail = f"; expected {expected}." + (f" {advice}" if advice else "")
    file, where = one_line(file, NAME_CHARACTERS), one_line(where, NAME_CHARACTERS)
    return one_line(f"{file}: {where}: {found}{tail}", MESSAGE_CHARACTERS)


def refusal(path: Path, reason: str, found: str, expected: str, advice: str = "", where: str = "file") -> FileRefused:
    """The error that refuses `path`, with the message all refusals share."""
    return FileRefused(reason, where, message(path.name, where, found, expected, advice))


class _Counted:
    """A binary stream that counts what comes out of it and stops when a limit is met."""

    def __init__(self, stream: IO[bytes], path: Path, n_packed: int | None, limits: Limits) -> None:
        self._stream = stream
        self._path = path
        self._n_packed = n_packed
        self._limits = limits
        self.n_bytes = 0

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        try:
            block = self._stream.read(size)
        except EOFError as error:
            raise refusal(
                self._path,
                "truncated",
                f"ends after {self.n_bytes} inflated bytes inside the compressed stream",
                "a whole file",
                "Copy it again.",
            ) from error
        except (zlib.error, gzip.BadGzipFile, pa.ArrowInvalid, OSError) as error:
            raise refusal(
                self._path,
                "archive_damaged",
                f"cannot be inflated ({error})",
                "a whole compressed file",
                "Copy it again.",
            ) from error
        self.n_bytes += len(block)
        if self._n_packed is not None:
            self._check(self.n_bytes, self._n_packed)
        return block

    def _check(self, n_bytes: int, n_packed: int) -> None:
        limits = self._limits
        if n_bytes > limits.inflated_bytes:
            raise refusal(
                self._path,
                "archive_limit",
                f"inflates to more than {limits.inflated_bytes} bytes",
                "at most the setting `limits.inflated_bytes`",
                "Split the file.",
            )
        if n_bytes > limits.ratio_free_bytes and n_bytes > limits.inflation_ratio * max(n_packed, 1):
            raise refusal(
                self._path,
                "archive_limit",
                f"inflates {n_packed} bytes to more than {n_bytes}",
                f"at most {limits.inflation_ratio} : 1 (setting `limits.inflation_ratio`)",
            )


@contextmanager
def open_inflated(path: Path, limits: Limits | None = None) -> Iterator[_Counted]:
    """Open a file for reading; gzip and zstd, told by content and not by name, are inflated under the limits.

    Raises FileRefused: truncated, archive_damaged, archive_limit (too big, or compressed twice).
    """
    limits = limits or Limits()
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == GZIP_MAGIC:
            inflated: Any = gzip.GzipFile(fileobj=raw)
        elif magic == ZSTD_MAGIC:
            inflated = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        else:
            yield _Counted(raw, path, None, limits)
            return
        yield _Counted(inflated, path, path.stat().st_size, limits)


def is_compressed(start: bytes) -> bool:
    """Whether these first bytes are those of a gzip or zstd stream."""
    return start[:2] == GZIP_MAGIC or start[:4] == ZSTD_MAGIC


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of a file's inflated bytes, and their number."""

    sha256: str
    n_bytes: int


def fingerprint(path: Path, limits: Limits | None = None) -> Fingerprint:
    """Hash of the inflated bytes, so that a gzipped twin has the hash of the plain file. Raises FileRefused."""
    digest = hashlib.sha256()
    is_first = True
    with open_inflated(path, limits) as stream:
        while block := stream.read():
            if is_first and stream._n_packed is not None and is_compressed(block):
                raise refusal(path, "archive_limit", "is compressed twice", "one compression", "Inflate it once.")
            is_first = False
            digest.update(block)
        return Fingerprint(digest.hexdigest(), stream.n_bytes)


def packed_sha256(path: Path) -> str:
    """Hash of the bytes as they lie there: the id of a file that cannot be inflated."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Head:
    """The first inflated bytes of a file; `is_whole` if there are no more."""

    start: bytes
    is_whole: bool

    @property
    def text(self) -> str:
        """The start as text, byte-order mark removed; bytes that are not UTF-8 are replaced."""
        for mark, encoding in UTF16_MARKS.items():
            if self.start.startswith(mark):
                return self.start[2:].decode(encoding, "replace")
        return self.start.removeprefix(UTF8_MARK).decode("utf-8", "replace")

    @property
    def is_text(self) -> bool:
        """False if the start holds bytes that no text file has."""
        if any(self.start.startswith(mark) for mark in UTF16_MARKS):
            return True
        controls = sum(byte < 9 or 13 < byte < 32 for byte in self.start[:4096])
        return controls == 0 or (b"\0" not in self.start and controls * 100 < len(self.start[:4096]))


@lru_cache(maxsize=64)
def _head(path: Path, _size: int, _mtime_ns: int) -> Head:
    parts: list[bytes] = []
    n_bytes, wanted, is_whole = 0, HEAD_BYTES, False
    # what came before a fault says what the file is; the fault itself is told when the file is read
    with suppress(FileRefused), open_inflated(path) as stream:
        while n_bytes < wanted:
            if not (block := stream.read(min(wanted - n_bytes, HEAD_BYTES))):
                is_whole = True
                break
            parts.append(block)
            n_bytes += len(block)
            if n_bytes == HEAD_BYTES and b"\0" not in parts[0] and not any(b"\n" in part for part in parts):
                wanted = FIRST_LINE_BYTES
            elif n_bytes > HEAD_BYTES and b"\n" in block:
                break
    return Head(b"".join(parts), is_whole)


def head_of(path: Path) -> Head:
    """The first 64 kB, inflated, and the rest of the first line if it is longer; empty where that is impossible."""
    status = path.stat()
    return _head(path, status.st_size, status.st_mtime_ns)


def utf8_blocks(stream: _Counted, path: Path) -> Iterator[bytes]:
    """Blocks of a text file in UTF-8 without byte-order mark; UTF-16 with its mark is rewritten.

    Raises FileRefused bad_encoding for UTF-16 without a mark and for damaged UTF-16.
    """
    import codecs

    block = stream.read()
    mark = next((mark for mark in UTF16_MARKS if block.startswith(mark)), None)
    if mark is None:
        if b"\0" in block[:HEAD_BYTES]:
            place = block.index(b"\0")
            raise refusal(
                path, "bad_encoding", f"byte 0x00 at byte {place}", "UTF-8, or UTF-16 with its mark", "Save as UTF-8."
            )
        block = block.removeprefix(UTF8_MARK)
        while block:
            yield block
            block = stream.read()
        return
    decoder = codecs.getincrementaldecoder(UTF16_MARKS[mark])()
    block = block[2:]
    try:
        while block:
            yield decoder.decode(block).encode("utf-8", "surrogatepass")
            block = stream.read()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise refusal(
            path, "bad_encoding", f"is UTF-16 with a fault ({error.reason})", "text", "Save as UTF-8."
        ) from error


def numbered_lines(blocks: Iterator[bytes], limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Lines of a text, counted from 1 and split at \\n only, line end kept; None for one longer than `limit` bytes."""
    number = 1
    rest = b""
    is_overlong = False
    for block in blocks:
        pieces = (rest + block).split(b"\n") if b"\n" in block else None
        if pieces is None:
            rest = b"" if is_overlong else rest + block
            if len(rest) > limit:
                is_overlong, rest = True, b""
            continue
        rest = pieces.pop()
        for piece in pieces:
            yield number, None if is_overlong or len(piece) > limit else piece + b"\n"
            is_overlong = False
            number += 1
        if len(rest) > limit:
            is_overlong, rest = True, b""
    if rest or is_overlong:
        yield number, None if is_overlong else rest


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


def text_hash(text: str) -> str | None:
    """SHA-256 of a prompt: NFC, line ends \\n, trailing blanks of lines and outer blanks cut; None for no text."""
    normal = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    normal = "\n".join(line.rstrip() for line in normal.split("\n")).strip()
    return hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest() if normal else None


POSITION_KEYS = frozenset({"idx", "index", "id", "doc_id"})
"""Keys of a document that number it and do not belong to its content."""


_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


def document_hash(document: Any) -> str | None:
    """SHA-256 of a document: its JSON with sorted keys, without the keys that only number it; None if it is empty."""
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key not in POSITION_KEYS}
    if document is None or document in ("", {}, []):
        return None
    text = _SORTED.encode(document)
    return hashlib.sha256(unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")).hexdigest()


def check_counts(file: str, *, n_read: int, n_kept: int, n_rejected: int, n_duplicate: int) -> None:
    """Raise AssertionError unless read = kept + rejected + duplicate: else a record was lost or counted twice."""
    if n_read != n_kept + n_rejected + n_duplicate:
        raise AssertionError(
            f"{file}: {n_read} records read, but {n_kept} kept + {n_rejected} rejected + {n_duplicate} duplicate "
            f"= {n_kept + n_rejected + n_duplicate}"
        )
