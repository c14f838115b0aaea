"""What single values of a JSON document mean: scores, amounts, counts, tokens, texts. Unknown is None, never 0."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from capeval_pipeline.formats import cells


def score_of_json(value: Any, rule: Callable[[str], tuple[int, float]] = cells.score_of_text) -> tuple[int, float]:
    """Verdict code (range not looked at) and value of a score as JSON has it; `rule` says how text is read."""
    if value is None:
        return cells.UNSCORED, math.nan
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            return cells.NOT_FINITE, math.nan
        if math.isnan(number):
            return cells.UNSCORED, math.nan
        return (cells.OK, number) if math.isfinite(number) else (cells.NOT_FINITE, math.nan)
    return rule(value) if isinstance(value, str) else (cells.NOT_NUMERIC, math.nan)


def amount(value: Any) -> float | None:
    """A cost or a duration; what is no finite number is unknown."""
    if isinstance(value, bool):
        return None
    code, number = score_of_json(value)
    return number if code == cells.OK else None


def count(value: Any) -> int | None:
    """A whole number ≥ 0; anything else is unknown."""
    number = amount(value)
    return int(number) if number is not None and 0 <= number < 2**53 and number == math.floor(number) else None


def tokens(value: Any, *, is_answered: bool) -> int | None:
    """A number of tokens; 0 beside an answer that is not empty was not counted, so it is unknown."""
    number = count(value)
    return None if number == 0 and is_answered else number


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; empty where something else stands in its place."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """A list; empty where something else stands in its place."""
    return value if isinstance(value, list) else []


def name_of(value: Any) -> str | None:
    """A name: text that is not blank; anything else is none."""
    return storable(value) if isinstance(value, str) and value.strip() else None


def storable(text: str) -> str:
    """Text as tables can hold it: halves of surrogate pairs, which are no characters, as \\uNNNN."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def with_choices(prompt: str, choices: list[Any]) -> str:
    """A question with the answers to choose from, one a line: what an item is known by."""
    return "\n".join([prompt, *(cells.json_cell(choice) or "" for choice in choices)])
