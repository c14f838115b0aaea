"""How numbers are written for people, the same in the report, in figures and on the command line.

Unknown (None or NaN) is a dash, never 0.
"""

import math
from collections.abc import Callable
from typing import Any

UNKNOWN = "–"
Writer = Callable[[Any], str]


def is_unknown(value: Any) -> bool:
    """True for None and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def score(value: Any) -> str:
    """A score or quality: three decimals, or significant digits outside ±10."""
    if is_unknown(value):
        return UNKNOWN
    return true_minus(f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}")


def count(value: Any) -> str:
    """A whole number with thousands marks; halves of a count do not show."""
    return UNKNOWN if is_unknown(value) else true_minus(f"{round(value):,}")


def percent(value: Any) -> str:
    """A share as percent, one decimal."""
    return UNKNOWN if is_unknown(value) else true_minus(f"{100 * value:.1f} %")


def covered(value: Any) -> str:
    """A share as percent, as `percent` writes it, but 100.0 % and 0.0 % only where it is all or nothing."""
    return percent(value) if is_unknown(value) or value in (0, 1) else percent(min(max(value, 0.001), 0.999))


def percent_value(value: Any) -> str:
    """A number that is already in percent, one decimal."""
    return UNKNOWN if is_unknown(value) else true_minus(f"{value:.1f} %")


def dollars(value: Any) -> str:
    """US dollars with three significant digits, without exponents."""
    if is_unknown(value):
        return UNKNOWN
    if value == 0:
        return "$0"
    digits = max(2, 2 - math.floor(math.log10(abs(value))))
    return true_minus(f"{'-' if value < 0 else ''}${abs(value):,.{min(digits, 12)}f}")


def seconds(value: Any) -> str:
    """Seconds with three significant digits."""
    return UNKNOWN if is_unknown(value) else f"{value:.3g} s"


def number(value: Any) -> str:
    """Any other number: three significant digits, no exponent up to a million."""
    if is_unknown(value):
        return UNKNOWN
    return true_minus(f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}")


def words(value: Any) -> str:
    """A text as it is; lists joined by commas; yes and no."""
    if is_unknown(value) or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(part) for part in value) or UNKNOWN
    return str(value)


def shortened(text: str, limit: int) -> str:
    """The text in at most `limit` characters; the middle goes, since names often differ at their ends."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 3 // 5
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def between(lower: Any, upper: Any, writer: Writer = score) -> str:
    """An interval as "a to b"; an open side is said in words."""
    if is_unknown(lower) and is_unknown(upper):
        return UNKNOWN
    if is_unknown(lower):
        return f"at most {writer(upper)}"
    if is_unknown(upper):
        return f"at least {writer(lower)}"
    low, high = writer(lower), writer(upper)
    return f"{low.removesuffix(' %') if high.endswith(' %') else low} to {high}"


def true_minus(text: str) -> str:
    """A written number with a true minus sign, and without one where it shows as zero."""
    if text.startswith("-"):
        return text[1:] if not any(digit in "123456789" for digit in text) else "−" + text[1:]
    return text


def errors_count(policy: str) -> str:
    """What an error counts as, in words: the policy behind every score that is shown."""
    return "an error counts as the worst score" if policy == "wrong" else "errors are left out of every mean"
