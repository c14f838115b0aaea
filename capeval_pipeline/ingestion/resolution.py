"""From what each file said to the tables of the layer raw: the rules between files, as one order-free function.

`resolve` sees all readings of one benchmark and nothing else. Files are ranked by their own time of writing, then by
file_id, so the tables do not depend on the order in which files came; taking a file's readings out and resolving again
gives what a build without that file would have given.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.ingestion import between_files, told_between_files
from capeval_pipeline.ingestion.benchmark_facts import benchmark_facts, benchmark_rows, contradictions, without
from capeval_pipeline.ingestion.costs import register_prices
from capeval_pipeline.ingestion.parts import PART_TABLES
from capeval_pipeline.ingestion.registry import model_rows
from capeval_pipeline.storage.connections import ComputeLimits, scratch_connection, text_literal
from capeval_pipeline.storage.stored_rows import StoredRows, copied
from capeval_pipeline.storage.tables import TABLES

RAW_KEYS = (
    "raw.benchmarks", "raw.items", "raw.models", "raw.generations", "raw.judgments", "raw.metric_values",
    "raw.rejections", "raw.files",
)  # fmt: skip
"""Tables of resolve, in the order in which they are written: the ledger last."""

LEAN_MEMORY = "400MB"
"""What DuckDB is given first; the rest is spilled. With less than all rows of ten million answers take."""

Readings = Mapping[str, StoredRows]
"""Readings of one benchmark by table name: files, items, models, generations, judgments, metric_values, rejections."""

RawTables = dict[str, pa.Table | StoredRows]
"""Raw tables of one benchmark by key; those that grow with the files are rows in Parquet files, sorted by grain."""


def resolve(readings: Readings, folder: Path, limits: ComputeLimits | None = None) -> RawTables:
    """The eight raw tables of one benchmark, by key, in RAW_KEYS order; large ones are written to `folder`.

    Same key, status and score in two files is a repetition; ok beats unscored, error and invalid; different ok scores
    refuse each other unless `on_conflict` says otherwise. Tried with LEAN_MEMORY, then with what `limits` allow.
    """
    limits = limits or ComputeLimits(n_threads=2)
    limits = replace(limits, spill_folder=limits.spill_folder or folder / "spill")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _resolve(readings, folder, replace(limits, memory_limit=LEAN_MEMORY))
    except duckdb.OutOfMemoryException:
        return _resolve(readings, folder, limits)


def _resolve(readings: Readings, folder: Path, limits: ComputeLimits) -> RawTables:
    ledger = readings["files"].table()
    refused = contradictions(ledger.to_pylist())
    if refused:
        ledger = without(ledger, refused)
    files = ledger.to_pylist()
    facts = benchmark_facts(files)
    benchmark_id = files[0]["benchmark_id"] if files else ""
    with scratch_connection(limits) as connection:

        def kept(key: str, sql: str) -> StoredRows:
            schema = _schema(key)
            owned = f"select {text_literal(benchmark_id)} as benchmark_id, * from ({sql})"
            return copied(connection, owned, schema, folder / f"{key}.parquet")

        for name in PART_TABLES:
            if name != "files":
                connection.execute(f"create view read_{name} as from {readings[name].relation()}")
        connection.register("read_files", ledger)
        between_files.rank_files(connection)
        between_files.identify(connection)
        may_meet = between_files.do_files_meet(connection)
        between_files.number_answers(connection, facts)
        between_files.judge_cells(connection, facts, may_meet=may_meet)
        register_prices(connection, facts)
        items = kept("raw.items", between_files.items_sql(connection))
        tables: RawTables = {
            # a name under which nothing could be read makes no benchmark; its refusals are told all the same
            "raw.benchmarks": benchmark_rows(files if items.paths else [], facts),
            "raw.items": items,
            "raw.models": model_rows(connection),
            "raw.generations": kept("raw.generations", between_files.generations_sql(connection)),
            "raw.metric_values": kept(
                "raw.metric_values", between_files.metric_values_sql(connection, may_meet=may_meet)
            ),
            "raw.judgments": kept("raw.judgments", between_files.judgments_sql(connection, may_meet=may_meet)),
        }
        told_between_files.remark(connection, facts, refused)
        tables["raw.rejections"] = kept("raw.rejections", told_between_files.rejections_sql(connection))
        tables["raw.files"] = told_between_files.file_rows(connection)
    return {key: _owned(key, tables[key], benchmark_id) for key in RAW_KEYS}


def _schema(key: str) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in TABLES[key].columns])


def _owned(key: str, table: pa.Table | StoredRows, benchmark_id: str) -> pa.Table | StoredRows:
    """A small table in the columns of its contract."""
    if isinstance(table, StoredRows):
        return table
    columns = []
    for field in _schema(key):
        if field.name == "benchmark_id":
            columns.append(pa.repeat(pa.scalar(benchmark_id, field.type), table.num_rows))
        else:
            columns.append(table.column(field.name).cast(field.type))
    return pa.table(columns, schema=_schema(key))


def check_ledger(table: pa.Table) -> None:
    """Raise AssertionError unless read = kept + rejected + duplicate in every row of raw.files."""
    for row in table.to_pylist():
        if row["n_read"] != row["n_kept"] + row["n_rejected"] + row["n_duplicate"] or row["n_kept"] < 0:
            raise AssertionError(f"raw.files: counts of {row['path']} do not add up: {row}")


def by_file(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table with file_id, grouped by it."""
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        grouped[row["file_id"]].append(row)
    return grouped
