"""How a count is told: the one place that knows "1 item" from "2 items", for every layer."""

import math


def counted(n: float | None, noun: str) -> str:
    """A number with its noun: "1 item", "2,000 items"; an unknown count is a dash."""
    if n is None or (isinstance(n, float) and math.isnan(n)):
        return f"– {noun}s"
    whole = round(n)
    return f"{whole:,} {noun}" if whole == 1 else f"{whole:,} {noun}s"
