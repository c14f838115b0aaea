"""`promptfoo`: the results of an evaluation as `promptfoo eval --output` writes them, versions 2 and 3.

An item is known by its `vars`. The same vars asked of the same provider again, by another prompt or a repetition, is
the next generation, in the order of the file.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import document_hash
from capeval_pipeline.formats.json_stream import json_pieces
from capeval_pipeline.formats.json_values import amount, count, mapping, name_of, score_of_json, storable, tokens
from capeval_pipeline.formats.lm_eval import PROMPT_KEYS
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, one_line, refusal, shown
from capeval_pipeline.formats.rows import MEMBER, RowCollector

KEYS = frozenset({"evalId", "results", "config", "shareableUrl", "metadata"})
LAST_VERSION = 3
METRIC = "score"
RECORDS = ("results", "results")
NAMED = "namedScores"
ERROR = 2
_SIGNATURE = re.compile(r'\{\s*"evalId"\s*:')


def matches(path: Path) -> float:
    """1 for a document with evalId and results; 0.8 where only its results are seen; else 0."""
    if path.is_dir():
        return 0.0
    start = head_of(path).text.lstrip()
    if start[:1] != "{" or '"results"' not in start:
        return 0.0
    if _SIGNATURE.match(start):
        return 1.0
    return 0.8 if all(f'"{key}"' in start for key in ("provider", "vars", "success", NAMED)) else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one results file. Raises FileRefused: version_too_new, aggregate_only, metric_unknown, truncated …"""
    document, results, n_records = _header(path, options)
    version = count(results.get("version"))
    if version is not None and version > LAST_VERSION:
        found, expected = f"version {version} of the results", f"at most {LAST_VERSION}"
        raise refusal(path, "version_too_new", found, expected, "Write it with an older version.")
    if not n_records:
        found = f"no list of results ({shown(results['results'])})" if results.get("results") else "0 results"
        reason = "aggregate_only" if results.get("stats") or results.get("prompts") else "header_only"
        raise refusal(path, reason, found, "results.results", "Export the results with their outputs.")
    facts = FileFacts(
        format="promptfoo",
        tool_version=name_of(mapping(document.get("metadata")).get("promptfooVersion")),
        created=cells.as_time(results["timestamp"]) if isinstance(results.get("timestamp"), str) else None,
        main_metric=options.metric or METRIC,
    )
    records = (piece.value for piece in json_pieces(path, options.limits, RECORDS) if piece.is_element)
    return Reading(facts, _Results(path, options).chunks(records))


def _header(path: Path, options: ReadOptions) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What stands beside the results and in the object around them, and their number: a first pass."""
    document: dict[str, Any] = {}
    results: dict[str, Any] = {}
    n_records = 0
    for piece in json_pieces(path, options.limits, RECORDS):
        if piece.is_element:
            n_records += 1
        elif piece.keys:
            (document if len(piece.keys) == 1 else results)[piece.keys[-1]] = piece.value
    return document, results, n_records


def model_of(provider: Any) -> str | None:
    """Name of a provider: its label, else its id."""
    if isinstance(provider, str):
        return name_of(provider)
    return name_of(mapping(provider).get("label")) or name_of(mapping(provider).get("id"))


def prompt_of(variables: Mapping[str, Any]) -> str:
    """Text of an item: the variable named like a question, else the only text, else all variables."""
    texts = {key: value for key, value in variables.items() if isinstance(value, str) and value.strip()}
    for key in PROMPT_KEYS:
        if key in texts:
            return storable(texts[key])
    if len(variables) == len(texts) == 1:
        return storable(next(iter(texts.values())))
    return storable(json.dumps(variables, ensure_ascii=False))


class _Results:
    """Turns the results of one evaluation into chunks."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self.options = path, options
        self.metric = options.metric or METRIC
        self.rows = RowCollector(path, options, MEMBER)
        self.n_asked: Counter[tuple[str, str]] = Counter()
        self.seen_metrics: dict[str, None] = {}

    def chunks(self, records: Iterator[Any]) -> Iterator[Chunk]:
        try:
            for place, record in enumerate(records):
                if isinstance(record, dict):
                    self._record(place, record)
                else:
                    self.rows.refuse(place, "bad_row", f"is {shown(record)}", "a result")
                if self.rows.is_full:
                    yield self.rows.chunk()
            if self.seen_metrics and self.metric not in self.seen_metrics:
                listed = one_line(", ".join(self.seen_metrics), 120)
                found = f"no result has metric {shown(self.metric)}"
                raise refusal(self.path, "metric_unknown", found, f"one of {listed}")
            yield self.rows.chunk()
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.rows.n_records)
            raise

    def _record(self, place: int, record: dict[str, Any]) -> None:
        model = self.options.model or model_of(record.get("provider"))
        variables = mapping(record.get("vars"))
        content = document_hash(dict(variables))
        if model is None or content is None:
            found = "provider has no name" if model is None else "vars are empty"
            self.rows.refuse(place, "key_missing", found, "a provider and vars: an item is known by them")
            return
        self.rows.add_item(None, content, prompt_of(variables))
        generation = self.n_asked[(content, model)]
        self.n_asked[(content, model)] += 1
        cell = {"item": None, "content_hash": content, "model": model, "generation_id": generation}
        self._verdict(place, record, cell)
        self.rows.end_record()

    def _verdict(self, place: int, record: Mapping[str, Any], cell: dict[str, Any]) -> None:
        response = mapping(record.get("response"))
        columns = usage_columns(record, response)
        has_output = response.get("output") not in (None, "")
        if record.get("failureReason") == ERROR or (record.get("error") and not has_output):
            self.rows.add_generation(place, status="error", metric=self.metric, **cell, **columns)
            return
        named = {storable(f"{NAMED}.{name}"): value for name, value in mapping(record.get(NAMED)).items()}
        values = {METRIC: record.get("score"), "success": record.get("success"), **named}
        self.seen_metrics |= dict.fromkeys(values)
        low, high = self.rows.score_range
        if self.metric not in values:
            values[self.metric] = None
        for name, value in values.items():
            code, number = score_of_json(value)
            is_main = name == self.metric
            is_usable = code == cells.OK and (not is_main or low <= number <= high)
            if is_main:
                self.rows.add_score(place, value, code, number, metric=name, **cell, **columns)
            self.rows.add_metric(place, **cell, metric=name, value=number if is_usable else None, is_main=is_main)


def usage_columns(record: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens, cost and latency of a result; an answer from the cache says nothing of the cost and time of its call."""
    is_cached = response.get("cached") if isinstance(response.get("cached"), bool) else None
    usage = mapping(response.get("tokenUsage") or record.get("tokenUsage"))
    is_answered = bool(response.get("output"))
    latency = None if is_cached else amount(record.get("latencyMs"))
    return {
        "is_cached": is_cached,
        "input_tokens": tokens(usage.get("prompt"), is_answered=is_answered),
        "output_tokens": tokens(usage.get("completion"), is_answered=is_answered),
        "reasoning_tokens": count(mapping(usage.get("completionDetails")).get("reasoning")),
        "cost_reported_usd": None if is_cached else amount(record.get("cost")),
        "latency_s": None if latency is None else latency / 1000,
    }
