"""`lm_eval`: sample files of lm-evaluation-harness, with the results file of the same run beside them.

New layout: `samples_<task>_<time>.jsonl`, one line a document and filter, and `results_<time>.json`. Before 0.4.3:
`<model args>_<task>.jsonl`, one indented JSON array, and `results.json`. A filter makes a metric of its own
(`exact_match,strict-match`), never an item. Documents are numbered, so an item is known by its content.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from capeval_pipeline.counting import counted
from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import document_hash, text_hash
from capeval_pipeline.formats.json_stream import json_pieces
from capeval_pipeline.formats.json_text import JsonFault, parse_json, read_json_document
from capeval_pipeline.formats.opening import head_of, numbered_lines, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    GENERATION_ROWS,
    ITEM_ROWS,
    METRIC_ROWS,
    Chunk,
    FileFacts,
    Note,
    Reading,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import FileRefused, message, one_line, refusal, shown

KEYS = frozenset({"doc_id", "doc", "resps", "filtered_resps", "target", "arguments", "doc_hash"})
PROMPT_KEYS = ("question", "problem", "query", "prompt", "input", "instruction", "goal", "ctx")
_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}[-:]\d{2}[-:]\d{2}(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_TIME})\.jsonl?(\.gz|\.zst)?")
_RESULTS = re.compile(rf"results_(?P<time>{_TIME})\.json")
_NOT_METRICS = frozenset({"alias", "samples", "name", "sample_len"})


def is_results_file(path: Path) -> bool:
    """Whether a file holds the totals of a run: named like one and with `results` and `configs` or `versions`."""
    if not (_RESULTS.fullmatch(path.name) or path.name == "results.json"):
        return False
    start = head_of(path).text
    return '"results"' in start and any(name in start for name in ('"configs"', '"versions"', '"config"', '"n-shot"'))


def matches(path: Path) -> float:
    """1 for lines or an array of documents with resps or filtered_resps, else 0."""
    if path.is_dir() or (".jsonl" not in path.name.lower() and path.suffix.lower() != ".json"):
        return 0.0
    start = head_of(path).text.lstrip()
    has_keys = '"doc_id"' in start and '"doc"' in start and ('"resps"' in start or '"filtered_resps"' in start)
    return 1.0 if has_keys and start[:1] in ("{", "[") else 0.0


def companions(path: Path) -> tuple[Path, ...]:
    """The results file of a sample file: the same time stamp, or the one `results.json` of the old layout."""
    named = _SAMPLES.fullmatch(path.name)
    beside = path.with_name("results.json" if named is None else f"results_{named['time']}.json")
    return (beside,) if beside.is_file() else ()


@dataclass(frozen=True)
class _Run:
    """What the results file says of one task."""

    task: str | None
    benchmark: str | None = None
    category: str | None = None
    version: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    claimed: int | None = None
    repeats: int = 1
    higher_is_better: bool | None = None
    tool_version: str | None = None
    created: datetime | None = None


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one sample file. Raises FileRefused: model_unknown, metric_unknown, metric_needed, truncated …"""
    beside = companions(path)
    results = read_json_document(beside[0], options.limits) if beside else None
    if results is not None and not isinstance(results, dict):
        raise refusal(beside[0], "bad_json", "is no object", "the results of a run")
    run = _run_of(path, results)
    model = options.model or run.model
    if not model:
        raise refusal(
            path,
            "model_unknown",
            "no results file of the same run names the model",
            "model_name or model_args",
            "Put results_<time>.json beside it, or give --model.",
        )
    metric = _main_metric(path, options, run)
    facts = FileFacts(
        format="lm_eval",
        benchmark=run.benchmark,
        version=run.version,
        tool_version=run.tool_version,
        created=run.created,
        main_metric=metric,
        higher_is_better=run.higher_is_better,
        claimed_items=run.claimed,
        model_settings={model: dict(run.settings)},
    )
    return Reading(facts, _Samples(path, options, run, model, metric).chunks())


def _main_metric(path: Path, options: ReadOptions, run: _Run) -> str | None:
    """Full name `metric,filter` of the main metric as far as it is known before the samples are seen."""
    if options.metric is None:
        return run.metrics[0] if run.metrics else None
    if options.metric in run.metrics or not run.metrics:
        return options.metric
    found = next((name for name in run.metrics if name.partition(",")[0] == options.metric), None)
    if found is None:
        raise refusal(
            path,
            "metric_unknown",
            f"no metric {shown(options.metric)}",
            f"one of {one_line(', '.join(run.metrics), 120)}",
        )
    return found


