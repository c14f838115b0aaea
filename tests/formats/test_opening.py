"""Opening: compression under limits, marks and encodings, numbered lines."""

import gzip

import pyarrow as pa
import pytest

from capeval_pipeline.formats.opening import fingerprint, numbered_lines, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import write


def lines_of(*blocks: bytes, limit: int = 100) -> list[tuple[int, bytes | None]]:
    return list(numbered_lines(iter(blocks), limit))


def test_lines_end_at_newline_only_wherever_blocks_end():
    assert lines_of(b"a\xe2\x80\xa8b\r\n", b"c", b"d\n", b"e") == [
        (1, b"a\xe2\x80\xa8b\r\n"),
        (2, b"cd\n"),
        (3, b"e"),
    ]


def test_an_overlong_line_is_one_gap_and_the_next_line_is_read():
    assert lines_of(b"x" * 60, b"y" * 60, b"z\nnext\n") == [(1, None), (2, b"next\n")]
    assert lines_of(b"x" * 200) == [(1, None)]


def test_a_gzipped_twin_has_the_hash_of_the_plain_file(tmp_path):
    plain = write(tmp_path / "a.csv", "item_id,model,score\n")
    packed = write(tmp_path / "b.csv", gzip.compress(plain.read_bytes()))
    zstd = write(tmp_path / "c.csv", pa.compress(plain.read_bytes(), codec="zstd", asbytes=True))
    assert fingerprint(plain) == fingerprint(packed) == fingerprint(zstd)


def refused(call) -> str:
    with pytest.raises(FileRefused) as caught:
        call()
    return caught.value.reason


def test_what_inflates_beyond_the_limits_is_refused_while_it_inflates(tmp_path):
    bomb = write(tmp_path / "bomb.gz", gzip.compress(b"0" * 30_000_000))
    assert refused(lambda: fingerprint(bomb)) == "archive_limit"
    small = Limits(inflated_bytes=1000)
    assert refused(lambda: fingerprint(write(tmp_path / "s.gz", gzip.compress(b"0" * 5000)), small)) == "archive_limit"


def test_cut_damaged_and_twice_compressed_files_are_told_apart(tmp_path):
    packed = gzip.compress(bytes(range(256)) * 100)
    assert refused(lambda: fingerprint(write(tmp_path / "cut.gz", packed[:-20]))) == "truncated"
    damaged = packed[:60] + bytes([packed[60] ^ 255]) + packed[61:]
    assert refused(lambda: fingerprint(write(tmp_path / "bad.gz", damaged))) == "archive_damaged"
    assert refused(lambda: fingerprint(write(tmp_path / "two.gz", gzip.compress(packed)))) == "archive_limit"


def test_utf16_needs_its_mark(tmp_path):
    with_mark = write(tmp_path / "a.csv", "a,b\n".encode("utf-16"))
    with open_inflated(with_mark) as stream:
        assert b"".join(utf8_blocks(stream, with_mark)) == b"a,b\n"
    bare = write(tmp_path / "b.csv", "a,b\n".encode("utf-16-le"))
    with open_inflated(bare) as stream:
        assert refused(lambda: list(utf8_blocks(stream, bare))) == "bad_encoding"
