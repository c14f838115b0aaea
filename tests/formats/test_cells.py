"""How cells become keys, scores and numbers."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval_pipeline.formats import cells
from tests.formats.reading import text_array


@pytest.mark.parametrize(
    ("text", "code", "value"),
    [
        ("0.25", cells.OK, 0.25),
        (" 1 ", cells.OK, 1.0),
        ("1e-7", cells.OK, 1e-7),
        (".5", cells.OK, 0.5),
        ("True", cells.OK, 1.0),
        ("false", cells.OK, 0.0),
        ("N/A", cells.UNSCORED, math.nan),
        ("", cells.UNSCORED, math.nan),
        ("nan", cells.UNSCORED, math.nan),
        ("inf", cells.NOT_FINITE, math.nan),
        ("1e999", cells.NOT_FINITE, math.nan),
        ("1_0", cells.NOT_NUMERIC, math.nan),
        ("0,5", cells.NOT_NUMERIC, math.nan),
        ("maybe", cells.NOT_NUMERIC, math.nan),
        ("१", cells.NOT_NUMERIC, math.nan),
    ],
)
def test_text_scores_are_numbers_words_or_refused(text, code, value):
    found = cells.score_of_text(text)
    assert found[0] == code
    assert found[1] == value or (math.isnan(found[1]) and math.isnan(value))


def test_scores_outside_the_range_are_refused_and_never_clipped():
    scores = cells.as_scores(pa.array([1.7, -0.1, 0.5, None]), (0.0, 1.0))
    assert scores.codes.tolist() == [cells.OUT_OF_RANGE, cells.OUT_OF_RANGE, cells.OK, cells.UNSCORED]
    assert scores.values[2] == 0.5
    assert not any(math.isfinite(value) for value in scores.values[[0, 1, 3]])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, None, False]),
        pa.array([1, None, 0]),
        pa.array([Decimal("1"), None, Decimal("0")]),
        pa.array([1.0, math.nan, 0.0]),
        text_array("1", None, "0"),
        text_array("true", "", "no, it is 0"[-1]),
    ],
)
def test_every_type_of_column_gives_the_same_scores(column):
    scores = cells.as_scores(column, (0.0, 1.0))
    assert scores.codes.tolist() == [cells.OK, cells.UNSCORED, cells.OK]
    assert scores.values[[0, 2]].tolist() == [1.0, 0.0]


def test_columns_of_lists_hold_no_scores():
    scores = cells.as_scores(pa.array([[1.0], None]), (0.0, 1.0))
    assert scores.codes.tolist() == [cells.NOT_NUMERIC, cells.UNSCORED]


def test_keys_stay_as_written_and_whole_numbers_lose_their_point():
    assert cells.as_text(text_array("0042", "1E5", "NA", "", None)).to_pylist() == ["0042", "1E5", "NA", None, None]
    assert cells.as_text(pa.array([42.0, 2.5, math.nan])).to_pylist() == ["42", "2.5", None]
    assert cells.as_text(pa.array([2**63 - 1, 0])).to_pylist() == ["9223372036854775807", "0"]


def test_json_numbers_keep_every_digit():
    assert cells.json_cell(18446744073709551615) == "18446744073709551615"
    assert cells.json_cell(42.0) == "42"
    assert cells.json_cell(math.nan) is None
    assert cells.json_cell({"x": 1}) == '{"x": 1}'


def test_generation_numbers_are_whole_and_not_negative():
    numbers, bad = cells.as_generations(text_array("0", "3.0", "-1", "1.5", "x", None))
    assert bad.tolist() == [False, False, True, True, True, False]
    assert numbers[[0, 1, 5]].tolist() == [0, 3, 0]


def test_tokens_that_are_no_counts_are_unknown():
    assert cells.as_counts(text_array("5", "-1", "2.5", "many", "")).values.to_pylist() == [5, None, None, None, None]


@given(st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=20))
def test_any_text_column_has_a_verdict_for_every_cell(column):
    scores = cells.as_scores(pa.array(column, pa.string()), (0.0, 1.0))
    assert len(scores.codes) == len(column)
    assert all(
        math.isfinite(value) == (code == cells.OK) for code, value in zip(scores.codes, scores.values, strict=True)
    )
