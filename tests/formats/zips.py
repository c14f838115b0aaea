"""Zip archives as logs have them, with members packed by zstd, which the standard library does not write."""

import struct
import zlib
from pathlib import Path

import pyarrow as pa

STORED, DEFLATE, ZSTD = 0, 8, 93


def write_zip(path: Path, members: list[tuple[str, bytes]], method: int = ZSTD, *, claimed: int | None = None) -> Path:
    """Write an archive member by member; `claimed` is what the directory says of every inflated size."""
    body, directory = bytearray(), bytearray()
    for name, content in members:
        packed = _packed(content, method)
        size = len(content) if claimed is None else claimed
        shared = struct.pack("<HHHHHLLLHH", 20, 0x800, method, 0, 33, zlib.crc32(content), len(packed), size,
                             len(name.encode()), 0)  # fmt: skip
        directory += b"PK\1\2" + struct.pack("<H", 20) + shared + struct.pack("<HHHLL", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\3\4" + shared + name.encode() + packed
    end = struct.pack("<HHHHLLH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(body) + bytes(directory) + b"PK\5\6" + end)
    return path


def _packed(content: bytes, method: int) -> bytes:
    if method == ZSTD:
        return pa.Codec("zstd").compress(content, asbytes=True)
    if method == DEFLATE:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(content) + packer.flush()
    return content
