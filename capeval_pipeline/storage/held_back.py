"""Benchmarks whose news contradicts itself: what stands published of them instead, their last sound rows.

Others' news must not wait for them. Rows are taken from the database published before: of its tables the rows, of its
views the lake's files that they name, which stay for as long as a published database names them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from capeval_pipeline.storage.connections import quoted, text_literal
from capeval_pipeline.storage.lake import part_folder
from capeval_pipeline.storage.tables import TABLES

HELD_BACK = "meta.held_back"
_PARQUET_PATH = re.compile(r"'((?:[^']|'')+\.parquet)'")


@dataclass(frozen=True)
class HeldBack:
    """A benchmark that is not published as it is now.

    reason : the claim its rows break. is_left_out : it has no sound rows, so that nothing of it is published.
    """

    benchmark_id: str
    reason: str
    is_left_out: bool = False

    @property
    def sentence(self) -> str:
        """What it means for a reader, and why."""
        if self.is_left_out:
            return f"Left out of the database, no sound rows of it are known: {self.reason}."
        return f"Shown as last published; what is there now contradicts itself: {self.reason}."


@dataclass(frozen=True)
class LastSound:
    """Table → rows, and table → files of the lake, of the benchmarks that are held back; those it has anything of."""

    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    benchmark_ids: frozenset[str] = frozenset()


def last_sound(
    published: duckdb.DuckDBPyConnection, benchmark_ids: Collection[str], schemas: Mapping[str, pa.Schema]
) -> LastSound:
    """What a published database holds of benchmarks, in the columns of `schemas`; columns it did not have are NULL.

    Raises duckdb.Error where it cannot be had, a value that no longer fits its column included.
    """
    kinds = {
        f"{schema}.{name}": kind
        for schema, name, kind in published.execute(
            "select table_schema, table_name, table_type from information_schema.tables"
        ).fetchall()
    }
    rows: dict[str, pa.Table] = {}
    files: dict[str, list[str]] = {}
    folders = {f"/{part_folder(benchmark_id)}/": benchmark_id for benchmark_id in benchmark_ids}
    there: set[str] = set()
    names = ", ".join(text_literal(benchmark_id) for benchmark_id in sorted(benchmark_ids))
    for key, schema in schemas.items():
        if key not in kinds or key == HELD_BACK or "benchmark_id" not in schema.names:
            continue
        if kinds[key] == "VIEW":
            whose = {
                path: folders[folder] for path in files_of_view(published, key) for folder in folders if folder in path
            }
            files[key] = sorted(whose)
            there |= set(whose.values())
            continue
        found = published.sql(f"select * from {quoted_key(key)} where benchmark_id in ({names})").to_arrow_table()
        columns = [
            found.column(field_.name) if field_.name in found.column_names else pa.nulls(found.num_rows, field_.type)
            for field_ in schema
        ]
        rows[key] = pa.table(dict(zip(schema.names, columns, strict=True))).cast(schema)
        there |= set(rows[key].column("benchmark_id").to_pylist())
    return LastSound(rows, files, frozenset(there))


def files_of_view(published: duckdb.DuckDBPyConnection, key: str = "") -> list[str]:
    """Paths of the lake's files that a published view reads, all views with ""."""
    own = f"and schema_name || '.' || view_name = {text_literal(key)}" if key else ""
    found = published.execute(f"select sql from duckdb_views() where not internal {own}").fetchall()
    return [path.replace("''", "'") for (sql,) in found for path in _PARQUET_PATH.findall(sql)]


def held_back(published: duckdb.DuckDBPyConnection) -> list[HeldBack]:
    """Benchmarks that a published database does not show as they are; none in one of an older release."""
    known = "select 1 from information_schema.tables where table_schema = 'meta' and table_name = 'held_back'"
    if not published.execute(known).fetchall():
        return []
    found = published.execute(
        f"select benchmark_id, reason, is_left_out from {HELD_BACK} order by benchmark_id"
    ).fetchall()
    return [HeldBack(*row) for row in found]


def held_back_table(held: Collection[HeldBack]) -> pa.Table:
    """The table `meta.held_back`."""
    rows = [
        {
            "benchmark_id": entry.benchmark_id,
            "reason": entry.reason,
            "is_left_out": entry.is_left_out,
            "sentence": entry.sentence,
        }
        for entry in sorted(held, key=lambda entry: entry.benchmark_id)
    ]
    return pa.Table.from_pylist(rows, TABLES[HELD_BACK].arrow_schema)


def quoted_key(key: str) -> str:
    """A table's key as SQL."""
    layer, name = key.split(".", 1)
    return f"{quoted(layer)}.{quoted(name)}"
