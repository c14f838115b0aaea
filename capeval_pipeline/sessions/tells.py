"""Told lines: which of them are answers to record, which are there already, which are refused and why.

Nothing is changed here; what is accepted goes into the journal as one record.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capeval_pipeline.sessions.ledger import Ledger, Told
from capeval_pipeline.sessions.records import RejectedLine, RejectionCode, SessionConfig

RANGE_TOLERANCE = 1e-9
KEYS = ("ask_id", "model_id", "item_id", "generation_id", "score", "cost_usd", "status")
STATUSES = ("ok", "error")
ASK_ID = re.compile(r"a[0-9]{6,18}")
"""What `ask_id_of` may give. Bounded, since Python refuses to read a number of thousands of digits."""


@dataclass
class SortedLines:
    """answers : (ask, score or None for an error, cost or None) to record, in order."""

    answers: list[tuple[int, float | None, float | None]] = field(default_factory=list)
    n_already: int = 0
    rejected: list[RejectedLine] = field(default_factory=list)


class _Refused(Exception):
    def __init__(self, code: RejectionCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def ask_id_of(number: int) -> str:
    """Name of an ask: a000001 is the first."""
    return f"a{number + 1:06d}"


class LineSorter:
    """Judges lines against what was asked and told so far, and against the lines before them."""

    def __init__(self, config: SessionConfig, ledger: Ledger, items: Mapping[str, int]) -> None:
        self._config = config
        self._ledger = ledger
        self._items = items
        self._arms = {arm: place for place, arm in enumerate(config.arms)}
        self._new: dict[int, Told] = {}

    def sort(self, lines: Iterable[Mapping[str, Any] | str | bytes]) -> SortedLines:
        """Judge lines in order; empty ones are passed over."""
        found = SortedLines()
        for number, line in enumerate(lines, start=1):
            ask_id = None
            try:
                content = _parsed(line)
                if content is None:
                    continue
                given = content.get("ask_id")
                ask_id = given if isinstance(given, str) else None
                self._judge(content, found)
            except _Refused as refused:
                found.rejected.append(RejectedLine(number, ask_id, refused.code, str(refused)))
        return found

    def _judge(self, content: Mapping[str, Any], found: SortedLines) -> None:
        unknown = sorted(set(content) - set(KEYS))
        if unknown:
            raise _Refused("bad_line", f"unknown key {unknown[0]!r}; expected {', '.join(KEYS)}")
        status = content.get("status", "ok")
        if status not in STATUSES:
            raise _Refused("bad_line", f"status is {_shown(status)}; expected ok or error")
        number = self._ask_of(content)
        score = None if status == "error" else self._score(content.get("score"))
        if status == "error" and content.get("score") is not None:
            raise _Refused("bad_line", "an error with a score; expected score null, or status ok")
        cost = _cost(content.get("cost_usd"))
        before = self._ledger.told(number) or self._new.get(number)
        if before is not None:
            if before.score != score:
                raise _Refused(
                    "conflict",
                    f"{ask_id_of(number)} was answered before with {_outcome(before.score)}, now with "
                    f"{_outcome(score)}; the first answer stays",
                )
            found.n_already += 1
            return
        self._new[number] = Told(score)
        found.answers.append((number, score, cost))

    def _ask_of(self, content: Mapping[str, Any]) -> int:
        if "ask_id" in content:
            return self._numbered(content)
        missing = [key for key in ("model_id", "item_id") if not isinstance(content.get(key), str)]
        if missing:
            raise _Refused("bad_line", f"no {missing[0]}; expected ask_id, or model_id and item_id")
        arm, item = self._arms.get(content["model_id"]), self._items.get(content["item_id"])
        number = None if arm is None or item is None else self._ledger.last_ask_of(arm, item)
        if number is None:
            raise _Refused(
                "unknown_ask",
                f"model {_shown(content['model_id'])} was never asked item {_shown(content['item_id'])}; expected a "
                "call that `ask` handed out",
            )
        return number

    def _numbered(self, content: Mapping[str, Any]) -> int:
        given = content["ask_id"]
        if not isinstance(given, str):
            raise _Refused("bad_line", f"ask_id is {_shown(given)}; expected text such as 'a000001'")
        number = int(given[1:]) - 1 if ASK_ID.fullmatch(given) else -1
        if not 0 <= number < len(self._ledger.asked) or ask_id_of(number) != given:
            raise _Refused("unknown_ask", f"{_shown(given)} was never handed out in this session")
        arm, item = self._ledger.asked[number]
        for key, place, names in (("model_id", arm, self._arms), ("item_id", item, self._items)):
            if key in content and names.get(content[key]) != place:
                raise _Refused("unknown_ask", f"{given} asked for another {key} than {_shown(content[key])}")
        return number

    def _score(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Refused("not_a_number", f"score is {_shown(value)}; expected a number, or status error with null")
        try:
            score = float(value)
        except OverflowError:
            score = math.inf
        if not math.isfinite(score):
            raise _Refused("not_a_number", f"score is {_shown(value)}; expected a finite number")
        low, high = self._config.score_low, self._config.score_high
        slack = RANGE_TOLERANCE * (high - low)
        if not low - slack <= score <= high + slack:
            raise _Refused("out_of_range", f"score is {score:g}; expected {low:g} to {high:g}, as declared")
        return score


def _parsed(line: Mapping[str, Any] | str | bytes) -> Mapping[str, Any] | None:
    """The line's object; None for an empty line."""
    if isinstance(line, Mapping):
        return line
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise _Refused("bad_line", f"byte {error.start + 1} is no UTF-8; expected a JSON object") from None
    text = text.removeprefix("\ufeff").strip()
    if not text:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _Refused("bad_line", f"{_shown(text)} is no JSON; expected one object a line") from None
    if not isinstance(content, dict):
        raise _Refused("bad_line", f"{_shown(content)} is no object; expected one object a line")
    return content


def _cost(value: Any) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # an int may lie beyond all floats
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise _Refused("bad_line", f"cost_usd is {_shown(value)}; expected dollars from 0, or null")
    return float(value)


def _outcome(score: float | None) -> str:
    return "an error" if score is None else f"score {score:g}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