def _run_of(path: Path, results: dict[str, Any] | None) -> _Run:
    named = _SAMPLES.fullmatch(path.name)
    stamp = None if named is None else _stamp(named["time"])
    if results is None:
        task = None if named is None else named["task"]
        return _Run(task=task, benchmark=task, created=stamp)
    scores = _mapping(results.get("results"))
    task = named["task"] if named is not None else _old_task(path, scores)
    group = _group_of(task, _mapping(results.get("group_subtasks")))
    config = _mapping(results.get("config"))
    settings = model_arguments(config.get("model_args"))
    names = (results.get("model_name"), settings.get("pretrained"), settings.get("model"), settings.get("path"))
    metrics = tuple(
        name for name, value in _mapping(scores.get(task)).items()
        if name not in _NOT_METRICS and not name.partition(",")[0].endswith("_stderr") and not isinstance(value, dict)
    )  # fmt: skip
    directions = _mapping(_mapping(results.get("higher_is_better")).get(task))
    direction = directions.get(metrics[0].partition(",")[0]) if metrics else None
    samples = _mapping(_mapping(results.get("n-samples")).get(task))
    repeats = _mapping(_mapping(results.get("configs")).get(task)).get("repeats", 1)
    tool = results.get("lm_eval_version") or results.get("git_hash")
    return _Run(
        task=task,
        benchmark=group or task,
        category=task if group else None,
        version=_version_of(task, group, results),
        model=next((name for name in names if isinstance(name, str) and name.strip()), None),
        settings=settings | {key: config[key] for key in ("batch_size", "limit") if config.get(key) is not None},
        metrics=metrics,
        claimed=_count(samples.get("effective"), samples.get("original")),
        repeats=repeats if isinstance(repeats, int) else 1,
        higher_is_better=direction if isinstance(direction, bool) else None,
        tool_version=None if tool is None else str(tool),
        created=cells.as_time(results["date"]) if isinstance(results.get("date"), int | float) else stamp,
    )


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _count(*values: Any) -> int | None:
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _stamp(text: str) -> datetime | None:
    day, _, clock = text.partition("T")
    try:
        return datetime.fromisoformat(f"{day}T{clock.replace('-', ':')}").replace(tzinfo=UTC)
    except ValueError:
        return None


def _old_task(path: Path, scores: Mapping[str, Any]) -> str | None:
    """Old layout: the longest task that ends the file's name; with one task, that one."""
    stem = path.name.partition(".jsonl")[0]
    ends = sorted((task for task in scores if stem == task or stem.endswith(f"_{task}")), key=len)
    return ends[-1] if ends else next(iter(scores)) if len(scores) == 1 else None


def _group_of(task: str | None, groups: Mapping[str, Any]) -> str | None:
    """Topmost group of a task; None if it is in none."""
    parents = {
        child: group
        for group, children in groups.items()
        if isinstance(children, list)
        for child in children
        if isinstance(child, str)
    }
    group, seen = None, {task}
    while task in parents and parents[task] not in seen:
        group = task = parents[task]
        seen.add(task)
    return group


def _version_of(task: str | None, group: str | None, results: Mapping[str, Any]) -> str | None:
    """The group's version, else the one all its subtasks share; without a group the task's own."""
    versions = _mapping(results.get("versions"))
    if group is None or versions.get(group) not in (None, "N/A"):
        version = versions.get(group or task)
    else:
        parts = _mapping(results.get("group_subtasks")).get(group, [])
        shared = {str(versions.get(part)) for part in parts if part in versions}
        version = versions.get(task) if len(shared) == 1 else None
    is_version = isinstance(version, str | int | float) and not isinstance(version, bool)
    return str(version) if is_version and version not in ("N/A", "Yaml") else None


def model_arguments(arguments: Any) -> dict[str, Any]:
    """Model arguments of a run: an object, or text `name=value,…`."""
    if isinstance(arguments, dict):
        return {str(key): value for key, value in arguments.items()}
    if not isinstance(arguments, str):
        return {}
    pairs = (part.partition("=") for part in arguments.split(","))
    return {name.strip(): value.strip() for name, mark, value in pairs if mark and name.strip()}


