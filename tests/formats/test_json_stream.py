"""Documents read piece by piece say what they say as a whole."""

import gzip
import json
import math
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import json_stream, json_text, opening
from capeval_pipeline.formats.json_stream import Piece, json_pieces
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import write


def pieces(path, *array: str, limits: Limits | None = None, block: int = 7) -> list[Piece]:
    """All pieces, with blocks so small that every value is cut by one."""
    with mock.patch.object(json_stream, "BLOCK_BYTES", block), mock.patch.object(opening, "BLOCK_BYTES", block), \
            mock.patch.object(opening._Counted.read, "__defaults__", (block,)):  # fmt: skip
        return list(json_pieces(path, limits or Limits(), array))


def refused(path, *array: str, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        pieces(path, *array, **options)
    return caught.value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    before=VALUES, elements=st.lists(VALUES, max_size=5), after=VALUES,
    indent=st.none() | st.integers(0, 2), block=st.integers(1, 40), is_ascii=st.booleans(),
)  # fmt: skip
def test_pieces_are_those_of_the_whole(tmp_path_factory, before, elements, after, indent, block, is_ascii):
    whole = {"before": before, "inner": {"x": before, "list": elements}, "after": after}
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
    path = write(tmp_path_factory.mktemp("doc") / "d.json", text.encode("utf-8", "replace"))
    found = pieces(path, "inner", "list", block=block)
    whole = json.loads(path.read_text())
    assert [piece.value for piece in found if piece.is_element] == whole["inner"]["list"]
    assert {piece.keys: piece.value for piece in found if not piece.is_element} == {
        ("before",): whole["before"], ("inner", "x"): whole["inner"]["x"], ("after",): whole["after"],
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(elements=st.lists(VALUES, min_size=1, max_size=4), share=st.floats(0.01, 0.99), block=st.integers(1, 40))
def test_a_cut_document_is_truncated_wherever_it_is_cut(tmp_path_factory, elements, share, block):
    text = json.dumps({"list": elements})
    path = write(tmp_path_factory.mktemp("doc") / "d.json", text[: max(1, int(len(text) * share))])
    assert refused(path, "list", block=block).reason == "truncated"


def test_an_array_may_be_the_document(tmp_path):
    path = write(tmp_path / "d.json", b"\xef\xbb\xbf [1, [2], NaN]\n")
    found = pieces(path)
    assert [piece.value for piece in found[:2]] == [1, [2]]
    assert math.isnan(found[2].value)
    assert pieces(write(tmp_path / "e.json", "[]")) == []


def test_what_is_no_array_is_one_piece(tmp_path):
    path = write(tmp_path / "d.json", '{"list": {"a": [1]}, "more": 12345678901}')
    assert pieces(path, "list") == [Piece(("list",), {"a": [1]}), Piece(("more",), 12345678901)]
    assert pieces(write(tmp_path / "e.json", "7"), "list") == [Piece((), 7)]
    assert pieces(write(tmp_path / "f.json", "{}"), "list") == []


def test_a_packed_document_is_read_like_the_plain_one(tmp_path):
    path = write(tmp_path / "d.json.gz", gzip.compress(b'{"list": [1, 2]}'))
    assert [piece.value for piece in pieces(path, "list")] == [1, 2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"list": [1 2], "rest": "' + b"x" * 200 + b'"}', "bad_json"),
        (b'{"list": [1,]}' + b" " * 50, "bad_json"),
        (b'{"list": [1], 7: 1}', "bad_json"),
        (b'{"list" [1], "rest": 1}', "bad_json"),
        (b'{"list": [1]} {}', "bad_json"),
        (b'{"list": [1], "list": [2]}', "bad_json"),
        (b'{"list": [{"a": 1, "a": 2}]}', "bad_json"),
        (b'{"list": [' + b"9" * 5000 + b"]}", "bad_json"),
        (b'{"list": ["\xe4bc", 1, 2, 3, 4]}', "bad_encoding"),
        (b'{"list": [' + b"[" * 99 + b"]" * 99 + b"]}", "nesting_too_deep"),
        (b'{"list": [' + b"[" * 9999 + b"]" * 9999 + b"]}", "nesting_too_deep"),
        (b'{"list": [1, 2, 3', "truncated"),
        (b'{"list": [1, 2, 3]', "truncated"),
        (b'{"list": [1, "ab', "truncated"),
        (b'{"list": ', "truncated"),
        (b"", "truncated"),
    ],
)
@pytest.mark.parametrize("block", [3, 1000])
def test_a_broken_document_is_refused(tmp_path, content, reason, block):
    assert refused(write(tmp_path / "d.json", content), "list", block=block).reason == reason


def test_a_depth_within_the_limit_is_read(tmp_path):
    path = write(tmp_path / "d.json", '{"list": [' + "[" * 98 + "]" * 98 + "]}")
    assert len(pieces(path, "list")) == 1


def test_a_document_beyond_the_limit_is_refused(tmp_path):
    path = write(tmp_path / "d.json", json.dumps({"list": ["x" * 50] * 50}))
    fault = refused(path, "list", limits=Limits(document_bytes=1000))
    assert (fault.reason, "`limits.document_bytes`" in str(fault)) == ("file_too_large", True)


def test_the_place_of_a_fault_counts_from_the_beginning_of_the_file(tmp_path):
    text = '{"list": [1, 2, 3, nul, 5, 6, 7, 8, 9, 10, 11, 12, 13]}'
    fault = refused(write(tmp_path / "d.json", text), "list", block=1000)
    assert f"at character {text.index('nul') + 1}" in str(fault)
    assert str(refused(tmp_path / "d.json", "list", block=5)) == str(fault)


def plain_depth(text: str) -> int:
    """Deepest nesting, character by character."""
    depth = deepest = 0
    is_inside = is_escaped = False
    for character in text:
        if is_inside:
            is_inside = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_inside = True
        else:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    return deepest


@settings(max_examples=100, deadline=None)
@given(value=VALUES, share=st.floats(0, 1), limit=st.integers(0, 5))
def test_depth_is_that_of_the_plain_count_also_where_the_text_is_cut(value, share, limit):
    text = json.dumps(value)
    text = text[: round(len(text) * share)]
    assert json_text._is_deeper(text, limit) == (plain_depth(text) > limit)
