"""`helm`: the folder of one HELM run, with run_spec.json, scenario_state.json (texts) and per_instance_stats.json.

Instances are numbered by the run, so an item is known by its text; a perturbed copy is an item of its own. The trial is
the generation. Other files of the folder (totals, instances, display files) repeat these and are not looked at.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.content_hashes import document_hash, text_hash
from capeval_pipeline.formats.json_stream import json_pieces
from capeval_pipeline.formats.json_text import read_json_document
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

KEYS = frozenset({"instance_id", "perturbation", "train_trial_index", "stats"})
STATS, STATE, SPEC = "per_instance_stats.json", "scenario_state.json", "run_spec.json"
DEFAULT_METRICS = ("exact_match", "quasi_exact_match", "f1_score", "rouge_l", "bleu_4")
SETTINGS = ("model_deployment", "temperature", "max_tokens", "num_outputs", "max_train_instances", "method")
_RUN_ARGUMENTS = ("model=", "model_deployment=")


def members(folder: Path) -> tuple[Path, ...]:
    """Files of a run folder that are read; none if it is no run folder."""
    found = tuple(path for name in (SPEC, STATE, STATS) if (path := folder / name).is_file())
    return found if len(found) > 1 and found[-1].name == STATS else ()


def matches(path: Path) -> float:
    """1 for a folder with per_instance_stats.json and what it belongs to, 0.5 if only the names say so, else 0."""
    if not path.is_dir() or not (found := members(path)):
        return 0.0
    start = head_of(found[-1]).text.lstrip()
    return 1.0 if start[:1] == "[" and '"instance_id"' in start else 0.5


@dataclass(frozen=True)
class _Question:
    """What the scenario says of one instance and trial."""

    prompt: str | None
    content_hash: str | None
    is_failed: bool
    is_answered: bool


_Key = tuple[str | None, str, int]


def read(path: Path, options: ReadOptions) -> Reading:
    """Read one run folder. Raises FileRefused: columns_missing, model_unknown, metric_needed, metric_unknown …"""
    if not (path / STATE).is_file():
        found, expected = f"{STATE} is not there", "the texts: numbers of instances are no identity"
        raise refusal(path, "columns_missing", found, expected, "Copy the whole run folder.")
    has_spec = (path / SPEC).is_file()
    spec = mapping(read_json_document(path / SPEC, options.limits)) if has_spec else {}
    state, questions = _questions(path / STATE, options, mapping(spec.get("adapter_spec")))
    adapter = {**mapping(state.get("adapter_spec")), **mapping(spec.get("adapter_spec"))}
    model = options.model or name_of(adapter.get("model"))
    if model is None:
        advice = "Give --model, or model in benchmark.yml."
        raise refusal(path, "model_unknown", "names no model", "adapter_spec.model", advice)
    metric, is_default = _main_metric(path, options, spec)
    facts = FileFacts(
        format="helm",
        benchmark=_benchmark_of(spec),
        main_metric=metric,
        claimed_items=len(questions),
        model_settings={model: {name: adapter[name] for name in SETTINGS if adapter.get(name) is not None}},
    )
    run = _Run(path, options, model, metric, questions)
    return Reading(facts, run.chunks(_stats(path, options), is_default=is_default))


def _stats(path: Path, options: ReadOptions) -> Iterator[Any]:
    """Instances with their stats, in the order of the file."""
    for piece in json_pieces(path / STATS, options.limits, ()):
        if not piece.is_element:
            raise refusal(path / STATS, "bad_json", f"is {shown(piece.value)}", "a list of instances")
        yield piece.value


def _benchmark_of(spec: Mapping[str, Any]) -> str | None:
    """Name of the run without its model, so that runs of several models meet: `mmlu:subject=anatomy`."""
    name = name_of(spec.get("name"))
    if name is None:
        scenario = name_of(mapping(spec.get("scenario_spec")).get("class_name"))
        return None if scenario is None else scenario.rpartition(".")[2]
    scenario, _, arguments = name.partition(":")
    kept = [part for part in arguments.split(",") if part and not part.startswith(_RUN_ARGUMENTS)]
    return ":".join([scenario, ",".join(kept)]) if kept else scenario


# -- texts ----------------------------------------------------------------------------------------------------------


def _questions(
    path: Path, options: ReadOptions, adapter: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[_Key, _Question]]:
    """What stands beside the requests, and instance, perturbation and trial → question.

    Several requests may belong to one question (a choice each).
    """
    beside: dict[str, Any] = {}
    questions: dict[_Key, _Question] = {}
    for piece in json_pieces(path, options.limits, ("request_states",)):
        if not piece.is_element:
            beside |= {piece.keys[0]: piece.value} if piece.keys else {}
            continue
        request = mapping(piece.value)
        method = str(adapter.get("method", mapping(beside.get("adapter_spec")).get("method")))
        instance = mapping(request.get("instance"))
        trial = count(request.get("train_trial_index", 0))
        key = (as_key(instance.get("id")), _perturbation(instance), 0 if trial is None else trial)
        has_choices = method.startswith("multiple_choice") or bool(request.get("output_mapping"))
        result = mapping(request.get("result"))
        known = questions.get(key)
        prompt, content = _text_of(instance, has_choices=has_choices)
        is_answered = any(mapping(part).get("text") for part in listing(result.get("completions")))
        questions[key] = _Question(
            prompt,
            content,
            is_failed=result.get("success") is False or (known is not None and known.is_failed),
            is_answered=is_answered or (known is not None and known.is_answered),
        )
    return beside, questions


def _perturbation(record: Mapping[str, Any]) -> str:
    """A perturbation as text that tells it from others; empty for none."""
    given = record.get("perturbation")
    return json.dumps(given, sort_keys=True) if given else ""


def _text_of(instance: Mapping[str, Any], *, has_choices: bool) -> tuple[str | None, str | None]:
    """Prompt and content hash of an instance. A perturbation may leave a text as it is, so it counts itself."""
    given = mapping(instance.get("input"))
    text = given.get("text")
    messages = [mapping(message) for message in listing(given.get("messages"))]
    if messages and not text:
        text = "\n".join(f"{message.get('role')}: {message.get('content')}" for message in messages)
    if not isinstance(text, str) or not text.strip():
        return None, document_hash({**given, **({"copy": _perturbation(instance)} if _perturbation(instance) else {})})
    references = [mapping(mapping(part).get("output")).get("text") for part in listing(instance.get("references"))]
    prompt = storable(with_choices(text, references if has_choices else []))
    return prompt, text_hash("\n".join([prompt, _perturbation(instance)]))


# -- scores ---------------------------------------------------------------------------------------------------------


def is_score(name: str) -> bool:
    """Whether a stat says how good an answer is; the others count tokens, time, money and settings."""
    return not (name.endswith(("tokens", "runtime", "_cost")) or name.startswith(("finish_reason_", "num_")))


def stats_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Name → mean of the stats of an instance; None where nothing was counted. A stat given twice: the counted one."""
    means: dict[str, Any] = {}
    for stat in map(mapping, listing(record.get("stats"))):
        name = name_of(mapping(stat.get("name")).get("name"))
        if name is not None and means.get(name) is None:
            means[name] = stat.get("mean") if count(stat.get("count")) else None
    return means


