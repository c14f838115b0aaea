"""`inspect`: logs of Inspect, as one JSON document (.json) or as a zip of members (.eval), finished or not.

Samples named by text are items of that name; numbers are positions, so such an item is known by its content. An epoch
is a generation. Of a sample that was written twice the later one counts, as the tool itself has it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.formats import cells
from capeval_pipeline.formats.archive import is_zip, member_names
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.inspect_samples import (
    ATTACHMENT,
    HEADER,
    JOURNAL,
    SAMPLE_MEMBER,
    Sample,
    document_header,
    document_samples,
    zip_header,
    zip_samples,
)
from capeval_pipeline.formats.json_values import (
    amount,
    count,
    listing,
    mapping,
    name_of,
    score_of_json,
    storable,
    tokens,
    with_choices,
)
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, one_line, refusal, shown
from capeval_pipeline.formats.rows import MEMBER, RowCollector, as_key

KEYS = frozenset({"version", "status", "eval", "plan", "results", "stats", "samples", "error", "reductions"})
LAST_VERSION = 2
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_SIGNATURE = re.compile(r'"(task_id|run_id|task_version)"\s*:')
_HEAD = re.compile(r'\s*\{\s*"(version|status|eval)"\s*:')


def matches(path: Path) -> float:
    """1 for a log of either kind; 0.8 for a zip called .eval whose directory is missing; else 0."""
    if path.is_dir():
        return 0.0
    head = head_of(path)
    if is_zip(head.start):
        names = member_names(path)
        if HEADER in names or JOURNAL in names:
            return 1.0
        is_cut = not names or any(map(SAMPLE_MEMBER.fullmatch, names))
        return 0.8 if path.suffix.lower() == ".eval" and is_cut else 0.0
    text = head.text
    is_log = _HEAD.match(text) and '"eval"' in text and '"task"' in text and _SIGNATURE.search(text)
    return 1.0 if is_log else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one log. Raises FileRefused: version_too_new, model_unknown, metric_needed, no_scores, archive_limit …"""
    if is_zip(head_of(path).start):
        header, is_finished = zip_header(path, options)
        samples = zip_samples(path, options)
        place_format = "member {}"
    else:
        header, keys = document_header(path, options)
        is_finished = header.get("status") != "started"
        samples = document_samples(path, options, keys)
        place_format = MEMBER
    run = _run_of(path, header, options, is_finished=is_finished)
    log = _Log(path, options, run, place_format)
    return Reading(run.facts, log.chunks(samples))


