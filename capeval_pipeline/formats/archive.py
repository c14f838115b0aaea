"""Zip archives whose members are read one by one in memory, under limits, and never written to disk.

Members may be packed with zstd (method 93), which the standard library opens only from Python 3.14 on. Sizes in the
directory are claims: inflated bytes are counted as they come.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from capeval_pipeline.formats.json_text import JsonFault, parse_json
from capeval_pipeline.formats.opening import BLOCK_BYTES
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import refusal

ZIP_MAGIC = b"PK\x03\x04"
ZSTD_METHOD = 93
_LOCAL_HEADER = struct.Struct("<4s22x2H")
_DRIVE = re.compile(r"[A-Za-z]:")
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, ValueError, pa.ArrowException)


def is_zip(start: bytes) -> bool:
    """Whether a file of these first bytes is a zip archive."""
    return start.startswith(ZIP_MAGIC)


def member_names(path: Path) -> list[str]:
    """Names in the directory of an archive; none if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (*_DAMAGES, NotImplementedError):
        return []


class Archive:
    """An open archive. Raises FileRefused: truncated, archive_damaged, archive_limit, path_outside, codec_missing."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits = path, limits
        self.n_inflated = 0
        self._n_packed = path.stat().st_size
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_DAMAGES, NotImplementedError) as error:
            found = f"ends at byte {self._n_packed} without the directory of the archive"
            raise refusal(path, "truncated", found, "a whole zip archive", "Copy it again.") from error
        self.members = [member for member in self._zip.infolist() if not member.is_dir()]
        try:
            self._check_directory()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    def _check_directory(self) -> None:
        limit = self.limits.archive_members
        if len(self.members) > limit:
            found, expected = f"{len(self.members)} members", f"at most {limit} (setting `limits.archive_members`)"
            raise refusal(self.path, "archive_limit", found, expected, "Split the archive.")
        for member in self.members:
            name = member.filename
            if name.startswith(("/", "\\")) or _DRIVE.match(name) or ".." in re.split(r"[/\\]", name):
                raise refusal(
                    self.path, "path_outside", "its name leads out of the archive", "names inside", "Pack it again.",
                    where=f"member {name}",
                )  # fmt: skip

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Inflated bytes of a member."""
        if member.flag_bits & 1:
            raise self._refuse(member, "codec_missing", "is encrypted", "an open member", "Pack it without a password.")
        parts: list[bytes] = []
        n_bytes = 0
        try:
            for block in self._blocks(member):
                parts.append(block)
                n_bytes += len(block)
                self.n_inflated += len(block)
                self._check_sizes(member, n_bytes)
        except NotImplementedError as error:
            found, expected = f"is packed with method {member.compress_type}", "stored, deflate, bzip2, lzma or zstd"
            raise self._refuse(member, "codec_missing", found, expected) from error
        except _DAMAGES as error:
            found = f"cannot be inflated ({type(error).__name__})"
            raise self._refuse(member, "archive_damaged", found, "a whole member", "Copy it again.") from error
        return b"".join(parts)

    def read_json(self, member: zipfile.ZipInfo) -> Any:
        """The JSON value of a member. Raises JsonFault: bad_json, bad_encoding, nesting_too_deep."""
        try:
            text = self.read(member).removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError as error:
            raise JsonFault("bad_encoding", f"byte 0x{error.object[error.start]:02x} is not UTF-8") from error
        return parse_json(text, depth=self.limits.json_depth)

    def _refuse(self, member: zipfile.ZipInfo, reason: str, found: str, expected: str, advice: str = "") -> Exception:
        return refusal(self.path, reason, found, expected, advice, where=f"member {member.filename}")

    def _blocks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        if member.compress_type != ZSTD_METHOD:
            with self._zip.open(member) as stream:
                while block := stream.read(BLOCK_BYTES):
                    yield block
            return
        packed = pa.CompressedInputStream(pa.BufferReader(self._packed(member)), "zstd")
        checksum = 0
        while block := packed.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
            yield block
        if checksum != member.CRC:
            raise zipfile.BadZipFile("another checksum")

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        """Bytes of a member as they lie in the file."""
        with self.path.open("rb") as stream:
            stream.seek(member.header_offset)
            magic, n_name, n_extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            if magic != ZIP_MAGIC:
                raise zipfile.BadZipFile("no member where the directory says")
            stream.seek(n_name + n_extra, 1)
            packed = stream.read(member.compress_size)
        if len(packed) != member.compress_size:
            raise EOFError
        return packed

    def _check_sizes(self, member: zipfile.ZipInfo, n_bytes: int) -> None:
        limits = self.limits
        if n_bytes > limits.inflated_bytes:
            found, expected = f"inflates to more than {limits.inflated_bytes} bytes", "at most the setting"
            raise self._refuse(member, "archive_limit", found, f"{expected} `limits.inflated_bytes`")
        if self.n_inflated > limits.archive_bytes:
            found, expected = f"all members inflate to more than {limits.archive_bytes} bytes", "at most the setting"
            raise self._refuse(
                member, "archive_limit", found, f"{expected} `limits.archive_bytes`", "Split the archive."
            )
        for inflated, packed in ((n_bytes, member.compress_size), (self.n_inflated, self._n_packed)):
            if inflated > limits.ratio_free_bytes and inflated > limits.inflation_ratio * max(packed, 1):
                found = f"inflates {packed} bytes to more than {inflated}"
                raise self._refuse(
                    member,
                    "archive_limit",
                    found,
                    f"at most {limits.inflation_ratio} : 1 (setting `limits.inflation_ratio`)",
                )
