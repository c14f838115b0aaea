"""`bigcodebench`: *_eval_results.json of BigCodeBench: solutions of a task, each with one status.

A solution's place in its list is its generation; a time-out is not passed.
"""

from pathlib import Path
from typing import Any

from capeval_pipeline.formats.evalplus import LISTED, Solution, read_solutions, word
from capeval_pipeline.formats.json_values import mapping
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Reading, ReadOptions

KEYS = frozenset({"eval", "task_id", "solution", "status", "details"})
NAMES_MODEL_BY_PATH = True
METRICS = ("status",)


def matches(path: Path) -> float:
    """1 for an object `eval` whose solutions have a task_id and a status, but no base status; else 0."""
    if path.is_dir() or not (text := head_of(path).text.lstrip()).startswith("{"):
        return 0.0
    has_keys = LISTED.search(text) is not None and '"task_id"' in text and '"status"' in text
    return 1.0 if has_keys and '"base_status"' not in text else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read the solutions of one model. Raises FileRefused: model_unknown, metric_unknown, truncated …"""
    return read_solutions(path, options, "bigcodebench", METRICS, _statuses)


def _statuses(task: Any) -> list[Solution]:
    records = task if isinstance(task, list) else []
    return [Solution({"status": word(mapping(record).get("status"))}) for record in records]