class _Samples:
    """Turns the lines (or array members) of one sample file into chunks."""

    def __init__(self, path: Path, options: ReadOptions, run: _Run, model: str, metric: str | None) -> None:
        self.path, self.options, self.run, self.model, self.metric = path, options, run, model, metric
        self.score_range = options.score_range or (0.0, 1.0)
        self.n_records = 0
        self.documents: set[str] = set()
        self.seen_metrics: dict[str, None] = {}
        self.known_names: dict[Any, dict[str, str]] = {}
        self.is_lines = head_of(path).text.lstrip()[:1] == "{"
        self.clear()

    def clear(self) -> None:
        self.items: list[tuple[Any, ...]] = []
        self.generations: list[tuple[Any, ...]] = []
        self.values: list[tuple[Any, ...]] = []
        self.notes: list[Note] = []
        self.n_read = self.n_bytes = 0

    def chunks(self) -> Iterator[Chunk]:
        try:
            for place, record in self._lines() if self.is_lines else self._members():
                if isinstance(record, tuple):
                    reason, text = record
                    self._refuse(place, reason, text)
                elif not isinstance(record, dict):
                    text = message(self.path.name, self._where(place), f"is {shown(record)}", "an object")
                    self._refuse(place, "bad_row", text)
                else:
                    self._record(place, record)
                if self.n_read >= CHUNK_RECORDS or self.n_bytes >= CHUNK_BYTES:
                    yield self._chunk()
            self._finish()
            yield self._chunk()
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.n_records)
            raise

    def _where(self, place: int) -> str:
        return f"line {place}" if self.is_lines else f"samples[{place}]"

    def _lines(self) -> Iterator[tuple[int, Any]]:
        limits = self.options.limits
        with open_inflated(self.path, limits) as stream:
            for place, line in numbered_lines(utf8_blocks(stream, self.path), limits.line_bytes):
                if line is None:
                    found, expected = (
                        f"longer than {limits.line_bytes} bytes",
                        "at most the setting `limits.line_bytes`",
                    )
                    yield place, ("line_too_long", message(self.path.name, f"line {place}", found, expected))
                elif not line.isspace():
                    try:
                        self.n_bytes += len(line) // 8  # of a line little is kept, its answers and requests are not
                        record = parse_json(line.decode(), depth=limits.json_depth)
                        yield place, record if not isinstance(record, tuple) else list(record)
                    except UnicodeDecodeError as error:
                        found = f"byte 0x{line[error.start]:02x} is not UTF-8"
                        yield place, ("bad_encoding", message(self.path.name, f"line {place}", found, "UTF-8"))
                    except JsonFault as fault:
                        text = message(self.path.name, f"line {place}", str(fault), "one JSON object a line")
                        yield place, (fault.reason, text)

    def _members(self) -> Iterator[tuple[int, Any]]:
        for place, piece in enumerate(json_pieces(self.path, self.options.limits, ())):
            if not piece.is_element:
                raise refusal(self.path, "bad_json", "is no list of samples", "a list")
            yield place, list(piece.value) if isinstance(piece.value, tuple) else piece.value

    def _refuse(self, place: int, reason: str, text: str) -> None:
        self.notes.append((self.n_records, "rejected", self._where(place), reason, text))
        self.n_records += 1
        self.n_read += 1

    def _record(self, place: int, record: dict[str, Any]) -> None:
        """One document under one filter: its metrics, and its generation if the main metric is of this filter."""
        prompt = prompt_of(record)
        content = document_hash(record.get("doc")) or (text_hash(prompt) if prompt else None)
        if content is None:
            found, expected = "has neither doc nor prompt", "a document: its number is no identity"
            self._refuse(place, "key_missing", message(self.path.name, self._where(place), found, expected))
            return
        names = self._metric_names(record)
        if self.metric is None and names:
            self.metric = next(iter(names))
        try:
            "".join((prompt or "", *names)).encode()
        except UnicodeEncodeError:
            text = message(self.path.name, self._where(place), "half of a surrogate pair", "text", "Write it again.")
            self._refuse(place, "bad_json", text)
            return
        cell = (self.n_records, place, content)
        if content not in self.documents:
            self.documents.add(content)
            kept = prompt if self.options.keep_text else None
            self.items.append((content, kept))
            self.n_bytes += len(kept or "")
        for name, key in names.items():
            self.seen_metrics[name] = None
            code, value = score_of_value(record.get(key))
            is_main = name == self.metric
            if is_main:
                self._verdict(place, cell, code, value, record.get(key))
            usable = code == cells.OK and (not is_main or self._is_inside(value))
            self.values.append((*cell, name, value if usable else None, is_main))
        if not names:
            text = message(self.path.name, self._where(place), "names no metric", "metrics")
            self._refuse(place, "key_missing", text)
            return
        self.n_records += 1
        self.n_read += 1

    def _is_inside(self, value: float) -> bool:
        return self.score_range[0] <= value <= self.score_range[1]

    def _metric_names(self, record: dict[str, Any]) -> dict[str, str]:
        """Full name → key of the record, main first as the results file has it."""
        filter_, listed = record.get("filter"), record.get("metrics")
        if not isinstance(listed, list):
            return self._names_of(record, filter_, None)
        keys = tuple(key for key in listed if isinstance(key, str))
        case = (filter_ if isinstance(filter_, str) else None, keys)
        if filter_ is not None and case[0] is None:
            return self._names_of(record, filter_, keys)
        if case not in self.known_names:  # the same in all lines of a filter
            self.known_names[case] = self._names_of(record, filter_, keys)
        return self.known_names[case]

    def _names_of(self, record: dict[str, Any], filter_: Any, listed: tuple[str, ...] | None) -> dict[str, str]:
        known = [name for name in self.run.metrics if name.partition(",")[2] in ("", filter_ or "none")]
        keys = list(listed or ())
        if listed is None:
            keys = [name.partition(",")[0] for name in known]
            keys = keys or [
                key for key, value in record.items() if key not in _LINE_KEYS and not isinstance(value, str)
            ]
        bare = {name for name in known if "," not in name}
        if filter_ is None and not known:
            return {key: key for key in keys}
        return {(key if key in bare else f"{key},{filter_ or 'none'}"): key for key in keys}

    def _verdict(self, place: int, cell: tuple[int, int, str], code: int, value: float, given: Any) -> None:
        if code == cells.OK and not self._is_inside(value):
            code = cells.OUT_OF_RANGE
        status = {cells.OK: "ok", cells.UNSCORED: "unscored"}.get(code, "invalid")
        self.generations.append((*cell, status, value if code == cells.OK else None, self.metric))
        if code > cells.UNSCORED:
            low, high = self.score_range
            reason, where = cells.REASON[code], self._where(place)
            advice = "Declare score_range in benchmark.yml." if reason == "score_out_of_range" else ""
            found = f"{self.metric} is {shown(given)}"
            text = message(self.path.name, where, found, f"a number from {low:g} to {high:g}", advice)
            self.notes.append((self.n_records, "rejected", where, reason, text))

    def _finish(self) -> None:
        """What only the whole file shows: an unknown metric, fewer documents than claimed, repeats under one score."""
        if self.metric is not None and self.seen_metrics and self.metric not in self.seen_metrics:
            by_name = [name for name in self.seen_metrics if name.partition(",")[0] == self.metric]
            listed = one_line(", ".join(self.seen_metrics), 120)
            advice = f"Write it in full: {by_name[0]}." if by_name else ""
            raise refusal(
                self.path, "metric_unknown", f"no sample has metric {shown(self.metric)}", f"one of {listed}", advice
            )
        claimed = self.run.claimed
        if claimed is not None and len(self.documents) < claimed:
            found = counted(len(self.documents), "document")
            text = message(self.path.name, "file", found, f"{claimed} as the results file says", "The rest is not run.")
            self.notes.append((None, "warning", "file", "coverage", text))
        if self.run.repeats > 1:
            found = f"{self.run.repeats} answers a document under one score"
            text = message(self.path.name, "file", found, "a score an answer", "Kept as one generation.")
            self.notes.append((None, "warning", "file", "repeats_scored_once", text))

    def _chunk(self) -> Chunk:
        cell = ("record", "place", "content_hash")
        owner = {"model": self.model, "generation_id": 0}
        made = chunk_of(
            n_read=self.n_read,
            place_format="line {}" if self.is_lines else "samples[{}]",
            items=_table(ITEM_ROWS, ("content_hash", "prompt"), self.items, {"category": self.run.category}),
            generations=_table(GENERATION_ROWS, (*cell, "status", "score", "metric"), self.generations, owner),
            metric_values=_table(METRIC_ROWS, (*cell, "metric", "value", "is_main"), self.values, owner),
            rejections=rejection_rows(self.notes),
        )
        self.clear()
        return made


