"""How a column of cells becomes keys, scores, numbers: text typed by us, over the whole column, never by guessing.

All functions take an Arrow array of any type a file may have. Columns repeat their values, so what must be parsed is
parsed once a distinct value. Unknown is NULL; nothing is rounded, clipped or filled in.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FIRST_TIME, LAST_TIME = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Times outside of it no calendar has."""
MISSING_WORDS = frozenset({"", "-", "n/a", "na", "nan", "null", "none", "#n/a", "<na>"})
TRUE_WORDS = frozenset({"true"})
FALSE_WORDS = frozenset({"false"})
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
WHOLE = re.compile(r"([+-]?\d+)(\.0*)?", re.ASCII)

OK, UNSCORED, NOT_NUMERIC, NOT_FINITE, OUT_OF_RANGE = 0, 1, 2, 3, 4
REASON = {NOT_NUMERIC: "score_not_numeric", NOT_FINITE: "score_not_finite", OUT_OF_RANGE: "score_out_of_range"}


@dataclass(frozen=True)
class Scores:
    """Verdict codes (OK … OUT_OF_RANGE) and values (NaN unless OK), both of the length of the column."""

    codes: np.ndarray
    values: np.ndarray


def json_cell(value: Any) -> str | None:
    """A JSON value as the text of a cell: numbers exactly, whole ones without a point; null and NaN are no text."""
    if isinstance(value, str):
        return value
    if value is None:
        return None
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 2**53 else repr(value)
    return _json_text(value)


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array without run-end or dictionary encoding."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # pyarrow keeps zero chunks chunked
            array = pa.nulls(0, array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def encoded(array: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """The array as codes into its distinct values; NULL stays NULL, a nested value is its JSON text."""
    if isinstance(array, pa.ChunkedArray):
        array = plain(array) if pa.types.is_nested(array.type) else array.combine_chunks()
    if pa.types.is_nested(array.type):
        array = pa.array([None if value is None else _json_text(value) for value in array.to_pylist()], pa.string())
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _json_text(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def mapped(array: pa.Array | pa.ChunkedArray, rule: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """`rule` applied to every distinct value; NULL stays NULL and is not shown to the rule."""
    codes = encoded(array)
    outcome = pa.array([None if value is None else rule(value) for value in codes.dictionary.to_pylist()], type_)
    return outcome.take(codes.indices)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds)


def value_type(array: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Type of the values, looking through a dictionary."""
    return array.type.value_type if pa.types.is_dictionary(array.type) else array.type


def as_keys(array: pa.Array | pa.ChunkedArray, *, is_model: bool = False) -> pa.DictionaryArray:
    """Column as keys: text as written, whole numbers without a point; NULL, NaN and the empty text are no key.

    is_model : names of models, whose outer blanks do not count: one of blanks only is no name.
    """

    def key(value: Any) -> str | None:
        text = json_cell(value) if isinstance(value, bool | int | float | str) else str(value)
        return None if is_model and text is not None and not text.strip() else text or None

    codes = encoded(array)
    if _are_keys(codes.dictionary):
        return pa.DictionaryArray.from_arrays(codes.indices.cast(pa.int32()), codes.dictionary)
    names = [None if value is None else key(value) for value in codes.dictionary.to_pylist()]
    position: dict[str, int] = {}
    # two values may give one key (42 and 42.0), so the codes are made again
    renumbered = [None if name is None else position.setdefault(name, len(position)) for name in names]
    indices = pa.array(renumbered, pa.int32()).take(codes.indices.cast(pa.int32()))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(position), pa.string()))


def _are_keys(values: pa.Array) -> bool:
    """Whether the distinct values of a column are different texts, none of them blank: they are keys as they are."""
    if not pa.types.is_string(values.type) or values.null_count:
        return False
    shortest = pc.min(pc.binary_length(pc.ascii_trim_whitespace(values))).as_py()
    return (shortest or 0) > 0 and len(pc.unique(values)) == len(values)


def as_text(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Column as text, the empty text as NULL."""
    return as_keys(array).dictionary_decode()


def score_of_text(text: str) -> tuple[int, float]:
    """Verdict code (range not looked at) and value of a score written as text."""
    word = text.strip()
    lower = word.lower()
    if lower in MISSING_WORDS:
        return UNSCORED, math.nan
    if NUMBER.fullmatch(word):
        value = float(word)
        return (OK, value) if math.isfinite(value) else (NOT_FINITE, math.nan)
    if lower in TRUE_WORDS:
        return OK, 1.0
    if lower in FALSE_WORDS:
        return OK, 0.0
    return (NOT_FINITE, math.nan) if INFINITE.fullmatch(word) else (NOT_NUMERIC, math.nan)


def as_scores(
    array: pa.Array | pa.ChunkedArray,
    score_range: tuple[float, float],
    rule: Callable[[str], tuple[int, float]] = score_of_text,
) -> Scores:
    """Scores of a column; values as given. NULL, NaN and words such as N/A are unscored.

    score_range : lowest and highest possible score; outside is OUT_OF_RANGE.
    rule : how text is read.
    """
    type_ = value_type(array)
    if _is_number(type_):
        numbers = plain(array)
        values = pc.cast(numbers, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        codes = np.full(len(values), OK, np.int8)
        codes[np.isnan(values)] = UNSCORED
        codes[np.isinf(values)] = NOT_FINITE
    elif _is_text(type_) or pa.types.is_null(type_):
        pairs = encoded(array.cast(pa.string()) if pa.types.is_null(type_) else array)
        table = [rule(text) if text is not None else (UNSCORED, math.nan) for text in pairs.dictionary.to_pylist()]
        table.append((UNSCORED, math.nan))
        index = pairs.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
        codes = np.array([code for code, _ in table], np.int8)[index]
        values = np.array([value for _, value in table], np.float64)[index]
    else:
        codes = np.full(len(array), NOT_NUMERIC, np.int8)
        codes[plain(array).is_null().to_numpy(zero_copy_only=False)] = UNSCORED
        values = np.full(len(array), np.nan)
    low, high = score_range
    codes[(codes == OK) & ((values < low) | (values > high))] = OUT_OF_RANGE
    return Scores(codes, np.where(codes == OK, values, np.nan))


def amount_of_text(text: str) -> tuple[int, float]:
    """Verdict code and value of an amount written as text; true and false, which are scores, are none."""
    is_flag = text.strip().lower() in TRUE_WORDS | FALSE_WORDS
    return (NOT_NUMERIC, math.nan) if is_flag else score_of_text(text)


@dataclass(frozen=True)
class Amounts:
    """Amounts of a column, and a mask of the cells that say something that is none; both of its length."""

    values: pa.Array
    is_unusable: np.ndarray


def as_numbers(array: pa.Array | pa.ChunkedArray) -> Amounts:
    """Column as float64 (costs, seconds); what is no finite number is NULL."""
    scores = as_scores(array, (-math.inf, math.inf), amount_of_text)
    return Amounts(pa.array(scores.values, pa.float64(), mask=scores.codes != OK), scores.codes > UNSCORED)


def as_counts(array: pa.Array | pa.ChunkedArray) -> Amounts:
    """Column as whole numbers ≥ 0 (tokens); anything else is NULL."""
    scores = as_scores(array, (-math.inf, math.inf), amount_of_text)
    values = scores.values
    good = np.isfinite(values) & (values >= 0) & (values < 2**53) & (values == np.floor(values))
    counts = pa.array(np.where(good, values, 0).astype(np.int64), pa.int64(), mask=~good)
    return Amounts(counts, (scores.codes != UNSCORED) & ~good)


def as_generations(array: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Generation numbers and a mask of the bad ones: not a whole number ≥ 0. An empty cell is generation 0."""
    codes = encoded(as_keys(array))

    def number(text: str) -> int:
        match = WHOLE.fullmatch(text.strip())
        value = int(match[1]) if match and len(match[1]) < 100 else -1
        return value if 0 <= value < 2**53 else -1

    table = np.array([*(number(text) for text in codes.dictionary.to_pylist()), 0], np.int64)
    numbers = table[codes.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)]
    return np.where(numbers < 0, 0, numbers), numbers < 0


def latest_time(array: pa.Array | pa.ChunkedArray) -> datetime | None:
    """Latest point in time of a column of ISO 8601 texts or timestamps, UTC where no zone is given; else None."""
    values = pc.unique(plain(array))
    try:
        values = values.to_pylist()
    except (ValueError, OverflowError):  # a timestamp outside of the years 1 to 9999
        return None
    times = [time for value in values if (time := as_time(value)) is not None]
    return max(times, default=None)


def as_times(array: pa.Array | pa.ChunkedArray) -> Amounts:
    """Column as points in time (UTC, microseconds); what is none is NULL."""
    type_ = pa.timestamp("us", "UTC")
    if pa.types.is_timestamp(value_type(array)):
        written = plain(array).cast(type_, safe=False)  # without a zone it is taken for UTC
        is_dated = pc.and_(pc.greater_equal(written, FIRST_TIME), pc.less_equal(written, LAST_TIME))
        times = pc.if_else(is_dated, written, pa.scalar(None, type_))
        return Amounts(times, pc.and_(written.is_valid(), times.is_null()).to_numpy(zero_copy_only=False))
    is_said = mapped(array, lambda value: str(value).strip().lower() not in MISSING_WORDS, pa.bool_()).fill_null(False)
    times = mapped(array, as_time, type_)
    return Amounts(times, pc.and_(is_said, times.is_null()).to_numpy(zero_copy_only=False))


def as_time(value: Any) -> datetime | None:
    """A point in time from ISO 8601 text, seconds since 1970 or a datetime; None if it is none of these."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
