"""`evalplus`: *_eval_results.json of EvalPlus, old and new: solutions of a task, each with the status of its tests.

A solution's place in its list is its generation. Metrics are `base` and `plus`; plus passes only if base does too. What
BigCodeBench writes alike stands in bigcodebench.py.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval_pipeline.formats import cells
from capeval_pipeline.formats.json_text import read_json_document
from capeval_pipeline.formats.json_values import mapping, storable
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import refusal, shown
from capeval_pipeline.formats.rows import MEMBER, RowCollector, model_named

KEYS = frozenset({"eval", "task_id", "solution", "base_status", "plus_status", "nfiles", "base", "plus"})
NAMES_MODEL_BY_PATH = True
METRICS = ("base", "plus")
PASS = "pass"
LISTED = re.compile(r'"eval"\s*:\s*\{\s*"[^"]*"\s*:\s*\[')
"""An object `eval` of tasks, each with the list of its solutions."""

_OLD = re.compile(r'"eval"\s*:\s*\{\s*"[^"]*"\s*:\s*\{')
_NAMED = re.compile(r"(?P<model>.*?)[_.]?eval_results\.json(\.gz|\.zst)?")


def matches(path: Path) -> float:
    """1 for an object `eval` whose solutions have a base status (or the old lists `base`), else 0."""
    if path.is_dir() or not (text := head_of(path).text.lstrip()).startswith("{"):
        return 0.0
    is_new = LISTED.search(text) is not None and '"base_status"' in text
    is_old = _OLD.search(text) is not None and '"nfiles"' in text
    return 1.0 if is_new or is_old else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read the solutions of one model. Raises FileRefused: model_unknown, metric_unknown, truncated …"""
    return read_solutions(path, options, "evalplus", METRICS, _statuses)


@dataclass(frozen=True)
class Solution:
    """Statuses of one solution by metric, the file's own words; None is not tested."""

    statuses: Mapping[str, str | None]

    def value(self, metric: str) -> float | None:
        """1 if it passes, 0 if not, None if it was not tested."""
        status = self.statuses.get(metric)
        if status is None:
            return None
        is_passed = status == PASS and (metric != "plus" or self.statuses.get("base") == PASS)
        return 1.0 if is_passed else 0.0


def model_in_name(path: Path) -> str | None:
    """`<model>_eval_results.json` → the model; None where nothing stands before it."""
    named = _NAMED.fullmatch(path.name)
    return named["model"] if named is not None and named["model"] else None


def read_solutions(
    path: Path, options: ReadOptions, format_name: str, metrics: tuple[str, ...], statuses: Any
) -> Reading:
    """Reading of an object `eval`, task → solutions; `statuses` gives the solutions of a task, None if there are none.

    Raises FileRefused: model_unknown, metric_unknown, truncated, bad_json …
    """
    model = model_named(path, options, model_in_name(path))
    metric = options.metric or metrics[0]
    if metric not in metrics:
        raise refusal(path, "metric_unknown", f"no metric {shown(metric)}", f"one of {', '.join(metrics)}")
    document = read_json_document(path, options.limits)
    tasks = document.get("eval") if isinstance(document, dict) else None
    if not isinstance(tasks, dict):
        raise refusal(path, "bad_json", f"eval is {shown(tasks)}", "an object of tasks")
    facts = FileFacts(
        format=format_name,
        main_metric=metric,
        created=cells.as_time(document["date"]) if isinstance(document.get("date"), str) else None,
    )
    return Reading(facts, _chunks(RowCollector(path, options, MEMBER), tasks, model, metric, metrics, statuses))


def _chunks(
    rows: RowCollector, tasks: Mapping[str, Any], model: str, metric: str, metrics: tuple[str, ...], statuses: Any
) -> Iterator[Chunk]:
    for place, (name, given) in enumerate(tasks.items()):
        where = f"key {storable(name)}"
        if not name:
            rows.note(place, "key_missing", "a task has an empty name", "a name", where=where)
            rows.end_record()
            continue
        item = storable(name)
        rows.add_item(item)
        cell = {"item": item, "model": model}
        solutions: list[Solution] = statuses(given)
        if not solutions:
            rows.add_generation(place, status="invalid", generation_id=0, metric=metric, **cell)
            rows.note(place, "no_answers", f"is {shown(given)}", "solutions with a status", where=where)
        for generation, solution in enumerate(solutions):
            value = solution.value(metric)
            rows.add_generation(
                place, status="unscored" if value is None else "ok", score=value, generation_id=generation,
                metric=metric, outcome=solution.statuses.get(metric), **cell,
            )  # fmt: skip
            for name_ in metrics:
                if name_ in solution.statuses:
                    rows.add_metric(
                        place, metric=name_, value=solution.value(name_), is_main=name_ == metric,
                        generation_id=generation, **cell,
                    )  # fmt: skip
        rows.end_record()
        if rows.is_full:
            yield rows.chunk()
    yield rows.chunk()


def word(value: Any) -> str | None:
    """A status as text; null, the empty text and what is no text are none."""
    return storable(value) if isinstance(value, str) and value else None


def _statuses(task: Any) -> list[Solution]:
    """Solutions of a task: new, a list of records; old, lists of [status, details] under base and plus."""
    if isinstance(task, list):
        return [
            Solution({metric: word(mapping(record).get(f"{metric}_status")) for metric in METRICS}) for record in task
        ]
    if not isinstance(task, dict) or not isinstance(task.get("base"), list):
        return []
    lists = {metric: task[metric] if isinstance(task.get(metric), list) else [] for metric in METRICS}

    def status(metric: str, position: int) -> str | None:
        entry = lists[metric][position] if position < len(lists[metric]) else None
        return word(entry[0] if isinstance(entry, list) and entry else entry)

    n_solutions = max(map(len, lists.values()))
    return [Solution({metric: status(metric, position) for metric in METRICS}) for position in range(n_solutions)]
