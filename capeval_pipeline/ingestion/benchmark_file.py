"""benchmark.yml: what a person declares about the files beside and below it, checked key by key."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval_pipeline.formats.refusals import FileRefused, one_line, refusal, shown
from capeval_pipeline.formats.safe_yaml import read_yaml
from capeval_pipeline.stage_settings import STAGE_SETTINGS

FILE_NAME = "benchmark.yml"
STAGE_BLOCKS = ("derive", "capabilities", "identification", "frontier")
CHOICES = {
    "error_policy": ("ignore", "wrong"),
    "on_conflict": ("reject", "newest", "generations"),
    "zero_cost": ("unknown", "real"),
}
TEXTS = ("name", "version", "metric", "model")
FLAGS = ("higher_is_better", "has_true_generations")
FILES = ("instances", "mapping", "prices")
KNOWN_KEYS = (*TEXTS, "score_range", *FLAGS, *CHOICES, *FILES, "models", *STAGE_BLOCKS)
PRICE_KEYS = ("input", "output", "cache_read", "cache_write", "from", "to")
NAME_CHARACTERS = 200


@dataclass(frozen=True)
class BenchmarkFile:
    """Declarations of one benchmark.yml; None is not declared. `prices` are USD per million tokens by model."""

    path: Path | None = None
    name: str | None = None
    version: str | None = None
    metric: str | None = None
    model: str | None = None
    score_range: tuple[float, float] | None = None
    higher_is_better: bool | None = None
    has_true_generations: bool | None = None
    error_policy: str | None = None
    on_conflict: str | None = None
    zero_cost: str | None = None
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    stage_blocks: Mapping[str, Any] = field(default_factory=dict)
    instances: Path | None = None
    mapping: Path | None = None
    files: tuple[Path, ...] = ()
    """benchmark.yml itself and the files it names: companions of every unit it governs."""

    @property
    def canonical_names(self) -> dict[str, str]:
        """Canonical model by raw name."""
        return {raw: canonical for canonical, names in self.models.items() for raw in (canonical, *names)}


NOTHING_DECLARED = BenchmarkFile()


def load_benchmark_file(path: Path) -> BenchmarkFile:
    """Read and check a benchmark.yml. Raises FileRefused config_invalid with the key, and the nearest known one."""
    content = read_yaml(path, "config_invalid")
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise _invalid(path, f"holds {shown(content)}", "keys and values")
    for key in content:
        if key not in KNOWN_KEYS:
            near = get_close_matches(str(key), KNOWN_KEYS, 1, 0.5)
            advice = f"Did you mean {near[0]}?" if near else ""
            expected = "a known key" if near else f"one of {', '.join(KNOWN_KEYS)}"
            raise _invalid(path, "unknown key", expected, advice, key)
    declared: dict[str, Any] = {}
    for key in TEXTS:
        if content.get(key) is not None:
            declared[key] = _text(path, key, content[key])
    for key in FLAGS:
        if content.get(key) is not None:
            if not isinstance(content[key], bool):
                raise _invalid(path, f"is {shown(content[key])}", "true or false", key=key)
            declared[key] = content[key]
    for key, words in CHOICES.items():
        if content.get(key) is not None:
            if content[key] not in words:
                raise _invalid(path, f"is {shown(content[key])}", f"one of {', '.join(words)}", key=key)
            declared[key] = content[key]
    if content.get("score_range") is not None:
        declared["score_range"] = _range(path, content["score_range"])
    named = {key: _beside(path, key, content[key]) for key in FILES if content.get(key) is not None}
    prices = named.get("prices")
    return BenchmarkFile(
        path=path,
        **declared,
        models=_models(path, content.get("models")),
        prices={} if prices is None else load_prices(prices),
        stage_blocks=_stage_blocks(path, content),
        instances=named.get("instances"),
        mapping=named.get("mapping"),
        files=(path, *named.values()),
    )


def _invalid(path: Path, found: str, expected: str, advice: str = "", key: object = None) -> FileRefused:
    where = "file" if key is None else f"key {one_line(str(key), 60)}"
    return refusal(path, "config_invalid", found, expected, advice, where=where)


def _text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, bool | dict | list):
        raise _invalid(path, f"is {shown(value)}", "a text", key=key)
    if isinstance(value, int) and value.bit_length() > 1_000:
        raise _invalid(path, f"is {shown(value)}", "a text", key=key)
    text = str(value).strip()
    if not text or not text.isprintable() or len(text) > NAME_CHARACTERS:
        raise _invalid(path, f"is {shown(text)}", f"printable text up to {NAME_CHARACTERS} characters", key=key)
    return text


def _range(path: Path, value: Any) -> tuple[float, float]:
    """Lowest and highest score; null leaves a side open."""
    is_pair = isinstance(value, list) and len(value) == 2
    is_numeric = is_pair and all(
        side is None
        or (isinstance(side, float) and not math.isnan(side))
        or (isinstance(side, int) and not isinstance(side, bool) and side.bit_length() < 1_000)
        for side in value
    )
    low, high = (value[0], value[1]) if is_numeric else (0, 0)
    bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    if not is_numeric or bounds[0] >= bounds[1]:
        raise _invalid(path, f"is {shown(value)}", "[low, high] with low < high", key="score_range")
    return bounds


def _beside(path: Path, key: str, value: Any) -> Path:
    """A file that benchmark.yml names, which must lie in its folder or below."""
    folder = path.parent
    if not isinstance(value, str):
        raise _invalid(path, f"is {shown(value)}", "the name of a file", key=key)
    target = folder / value
    try:
        target.resolve().relative_to(folder.resolve())
        is_file = target.is_file()
    except (ValueError, OSError, RuntimeError) as error:
        raise _invalid(path, f"is {shown(value)}", "a file in this folder or below", key=key) from error
    if not is_file:
        raise _invalid(path, f"names no file: {shown(value)}", "a file in this folder", key=key)
    return target


def _is_name(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return is_number or (isinstance(value, str) and bool(value.strip()))


def _models(path: Path, value: Any) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    is_good = isinstance(value, dict) and all(
        isinstance(names, list) and all(_is_name(name) for name in (canonical, *names))
        for canonical, names in value.items()
    )
    if not is_good:
        raise _invalid(path, f"is {shown(value)}", "canonical name: [raw names]", key="models")
    owner: dict[str, str] = {}
    for canonical, names in value.items():
        for raw in names:
            if owner.setdefault(str(raw), str(canonical)) != str(canonical):
                raise _invalid(path, f"gives {shown(raw)} to two models", "each raw name once", key="models")
    return {str(canonical): tuple(str(raw) for raw in names) for canonical, names in value.items()}


def _stage_blocks(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    blocks = {stage: content[stage] for stage in STAGE_BLOCKS if content.get(stage) is not None}
    for stage, block in blocks.items():
        if not isinstance(block, dict):
            raise _invalid(path, f"is {shown(block)}", "fields of the stage", key=stage)
        settings = STAGE_SETTINGS.get(stage)
        if settings is None:
            continue
        try:
            settings.model_validate(block)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            near = get_close_matches(name, list(settings.model_fields), 1, 0.5)
            is_unknown = first["type"] == "extra_forbidden"
            advice = f"Did you mean {near[0]}?" if is_unknown and near else ""
            found = "unknown field" if is_unknown else f"is {shown(first.get('input'))}"
            expected = first["msg"].removeprefix("Input should be ")
            expected = f"one of {', '.join(settings.model_fields)}" if is_unknown else expected
            raise _invalid(path, found, expected, advice, key=f"{stage}.{name}") from error
    return blocks


def load_prices(path: Path) -> dict[str, Any]:
    """Price table: model → list of {input, output, cache_read, cache_write, from, to}, USD per million tokens.

    Raises FileRefused config_invalid.
    """
    content = read_yaml(path, "config_invalid") or {}
    if not isinstance(content, dict):
        raise _invalid(path, f"holds {shown(content)}", "model: {input, output}")
    prices: dict[str, Any] = {}
    for model, given in content.items():
        entries = given if isinstance(given, list) else [given]
        prices[str(model)] = [_price(path, model, entry) for entry in entries]
    return prices


def _price(path: Path, model: Any, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise _invalid(path, f"is {shown(entry)}", "{input, output}", key=model)
    names = {key.removesuffix("_token_price_per_million"): key for key in map(str, entry)}
    price: dict[str, Any] = {}
    for name, key in names.items():
        if name not in PRICE_KEYS:
            if key != name:
                continue
            near = get_close_matches(name, PRICE_KEYS, 1, 0.5)
            raise _invalid(
                path,
                f"unknown key {shown(name)}",
                f"one of {', '.join(PRICE_KEYS)}",
                f"Did you mean {near[0]}?" if near else "",
                key=model,
            )
        value = entry[key]
        if name in ("from", "to"):
            price |= _price_day(path, model, name, value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
            price[name] = float(value)
        elif value is not None:
            raise _invalid(path, f"{name} is {shown(value)}", "USD per million tokens, ≥ 0", key=model)
    if price.get("from", "") > price.get("to", "9999-12-31"):
        raise _invalid(path, f"from {price['from']} to {price['to']}", "a first and a last day in order", key=model)
    return price


def _price_day(path: Path, model: Any, name: str, value: Any) -> dict[str, str]:
    """First or last day of a price as YYYY-MM-DD; nothing for null."""
    if value is None:
        return {}
    text = value.isoformat()[:10] if isinstance(value, date) else str(value).strip()
    try:
        if date.fromisoformat(text).isoformat() == text:
            return {name: text}
    except ValueError:
        pass
    raise _invalid(path, f"{name} is {shown(value)}", "a day such as 2026-01-31", key=model)