def _main_metric(path: Path, options: ReadOptions, spec: Mapping[str, Any]) -> tuple[str, bool]:
    """The main metric, and whether it was chosen by default. Raises metric_unknown, metric_needed."""
    names = {name: None for record in _stats(path, options) for name in stats_of(mapping(record)) if is_score(name)}
    listed = one_line(", ".join(names), 130) or "none"
    if options.metric is not None:
        if options.metric not in names:
            found = f"no stat {shown(options.metric)}"
            raise refusal(path, "metric_unknown", found, f"one of {listed}", where=f"member {STATS}")
        return options.metric, False
    promised = [
        name
        for part in listing(spec.get("metric_specs"))
        for name in listing(mapping(mapping(part).get("args")).get("names"))
    ]
    for known in (names, promised):
        found_default = next((name for name in DEFAULT_METRICS if name in known), None)
        if found_default is not None:
            return found_default, True
    advice = "Choose: metric in benchmark.yml, or --metric."
    found = f"none of {', '.join(DEFAULT_METRICS)}; the stats are {listed}"
    raise refusal(path, "metric_needed", found, "a metric", advice, where=f"member {STATS}")


class _Run:
    """Turns the instances of one run into chunks."""

    def __init__(
        self, path: Path, options: ReadOptions, model: str, metric: str, questions: Mapping[_Key, _Question]
    ) -> None:
        self.path, self.model, self.metric, self.questions = path, model, metric, questions
        self.rows = RowCollector(path, options, MEMBER)
        self.seen: set[_Key] = set()

    def chunks(self, stats: Iterator[Any], *, is_default: bool) -> Iterator[Chunk]:
        try:
            if is_default:
                advice = "Declare metric in benchmark.yml to choose another."
                self.rows.warn("metric_defaulted", f"scores are {self.metric}", "a chosen metric", advice)
            for place, record in enumerate(stats):
                if isinstance(record, dict):
                    self._record(place, record)
                else:
                    self.rows.refuse(place, "bad_row", f"is {shown(record)}", "an instance with its stats")
                if self.rows.is_full:
                    yield self.rows.chunk()
            n_missing = len(self.questions.keys() - self.seen)
            if n_missing:
                found = f"{len(self.questions) - n_missing} instances with stats"
                expected = f"{len(self.questions)} as {STATE} has"
                self.rows.warn("coverage", found, expected, "The rest has no score.")
            yield self.rows.chunk()
        except FileRefused as fault:
            fault.n_read = max(fault.n_read, self.rows.n_records)
            raise

    def _record(self, place: int, record: dict[str, Any]) -> None:
        instance, given = as_key(record.get("instance_id")), record.get("train_trial_index", 0)
        trial = count(given)
        if instance is None:
            self.rows.refuse(place, "key_missing", f"instance_id is {shown(record.get('instance_id'))}", "a name")
            return
        if trial is None:
            self.rows.refuse(place, "generation_bad", f"train_trial_index is {shown(given)}", "0, 1, 2 …")
            return
        key = (instance, _perturbation(record), trial)
        question = self.questions.get(key)
        if question is None or question.content_hash is None:
            found = f"instance {shown(instance)} has no text in {STATE}"
            self.rows.refuse(place, "key_missing", found, "a text: its number is no identity")
            return
        self.seen.add(key)
        self.rows.add_item(None, question.content_hash, question.prompt)
        cell = {"item": None, "content_hash": question.content_hash, "model": self.model, "generation_id": trial}
        self._verdict(place, stats_of(record), question, cell)
        self.rows.end_record()

    def _verdict(self, place: int, means: Mapping[str, Any], question: _Question, cell: dict[str, Any]) -> None:
        output = means.get("num_output_tokens", means.get("num_completion_tokens"))
        usage = {
            "input_tokens": tokens(means.get("num_prompt_tokens"), is_answered=question.is_answered),
            "output_tokens": tokens(output, is_answered=question.is_answered),
            "latency_s": amount(means.get("inference_runtime")),
        }
        if question.is_failed:
            self.rows.add_generation(place, status="error", metric=self.metric, **cell, **usage)
            return
        code, value = score_of_json(means.get(self.metric))
        self.rows.add_score(place, means.get(self.metric), code, value, metric=self.metric, **cell, **usage)
        low, high = self.rows.score_range
        for name, mean in means.items():
            if not is_score(name):
                continue
            code, value = score_of_json(mean)
            is_main = name == self.metric
            is_usable = code == cells.OK and (not is_main or low <= value <= high)
            number = value if is_usable else None
            self.rows.add_metric(place, **cell, metric=name, value=number, is_main=is_main)
