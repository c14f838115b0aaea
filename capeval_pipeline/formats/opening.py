"""Opening files of any size: gzip and zstd under limits, marks and encodings, the first bytes, numbered lines."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused, refusal

HEAD_BYTES = 64 * 1024
FIRST_LINE_BYTES = 4 * 1024**2
"""How much of a text is looked at if its first line is longer than the head: thousands of models make a long header,
and one long prompt a long line of JSON."""
BLOCK_BYTES = 1024 * 1024
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


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
