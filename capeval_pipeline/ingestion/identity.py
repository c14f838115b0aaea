"""Who is who: names of models, ids of items, and names or score vectors that look like one model under two names.

Only a declaration (`models:` in benchmark.yml) joins names; what merely looks alike is reported.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

HASH_DIGITS = 12
TEXT_DIGITS = 8
MIN_SHARED_ITEMS = 10
BLOCK_MODELS = 512
MAX_PAIR_PRODUCTS = 4e10
"""Models² × items beyond which only identical whole rows are looked for: 4e10 products take about ten seconds."""


def spelled(name: str) -> str:
    """A model's name, NFC, blanks trimmed and collapsed."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def identifying_settings(settings: Mapping[str, Any]) -> list[str]:
    """The settings that change a model's weights, as they stand in its id: ["load_in_4bit", "revision=ab12"]."""
    found = []
    for name in ("load_in_4bit", "load_in_8bit"):
        if str(settings.get(name, "")).lower() in ("true", "1", "yes"):
            found.append(name)
    for name in ("gptq", "autogptq"):
        if str(settings.get(name, "false")).lower() not in ("false", "none", "0", ""):
            found.append("gptq")
            break
    revision = settings.get("revision")
    if revision not in (None, "", "main", "None"):
        found.append(f"revision={revision}")
    for name in ("peft", "delta"):
        if settings.get(name) not in (None, "", "None"):
            found.append(f"{name}={settings[name]}")
    return found


def model_id_of(raw_name: str, settings: Mapping[str, Any], canonical_names: Mapping[str, str]) -> str:
    """Id of a model: the declared canonical name, else its spelled name with the settings that change its weights."""
    name = spelled(raw_name)
    declared = canonical_names.get(raw_name, canonical_names.get(name))
    if declared is not None:
        return spelled(declared)
    marks = identifying_settings(settings)
    return f"{name}[{','.join(marks)}]" if marks else name


def _folded(name: str) -> str:
    return re.sub(r"[/_\-\s]+", "", name.casefold())


def look_alikes(model_ids: Iterable[str]) -> dict[str, str]:
    """Model → the first model (in text order) whose name differs only in case, / __ - _ blanks or the last path part.

    A name without a path is compared with the last part of the others; two names with different paths are two models.
    """
    names = sorted(set(model_ids))
    whole: dict[str, list[str]] = defaultdict(list)
    last: dict[str, list[str]] = defaultdict(list)
    for name in names:
        whole[_folded(name)].append(name)
        part = re.split(r"/|__", name)[-1]
        last[_folded(part)].append(name)
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    def join(first: str, second: str) -> None:
        low, high = sorted((root(first), root(second)))
        parent[high] = low

    for group in whole.values():
        for name in group[1:]:
            join(group[0], name)
    for group in last.values():
        bare = [name for name in group if not re.search(r"/|__", name)]
        for name in bare:
            for other in group:
                join(name, other)
    return {name: root(name) for name in names if root(name) != name}


def same_vectors(scores: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of rows with the same numbers on at least MIN_SHARED_ITEMS shared columns that are not all equal.

    scores : (n_models, n_items), NaN where a model has no score.
    """
    n_models, n_items = scores.shape
    if n_models < 2 or n_items < MIN_SHARED_ITEMS:
        return []
    has = np.isfinite(scores)
    if n_models**2 * n_items > MAX_PAIR_PRODUCTS:
        candidates = _identical_rows(scores)
    else:
        candidates = _equal_on_shared(np.where(has, scores, 0.0), has)
    found = []
    for first, second in candidates:
        shared = has[first] & has[second]
        a, b = scores[first, shared], scores[second, shared]
        if len(a) >= MIN_SHARED_ITEMS and (a == b).all() and (a != a[0]).any():
            found.append((first, second))
    return found


def _identical_rows(scores: np.ndarray) -> list[tuple[int, int]]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for index, row in enumerate(scores):
        groups[row.tobytes()].append(index)
    return [(group[0], other) for group in groups.values() for other in group[1:]]


def _equal_on_shared(values: np.ndarray, has: np.ndarray) -> list[tuple[int, int]]:
    """Pairs whose squared distance over shared columns is 0 up to rounding; one model with its first twin only."""
    squares, flags = values**2, has.astype(np.float64)
    scale = max(1.0, float(squares.max(initial=0.0)))
    found: list[tuple[int, int]] = []
    for start in range(0, len(values), BLOCK_MODELS):
        block = slice(start, start + BLOCK_MODELS)
        distance = squares[block] @ flags.T + flags[block] @ squares.T - 2 * values[block] @ values.T
        shared = flags[block] @ flags.T
        close = (np.abs(distance) <= 1e-9 * scale * np.maximum(shared, 1)) & (shared >= MIN_SHARED_ITEMS)
        rows, columns = np.nonzero(close)
        # each model is reported once, with the first model it equals: 4,000 equal models are no 8 million pairs
        seen: set[int] = set()
        for row, column in zip(rows + start, columns, strict=True):
            if column < row and row not in seen:
                seen.add(int(row))
                found.append((int(column), int(row)))
    return found