_LINE_KEYS = KEYS | {"filter", "metrics", "prompt_hash", "target_hash"}


def _table(
    schema: pa.Schema, names: tuple[str, ...], rows: list[tuple[Any, ...]], shared: Mapping[str, Any]
) -> pa.Table:
    """Rows with the columns `names`, and the columns that all of them share."""
    if not rows:
        return schema.empty_table()
    columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
    for name, value in shared.items():
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), len(rows))
    return rows_of(schema, columns, len(rows))


def score_of_value(value: Any) -> tuple[int, float]:
    """Verdict code (range not looked at) and value of a metric as JSON has it."""
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
    return cells.score_of_text(value) if isinstance(value, str) else (cells.NOT_NUMERIC, math.nan)


def prompt_of(record: dict[str, Any]) -> str | None:
    """Text of a sample: the first of PROMPT_KEYS in its document, else what was sent to the model."""
    document = record.get("doc")
    if isinstance(document, dict):
        for key in PROMPT_KEYS:
            if isinstance(document.get(key), str) and document[key].strip():
                return document[key]
    arguments = record.get("arguments")
    if isinstance(arguments, dict):
        arguments = next(iter(arguments.values()), None)
        sent = arguments.get("arg_0") if isinstance(arguments, dict) else None
    else:
        sent = arguments
        while isinstance(sent, list) and sent:
            sent = sent[0]
    if isinstance(sent, str) and sent.strip():
        return sent
    return json.dumps(document, ensure_ascii=False) if document else None
