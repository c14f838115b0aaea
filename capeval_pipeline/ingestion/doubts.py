"""What a careful person would look at after an ingest: not wrong, not to be missed either. Asset checks that warn.

The definitions name these checks, so what only an ingest needs is imported when one looks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.storage.connections import scratch_connection

if TYPE_CHECKING:
    import pyarrow as pa

    from capeval_pipeline.storage.stored_rows import StoredRows

FILES_CHECK, COVERAGE_CHECK, NAMES_CHECK = "files_were_read_whole", "cells_have_scores", "names_are_distinct"
COSTS_CHECK = "costs_are_plausible"
CHECKS = {
    "raw.files": (FILES_CHECK,),
    "raw.generations": (COVERAGE_CHECK, COSTS_CHECK),
    "raw.models": (NAMES_CHECK,),
}
"""Table → names of the checks beside it."""


@dataclass(frozen=True)
class Finding:
    """Outcome of a check: its table and name, whether all is well, and a sentence either way."""

    table: str
    check: str
    is_well: bool
    sentence: str


def findings(raw: Mapping[str, pa.Table | StoredRows], *, minimum_coverage: float) -> list[Finding]:
    """Outcome of every check of CHECKS for one benchmark's raw tables.

    minimum_coverage: share of items x models cells with a score below which coverage is worth a look, 0…1.
    """
    from capeval_pipeline.storage.stored_rows import as_table

    return [
        _files(as_table(raw["raw.files"])),
        _coverage(raw["raw.generations"], minimum_coverage),
        _costs(raw["raw.generations"]),
        _names(as_table(raw["raw.models"]), as_table(raw["raw.files"])),
    ]


def _warned(files: pa.Table) -> Counter[str]:
    """Warnings of the files that count, by reason."""
    rows = [row for row in files.to_pylist() if row["replaced_by_file_id"] is None and row["warnings"]]
    return sum((Counter(json.loads(row["warnings"])) for row in rows), Counter())


def _files(files: pa.Table) -> Finding:
    rows = [row for row in files.to_pylist() if row["replaced_by_file_id"] is None]
    refused = sorted(row["path"] for row in rows if row["status"] == "refused")
    n_rejected = sum(row["n_rejected"] for row in rows if row["status"] != "refused")
    if refused or n_rejected:
        named = f" ({refused[0]}{' and others' if len(refused) > 1 else ''})" if refused else ""
        sentence = (
            f"{len(refused)} of {counted(len(rows), 'file')} refused{named} and "
            f"{counted(n_rejected, 'record')} of the others "
            "rejected; marts.ingest_report says why."
        )
        return Finding("raw.files", FILES_CHECK, False, sentence)
    return Finding(
        "raw.files", FILES_CHECK, True, f"Every record of {counted(len(rows), 'file')} was kept or is a repetition."
    )


def _coverage(generations: pa.Table | StoredRows, minimum: float) -> Finding:
    from capeval_pipeline.storage.stored_rows import STREAMED, StoredRows, count_different

    with scratch_connection(STREAMED) as connection:
        relation = "generations"
        if isinstance(generations, StoredRows):
            relation = generations.relation()
        else:
            connection.register(relation, generations)
        n_items, n_models, n_cells, last = connection.execute(
            f"""select
                (select count(*) from (select distinct item_id from {relation})),
                (select count(*) from (select distinct model_id from {relation})),
                count(*), coalesce(max(generation_id), 0)
            from {relation} where status = 'ok'"""
        ).fetchall()[0]
        if not n_items * n_models:
            sentence = "There are no answers, so no cell misses its score."
            return Finding("raw.generations", COVERAGE_CHECK, True, sentence)
        if last:  # else each row is a cell of its own
            n_cells = count_different(connection, f"(from {relation} where status = 'ok')", ["item_id", "model_id"])
    share = n_cells / (n_items * n_models)
    sentence = (
        f"Scores in {n_cells:,} of {counted(n_items * n_models, 'cell')} ({share:.1%}); {minimum:.0%} are asked for."
    )
    return Finding("raw.generations", COVERAGE_CHECK, share >= minimum, sentence)


def _costs(generations: pa.Table | StoredRows) -> Finding:
    """Models whose reported costs are 0 without being declared free, or the same for every answer."""
    from capeval_pipeline.storage.stored_rows import STREAMED, StoredRows

    with scratch_connection(STREAMED) as connection:
        relation = "generations"
        if isinstance(generations, StoredRows):
            relation = generations.relation()
        else:
            connection.register(relation, generations)
        rows = connection.execute(
            f"""select model_id,
                count(*) filter (where cost_reported_usd = 0 and cost_usd is null) as n_zero,
                count(cost_usd) >= 5 and max(cost_usd) > 0 and min(cost_usd) = max(cost_usd) as is_constant
            from {relation} group by model_id order by model_id"""
        ).fetchall()
    zero = [model for model, n_zero, _ in rows if n_zero]
    constant = [model for model, _, is_constant in rows if is_constant]
    doubts = [
        f"{what} of {names[0]}" + (f" and {counted(len(names) - 1, 'more model')}" if len(names) > 1 else "")
        for what, names in (("0 as the cost", zero), ("one cost for all answers", constant))
        if names
    ]
    if doubts:
        sentence = f"The files report {' and '.join(doubts)}; marts.cost_audit counts them."
        return Finding("raw.generations", COSTS_CHECK, False, sentence)
    return Finding(
        "raw.generations", COSTS_CHECK, True, "No cost is 0 without being declared, none is always the same."
    )


def _names(models: pa.Table, files: pa.Table) -> Finding:
    alike = [
        f"{row['model_id']} like {row['look_alike_of']}"
        for row in models.to_pylist()
        if row["look_alike_of"] is not None
    ]
    if alike:
        sentence = (
            f"Names that look like another ({len(alike)}): {alike[0]}; `models:` in benchmark.yml joins spellings."
        )
        return Finding("raw.models", NAMES_CHECK, False, sentence)
    if _warned(files)["same_vector"]:
        sentence = "Two names have the same scores on all items they share; raw.rejections names them (same_vector)."
        return Finding("raw.models", NAMES_CHECK, False, sentence)
    return Finding("raw.models", NAMES_CHECK, True, f"No two of {counted(models.num_rows, 'name')} look alike.")