# -- what the log says of itself --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """Header of a log. usage_model: the name under which the model's own calls are counted; scorers: the main one
    first, as far as the header knows; score_name: what a log of version 1 calls its one scorer."""

    facts: FileFacts
    model: str
    usage_model: str
    scorers: tuple[str, ...]
    score_name: str
    n_dataset: int | None
    n_total: int | None
    is_finished: bool
    has_version: bool


def _run_of(path: Path, header: Mapping[str, Any], options: ReadOptions, *, is_finished: bool) -> _Run:
    version = count(header.get("version"))
    if version is not None and version > LAST_VERSION:
        found, expected = f"version {version} of the log", f"at most {LAST_VERSION}"
        raise refusal(path, "version_too_new", found, expected, "Write it with an older version.")
    spec, results = mapping(header.get("eval")), mapping(header.get("results"))
    usage_model = name_of(spec.get("model")) or ""
    model = options.model or usage_model
    if not model:
        advice = "Give --model, or model in benchmark.yml."
        raise refusal(path, "model_unknown", "names no model", "eval.model", advice, where="key eval")
    old_scorer = mapping(results.get("scorer")).get("name", results.get("scorer"))
    scorers = [
        name
        for score in listing(results.get("scores"))
        for name in (mapping(score).get("scorer"), mapping(score).get("name"))
    ]
    for scorer in listing(spec.get("scorers")):
        name = mapping(scorer).get("name")
        scorers += [name, name.rpartition("/")[2]] if isinstance(name, str) else []
    known = tuple(dict.fromkeys(name for name in [*scorers[:2], old_scorer, *scorers[2:]] if name_of(name)))
    n_dataset = count(mapping(spec.get("dataset")).get("samples"))
    task_version = as_key(spec.get("task_version"))
    facts = FileFacts(
        format="inspect",
        benchmark=name_of(spec.get("task")),
        version=None if task_version in (None, "0") else storable(task_version),
        tool_version=name_of(mapping(spec.get("packages")).get("inspect_ai")),
        created=cells.as_time(spec["created"]) if isinstance(spec.get("created"), str) else None,
        main_metric=options.metric or next(iter(known), None),
        claimed_items=n_dataset,
        model_settings={model: {**mapping(spec.get("model_generate_config")), **mapping(spec.get("model_args"))}},
    )
    return _Run(
        facts=facts,
        model=model,
        usage_model=usage_model,
        scorers=known,
        score_name=next((name for name in (old_scorer, *known) if name_of(name)), "score"),
        n_dataset=n_dataset,
        n_total=count(results.get("total_samples")),
        is_finished=is_finished,
        has_version=version is not None,
    )


# -- what samples say -----------------------------------------------------------------------------------------------


def score_of_word(text: str) -> tuple[int, float]:
    """Verdict code and value of a score in words: the letters of the tool, yes and no, or a number as text."""
    word = text.strip()
    known = LETTERS.get(word, WORDS.get(word.lower()))
    return (cells.OK, known) if known is not None else cells.score_of_text(word)


def prompt_of(sample: Mapping[str, Any]) -> str | None:
    """Question of a sample with its choices: text, or the messages of a chat; None for no text."""
    attached = mapping(sample.get("attachments"))
    given = sample.get("input")
    if isinstance(given, str):
        text = _resolved(given, attached)
    else:
        messages = [mapping(message) for message in listing(given)]
        texts = [_message_text(message.get("content"), attached) for message in messages]
        if len(messages) == 1:
            text = texts[0]
        else:
            text = "\n".join(f"{message.get('role')}: {said}" for message, said in zip(messages, texts, strict=True))
    if not text.strip():
        return None
    return storable(with_choices(text, listing(sample.get("choices"))))


def _message_text(content: Any, attached: Mapping[str, Any]) -> str:
    """Text of a message; of its other parts (images, sound) what refers to them, as it tells two questions apart."""
    if isinstance(content, str):
        return _resolved(content, attached)
    texts = []
    for part in map(mapping, listing(content)):
        kind = part.get("type")
        said = part.get("text") if kind == "text" else part.get(str(kind))
        if isinstance(said, str):
            texts.append(_resolved(said, attached) if kind == "text" else f"[{kind} {text_hash(said) or ''}]")
    return "\n".join(texts)


def _resolved(text: str, attached: Mapping[str, Any]) -> str:
    found = attached.get(text.removeprefix(ATTACHMENT)) if text.startswith(ATTACHMENT) else None
    return found if isinstance(found, str) else text


def usage_columns(sample: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Tokens, cost and latency of a sample. What other models used was spent on judging it."""
    usage = mapping(sample.get("model_usage"))
    own = mapping(usage.get(model))
    is_answered = _has_answer(sample)
    read, written = count(own.get("input_tokens_cache_read")), count(own.get("input_tokens_cache_write"))
    sent = tokens(own.get("input_tokens"), is_answered=is_answered and not read and not written)
    output = tokens(own.get("output_tokens"), is_answered=is_answered)
    reasoning = count(own.get("reasoning_tokens"))
    total = count(own.get("total_tokens"))
    if output is not None and reasoning and total == (sent or 0) + (read or 0) + (written or 0) + output + reasoning:
        output += reasoning  # some providers count reasoning beside the output, which the total then shows
    judges = [amount(mapping(other).get("total_cost")) for name, other in usage.items() if name != model]
    working, waiting = amount(sample.get("working_time")), amount(sample.get("total_time"))
    return {
        "input_tokens": sent,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": reasoning,
        "cost_reported_usd": amount(own.get("total_cost")),
        "judge_cost_usd": math.fsum(cost for cost in judges if cost is not None)
        if judges and None not in judges
        else None,
        # time spent waiting for limits and free places is the run's, not the model's
        "latency_s": waiting if working is None else working,
    }


