"""`every_eval_ever`: the instance-level lines (`*_samples.jsonl`) of the Every Eval Ever schema, versions 0.2 and 0.3.

Its converters write 0.0 where the source had no metric, so a 0 without `is_correct` is no verdict. Sample ids are
those of the source's numbering; an item whose text is given is known by that text. A file with lines of several
evaluations is several benchmarks.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.json_values import (
    amount,
    count,
    listing,
    mapping,
    name_of,
    score_of_json,
    tokens,
    with_choices,
)
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, refusal, shown
from capeval_pipeline.formats.rows import LINE, RowCollector, as_key, json_lines
from capeval_pipeline.formats.tabular import Fault

KEYS = frozenset({"schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "input", "evaluation"})
LAST_VERSION = (0, 3)
METRIC = "score"
_VERSION = re.compile(r'"schema_version"\s*:\s*"(instance_level_eval_)?(\d+)\.(\d+)')


def matches(path: Path) -> float:
    """1 for lines with the keys of the schema, else 0."""
    if path.is_dir():
        return 0.0
    line = head_of(path).text.lstrip().partition("\n")[0]
    has_keys = all(f'"{key}"' in line for key in ("schema_version", "model_id", "sample_id", "evaluation"))
    return 1.0 if line[:1] == "{" and has_keys else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one file of lines. Raises FileRefused: version_too_new, metric_unknown, truncated …"""
    start = head_of(path).text
    named = _VERSION.search(start)
    if named is not None and (version := (int(named[2]), int(named[3]))) > LAST_VERSION:
        found, expected = f"schema version {version[0]}.{version[1]}", f"at most {LAST_VERSION[0]}.{LAST_VERSION[1]}"
        raise refusal(path, "version_too_new", found, expected, "Write it with an older version.")
    if options.metric not in (None, METRIC, "is_correct"):
        raise refusal(path, "metric_unknown", f"no metric {shown(options.metric)}", f"{METRIC} or is_correct")
    names = {
        name_of(record.get("evaluation_name")): None
        for _, record in json_lines(path, options.limits)
        if isinstance(record, dict)
    }
    names.pop(None, None)
    facts = FileFacts(
        format="every_eval_ever",
        benchmark=next(iter(names)) if len(names) == 1 else None,
        tool_version=None if named is None else f"{named[2]}.{named[3]}",
        main_metric=options.metric or METRIC,
    )
    return Reading(facts, _Lines(path, options, has_several=len(names) > 1).chunks())


def _prompt_of(record: Mapping[str, Any]) -> str | None:
    """Question of a line with its choices; None where only an id is given."""
    asked = mapping(record.get("input"))
    text = asked.get("raw")
    if isinstance(text, list):
        text = "\n".join(f"{mapping(turn).get('role')}: {mapping(turn).get('content')}" for turn in text)
    if not isinstance(text, str) or not text.strip():
        return None
    return with_choices(text, listing(asked.get("choices")))


class _Lines:
    """Turns the lines of one file into chunks."""

    def __init__(self, path: Path, options: ReadOptions, *, has_several: bool) -> None:
        self.path, self.options, self.has_several = path, options, has_several
        self.metric = options.metric or METRIC
        self.rows = RowCollector(path, options, LINE)

    def chunks(self) -> Iterator[Chunk]:
        try:
            for place, record in json_lines(self.path, self.options.limits):
                if isinstance(record, Fault):
                    self.rows.refuse_fault(record)
                else:
                    self._record(place, record)
                if self.rows.is_full:
                    yield self.rows.chunk()
            yield self.rows.chunk()
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.rows.n_records)
            raise

    def _record(self, place: int, record: dict[str, Any]) -> None:
        model = self.options.model or name_of(record.get("model_id"))
        prompt, sample = _prompt_of(record), as_key(record.get("sample_id"))
        if model is None or (prompt is None and sample is None):
            found = "model_id is empty" if model is None else "neither input.raw nor sample_id"
            self.rows.refuse(place, "key_missing", found, "a model and an item")
            return
        content = text_hash(prompt) if prompt else None
        item = None if prompt else sample
        benchmark = name_of(record.get("evaluation_name")) if self.has_several else None
        self.rows.add_item(item, content, prompt, benchmark=benchmark)
        cell = {"item": item, "content_hash": content, "model": model, "generation_id": 0, "benchmark": benchmark}
        self._verdict(place, record, cell)
        self.rows.end_record()

    def _verdict(self, place: int, record: Mapping[str, Any], cell: dict[str, Any]) -> None:
        usage, said = mapping(record.get("token_usage")), mapping(record.get("evaluation"))
        is_answered = bool(mapping(record.get("output")).get("raw"))
        latency = amount(mapping(record.get("performance")).get("latency_ms"))
        columns = {
            "input_tokens": tokens(usage.get("input_tokens"), is_answered=is_answered),
            "output_tokens": tokens(usage.get("output_tokens"), is_answered=is_answered),
            "cache_read_tokens": count(usage.get("input_tokens_cache_read")),
            "cache_write_tokens": count(usage.get("input_tokens_cache_write")),
            "reasoning_tokens": count(usage.get("reasoning_tokens")),
            "latency_s": None if latency is None else latency / 1000,
        }
        if record.get("error"):
            self.rows.add_generation(place, status="error", metric=self.metric, **cell, **columns)
            return
        score, correct = said.get("score"), said.get("is_correct")
        if correct is None and score_of_json(score)[1] == 0:
            score = None  # a converter's filler
        values = {METRIC: score, "is_correct": correct}
        low, high = self.rows.score_range
        for name, value in values.items():
            code, number = score_of_json(value)
            is_main = name == self.metric
            is_usable = code == cells.OK and (not is_main or low <= number <= high)
            if is_main:
                self.rows.add_score(place, value, code, number, metric=name, **cell, **columns)
            self.rows.add_metric(place, **cell, metric=name, value=number if is_usable else None, is_main=is_main)
