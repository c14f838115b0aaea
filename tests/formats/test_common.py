"""Opening, limits, JSON and hashes."""

import gzip
import json

import pyarrow as pa
import pytest

from capeval_pipeline.formats import common
from capeval_pipeline.formats.common import FileRefused, JsonFault
from capeval_pipeline.formats.protocol import Limits
from tests.formats.reading import write


def lines_of(*blocks: bytes, limit: int = 100) -> list[tuple[int, bytes | None]]:
    return list(common.numbered_lines(iter(blocks), limit))


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
    assert common.fingerprint(plain) == common.fingerprint(packed) == common.fingerprint(zstd)


def refused(call) -> str:
    with pytest.raises(FileRefused) as caught:
        call()
    return caught.value.reason


def test_what_inflates_beyond_the_limits_is_refused_while_it_inflates(tmp_path):
    bomb = write(tmp_path / "bomb.gz", gzip.compress(b"0" * 30_000_000))
    assert refused(lambda: common.fingerprint(bomb)) == "archive_limit"
    small = Limits(inflated_bytes=1000)
    assert (
        refused(lambda: common.fingerprint(write(tmp_path / "s.gz", gzip.compress(b"0" * 5000)), small))
        == "archive_limit"
    )


def test_cut_damaged_and_twice_compressed_files_are_told_apart(tmp_path):
    packed = gzip.compress(bytes(range(256)) * 100)
    assert refused(lambda: common.fingerprint(write(tmp_path / "cut.gz", packed[:-20]))) == "truncated"
    damaged = packed[:60] + bytes([packed[60] ^ 255]) + packed[61:]
    assert refused(lambda: common.fingerprint(write(tmp_path / "bad.gz", damaged))) == "archive_damaged"
    assert refused(lambda: common.fingerprint(write(tmp_path / "two.gz", gzip.compress(packed)))) == "archive_limit"


def test_utf16_needs_its_mark(tmp_path):
    with_mark = write(tmp_path / "a.csv", "a,b\n".encode("utf-16"))
    with common.open_inflated(with_mark) as stream:
        assert b"".join(common.utf8_blocks(stream, with_mark)) == b"a,b\n"
    bare = write(tmp_path / "b.csv", "a,b\n".encode("utf-16-le"))
    with common.open_inflated(bare) as stream:
        assert refused(lambda: list(common.utf8_blocks(stream, bare))) == "bad_encoding"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "bad_json"),
        ('{"a": ', "bad_json"),
        ("[" * 101 + "]" * 101, "nesting_too_deep"),
        ("[" * 100_000, "nesting_too_deep"),
        ("1" * 5000, "bad_json"),
    ],
)
def test_json_that_cannot_be_used_has_a_reason(text, reason):
    with pytest.raises(JsonFault) as caught:
        common.parse_json(text)
    assert caught.value.reason == reason


def test_brackets_inside_texts_are_no_depth():
    assert common.parse_json(json.dumps({"a": "[" * 500})) == {"a": "[" * 500}


def test_a_hash_looks_through_line_ends_blanks_and_unicode_forms():
    assert common.text_hash("Caf\u00e9 \r\nnow\n") == common.text_hash("Cafe\u0301\nnow")
    assert common.text_hash("a b") != common.text_hash("a  b")
    assert common.text_hash(" \n ") is None


def test_a_document_is_known_without_its_number():
    first = common.document_hash({"idx": 0, "question": "q", "doc_id": 4})
    assert first == common.document_hash({"question": "q", "idx": 9})
    assert first != common.document_hash({"question": "r"})
    assert common.document_hash({}) is None


def test_messages_are_one_line_of_at_most_300_characters():
    told = common.message("a\nb.csv", "line 2", "x" * 500, "y", "z")
    assert len(told) == 300
    assert "\n" not in told


def test_a_lost_record_is_a_bug_and_raises():
    common.check_counts("a.csv", n_read=3, n_kept=1, n_rejected=1, n_duplicate=1)
    with pytest.raises(AssertionError, match="3 records read"):
        common.check_counts("a.csv", n_read=3, n_kept=1, n_rejected=1, n_duplicate=0)