def _has_answer(sample: Mapping[str, Any]) -> bool:
    output = mapping(sample.get("output"))
    choice = mapping(next(iter(listing(output.get("choices"))), None))
    return bool(output.get("completion") or mapping(choice.get("message")).get("content"))


class _Log:
    """Turns the samples of one log into chunks."""

    def __init__(self, path: Path, options: ReadOptions, run: _Run, place_format: str) -> None:
        self.path, self.options, self.run = path, options, run
        self.rows = RowCollector(path, options, place_format)
        self.metric = options.metric
        self.ids: set[str] = set()
        self.seen_metrics: dict[str, None] = {}
        self.n_answers = self.n_rewritten = self.n_scored = self.n_errors = 0
        self.example: object = None

    def chunks(self, samples: Iterator[Sample]) -> Iterator[Chunk]:
        try:
            for sample in samples:
                self._sample(sample)
                if self.rows.is_full:
                    yield self._chunk()
            self._finish()
            yield self._chunk()
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.rows.n_records)
            raise

    def _chunk(self) -> Chunk:
        # rows hold the number of their sample, which names no member
        return replace(self.rows.chunk(), place_format=MEMBER)

    def _sample(self, sample: Sample) -> None:
        where, record = sample.where, sample.record
        if sample.later is not None:
            self.n_rewritten += 1
            self.example = sample.later
            self.rows.repeat(where, sample.later)
            return
        if sample.fault is not None:
            self.rows.refuse(where, sample.fault.reason, str(sample.fault), "one JSON object")
            return
        if not isinstance(record, dict):
            self.rows.refuse(where, "bad_row", f"is {shown(record)}", "a sample")
            return
        cell = self._cell(where, record)
        if cell is not None:
            self.n_answers += 1
            self._verdict(sample, record, cell)
            self.rows.end_record()

    def _cell(self, where: object, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Item, model and generation of a sample; None if it was refused."""
        given = record.get("id")
        key, epoch = as_key(given), count(record.get("epoch", 1))
        if key is None:
            self.rows.refuse(where, "key_missing", f"id is {shown(given)}", "a name or a number")
            return None
        if not epoch:
            self.rows.refuse(where, "generation_bad", f"epoch is {shown(record.get('epoch'))}", "1, 2, 3 …")
            return None
        prompt = prompt_of(record)
        content = text_hash(prompt) if prompt else None
        item = storable(key) if isinstance(given, str) else None
        if item is None and content is None:
            self.rows.refuse(where, "key_missing", f"sample {key} has no input", "a text: its number is no identity")
            return None
        self.ids.add(key)
        self.rows.add_item(item, content, prompt)
        return {"item": item, "content_hash": content, "model": self.run.model, "generation_id": epoch - 1}

    def _verdict(self, sample: Sample, record: Mapping[str, Any], cell: dict[str, Any]) -> None:
        """The answer of a sample under the main metric, and all its metrics."""
        usage = usage_columns(record, self.run.usage_model)
        if record.get("error"):
            self.n_errors += 1
            metric = self.metric or next(iter(self.run.scorers), None)
            self.rows.add_generation(sample.place, status="error", metric=metric, **cell, **usage)
            return
        values = self._values(record)
        if values:
            self.n_scored += 1
        main = self._main_metric(record, values)
        for name, value in values.items():
            self.seen_metrics[name] = None
            if name != main:
                code, number = score_of_json(value, score_of_word)
                number_or_none = number if code == cells.OK else None
                self.rows.add_metric(sample.place, **cell, metric=name, value=number_or_none, is_main=False)
        given = values.get(main) if main is not None else None
        outcome = storable(given) if isinstance(given, str) else None
        code, number = score_of_json(given, score_of_word)
        place = sample.place
        self.rows.add_score(place, given, code, number, metric=main, outcome=outcome, **cell, **usage)
        if main is not None:
            low, high = self.rows.score_range
            is_usable = code == cells.OK and low <= number <= high
            self.rows.add_metric(place, **cell, metric=main, value=number if is_usable else None, is_main=True)

    def _values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Metric → value as given: `scorer`, or `scorer/key` where a scorer gives an object."""
        scores = record.get("scores")
        if scores is None and record.get("score") is not None:
            scores = {self.run.score_name: record["score"]}
        values: dict[str, Any] = {}
        for scorer, score in mapping(scores).items():
            value = score.get("value") if isinstance(score, dict) else score
            if isinstance(value, dict):
                values |= {storable(f"{scorer}/{key}"): member for key, member in value.items()}
            else:
                values[storable(scorer)] = value
        return values

    def _main_metric(self, record: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
        """Name of the main metric, settled by the first sample that has scores. Raises metric_needed."""
        scorers = [storable(name) for name in mapping(record.get("scores"))] or list(values)
        wanted = self.metric or next((name for name in self.run.scorers if name in scorers), None)
        if wanted is None:
            wanted = next(iter(scorers), None) or next(iter(self.run.scorers), None)
        keys = [name for name in values if wanted is not None and name.startswith(f"{wanted}/")]
        if keys and wanted not in values:
            listed = one_line(", ".join(sorted(keys)), 150)
            advice = "Choose one: metric in benchmark.yml, or --metric."
            raise refusal(self.path, "metric_needed", f"scorer {shown(wanted)} gives an object", listed, advice)
        if values and self.metric is None:
            self.metric = wanted
        return wanted

    def _finish(self) -> None:
        """What only the whole log shows. Raises header_only, aggregate_only, no_scores, metric_unknown."""
        run, path = self.run, self.path
        claimed = run.n_total if run.n_dataset is None else run.n_dataset
        if self.rows.n_records == 0:
            is_total = run.has_version and run.n_total is not None
            found = f"{'an unknown number of' if claimed is None else claimed} samples claimed, 0 present"
            reason = "aggregate_only" if is_total else "header_only"
            raise refusal(path, reason, found, "the samples", "Write the log with its samples.")
        if self.n_answers and not self.n_scored and not self.n_errors:
            advice = "Score the log first."
            raise refusal(
                path, "no_scores", f"none of {counted(self.n_answers, 'sample')} has a score", "scores", advice
            )
        if self.options.metric is not None and self.seen_metrics and self.options.metric not in self.seen_metrics:
            listed = one_line(", ".join(self.seen_metrics), 120)
            found = f"no sample has metric {shown(self.options.metric)}"
            raise refusal(path, "metric_unknown", found, f"one of {listed}")
        if not run.is_finished:
            found, expected = "the run has no end", "a finished run"
            self.rows.warn("unfinished", found, expected, f"Read of it: {counted(self.n_answers, 'sample')}.")
        if self.n_rewritten:
            found = f"{counted(self.n_rewritten, 'sample')} written again, such as {shown(str(self.example))}"
            self.rows.warn("rewritten_sample", found, "each sample once", "The later one counts.")
        if run.n_dataset is not None and len(self.ids) < run.n_dataset:
            found, expected = counted(len(self.ids), "sample"), f"{run.n_dataset} as the data set has"
            self.rows.warn("coverage", found, expected, "The rest is not run.")
        elif run.n_total is not None and self.n_answers < run.n_total:
            found, expected = f"{counted(self.n_answers, 'sample')} with their epochs", f"{run.n_total} as the log says"
            self.rows.warn("coverage", found, expected, "The rest is not run.")
