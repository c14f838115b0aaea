"""What the files of a benchmark and its benchmark.yml declare, as the one set of facts all its rows are read by."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from capeval_pipeline.storage.tables import TABLES

NOT_SHARED = frozenset({"metric"})
"""Declared of a file rather than of its benchmark: tools name one metric differently."""


@dataclass(frozen=True)
class Contradiction:
    """A file that declares another value of a key than a file before it did: nothing of it is used."""

    file_id: str
    message: str


def contradictions(files: list[dict[str, Any]]) -> list[Contradiction]:
    """Files whose declarations contradict those of a file that came before (rows of readings.files).

    By arrival, not by rank: whoever drops a file into a sound benchmark must not silence the files that are in it.
    """
    first: dict[str, tuple[Any, str]] = {}
    found = []
    for row in sorted(_current(files), key=lambda row: (row["ingested_at"], row["path"], row["file_id"])):
        declared = dict(_declarations(json.loads(row["benchmark_facts"])))
        against = next((key for key, value in declared.items() if key in first and first[key][0] != value), None)
        if against is None:
            first = {key: (value, row["path"]) for key, value in declared.items()} | first
            continue
        value, path = first[against]
        found.append(
            Contradiction(
                row["file_id"],
                f"{row['path']}: {against} of its benchmark.yml: is {json.dumps(declared[against])}, but "
                f"{json.dumps(value)} for {path}; expected one value in a benchmark. Nothing of the file is used: make "
                "the declarations agree and ingest both again, or give one another name or version.",
            )
        )
    return found


def without(files: pa.Table, refused: list[Contradiction]) -> pa.Table:
    """Rows of readings.files with the refused ones marked so, all their records rejected."""
    ids = {each.file_id for each in refused}
    rows = [
        {**row, "status": "refused", "n_kept": 0, "n_rejected": row["n_read"], "n_duplicate": 0}
        if row["file_id"] in ids
        else row
        for row in files.to_pylist()
    ]
    return pa.Table.from_pylist(rows, files.schema)


def _current(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in files if row["status"] == "read" and row["replaced_by_file_id"] is None]


def _declarations(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys a person declared and their values, fields of stage blocks as `stage.field`."""
    for key, value in facts["declared"].items():
        if value is not None and key not in NOT_SHARED:
            yield key, value
    for stage, block in facts["stage_blocks"].items():
        for field, value in block.items():
            yield f"{stage}.{field}", value


def benchmark_facts(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Declarations of a benchmark: of the first file (in rank order) that declares a thing, else the first that says
    it, else the default. Stage blocks and prices likewise, each as a whole."""
    ranked = sorted(_current(files), key=lambda row: (row["created"] is None, row["created"] or 0, row["file_id"]))
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
