"""Changes that leave a text a text of its kind: a value, a key, a cell or a line is another one.

Bytes changed at random seldom get past a parser of JSON; half of the inputs are changed here instead.
"""

import json
import random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, "", "x", "elm", "\ud800", 0, 1, -1, 0.5, 10**400, 1e308, float("nan"), float("inf"), True, [], [None], [[1]],
    {}, {"a": {"b": [1]}}, "1e999", "N/A", "2026-01-01", "a@b", "../x", "@", "tie", "model_a",
)  # fmt: skip
CELLS = (
    "", "x", "elm", "0", "1", "-1", "1.0", "0,5", "50%", "nan", "1e999", '"', '"a', "yes", "tie", "\r", "\x00", "=1",
)  # fmt: skip


def mutated(data: bytes, seed: int) -> bytes:
    """The text with one to three changes; bytes that are no UTF-8 stay as they are."""
    rng = random.Random(seed)
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.randint(1, 3)):
        text = _document(text, rng) or _line(text, rng)
    return text.encode("utf-8", "surrogateescape")


def _document(text: str, rng: random.Random) -> str | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(_changed(document, rng))


def _line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    what = rng.random()
    if what < 0.1:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif what < 0.2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif what < 0.25:
        del lines[at]
    else:
        lines[at] = _document(lines[at], rng) or _cell(lines[at], rng)
    return "\n".join(lines)


def _cell(line: str, rng: random.Random) -> str:
    separator = next((mark for mark in ",;\t" if mark in line), ": ")
    cells = line.split(separator)
    at = rng.randrange(len(cells))
    if rng.random() < 0.15:
        cells.insert(at, rng.choice(cells))
    else:
        cells[at] = rng.choice((*CELLS, *cells))
    return separator.join(cells)


def _changed(document: Any, rng: random.Random) -> Any:
    """The value with a change somewhere inside it, small parts as likely as large ones."""
    places = list(_places(document))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    what = rng.random()
    if what < 0.15:
        del holder[key]
    elif what < 0.3 and isinstance(holder, list):
        holder.insert(key, holder[rng.randrange(len(holder))])
    elif what < 0.4:
        other, name = rng.choice(places)
        if not _places_in(holder[key], other):  # a value must not hold itself
            holder[key] = json.loads(json.dumps(other[name])) if name in _keys(other) else None
    else:
        holder[key] = rng.choice(VALUES)
    return document


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(value: Any) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        yield value, key
        yield from _places(member)


def _places_in(value: Any, holder: Any) -> bool:
    return value is holder or any(member is holder for _, member in _members(value))


def _members(value: Any) -> Any:
    for holder, key in _places(value):
        yield key, holder[key]
