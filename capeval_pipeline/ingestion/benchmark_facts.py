"""What the files of a benchmark and its benchmark.yml declare, as the one set of facts all its rows are read by."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from capeval_pipeline.storage.tables import TABLES


def benchmark_facts(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Declarations of a benchmark: of the first file (in rank order) that declares a thing, else the first that says
    it, else the default. Stage blocks and prices likewise, each as a whole."""
    current = [row for row in files if row["status"] == "read" and row["replaced_by_file_id"] is None]
    ranked = sorted(current, key=lambda row: (row["created"] is None, row["created"] or 0, row["file_id"]))
    spoken = [json.loads(row["benchmark_facts"]) for row in ranked]

    def first(name: str, default: Any) -> Any:
        for part in ("declared", "said"):
            for facts in spoken:
                if facts[part].get(name) is not None:
                    return facts[part][name]
        return default

    blocks: dict[str, Any] = {}
    prices: dict[str, Any] = {}
    for facts in spoken:
        for stage, block in facts["stage_blocks"].items():
            blocks.setdefault(stage, block)
        for model, price in facts["prices"].items():
            prices.setdefault(model, price)
    low, high = first("score_range", [0.0, 1.0])
    return {
        "score_low": low,
        "score_high": high,
        "higher_is_better": first("higher_is_better", True),
        "error_policy": first("error_policy", None),
        "has_true_generations": first("has_true_generations", None),
        "zero_cost": first("zero_cost", "unknown"),
        "metric": first("metric", None),
        "on_conflict": first("on_conflict", "reject"),
        "stage_blocks": blocks,
        "prices": prices,
    }


def benchmark_rows(files: list[dict[str, Any]], facts: Mapping[str, Any]) -> pa.Table:
    """The row of raw.benchmarks without its id; no row without files."""
    named = json.loads(files[0]["benchmark_facts"]) if files else {"name": "", "version": None}
    row = {name: facts.get(name) for name in TABLES["raw.benchmarks"].column_names if name in facts}
    row |= {"name": named["name"], "version": named["version"]}
    row["settings"] = json.dumps(facts["stage_blocks"], sort_keys=True)
    fields = [pa.field(column.name, column.type) for column in TABLES["raw.benchmarks"].columns[1:]]
    return pa.Table.from_pylist([row] if files else [], pa.schema(fields))
