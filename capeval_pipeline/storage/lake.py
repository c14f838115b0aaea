"""The lake: every table of the layers raw … simulations as a Delta table, one part a benchmark.

The only module that imports deltalake. It keeps Arrow tables and gives them back; what a table must look like stands
in tables.py, who may write it in the assets.
"""

import hashlib
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from capeval_pipeline.errors import LakeError
from capeval_pipeline.storage.connections import ComputeLimits, memory_connection, text_literal

PARTITION_COLUMN = "benchmark_key"
"""Never part of a table's contract: Delta keeps it in the folder name, outside the Parquet files."""

CHECKPOINT_INTERVAL = 20
"""Commits between checkpoints; opening a table costs 10 ms for every 1,000 log entries since the last one."""

WRITE_ATTEMPTS = 8
"""Another process may commit to the same part between our read and our write; the whole write is tried again."""

UNPARTITIONED = "all"

# Paths become URLs inside delta-rs, which does not survive these; a percent sign before two hex digits is decoded.
_UNUSABLE_IN_PATHS = re.compile(r"[\[\]^|\\\x00-\x1f]|%[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class PartVersion:
    """What was written: content hash, Delta version, number of rows."""

    data_version: str
    delta_version: int
    n_rows: int


def benchmark_key(benchmark_id: str) -> str:
    """Folder-safe key of a benchmark: an ASCII slug of at most 40 characters, '-' and 10 hex digits of its SHA-256.

    Partition folders are percent-encoded, so a long name in another script would not fit a file name.
    """
    plain = unicodedata.normalize("NFKD", benchmark_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:40] or "benchmark"
    return f"{slug}-{hashlib.sha256(benchmark_id.encode()).hexdigest()[:10]}"


def content_version(table: pa.Table, *, without: Sequence[str] = ()) -> str:
    """Hash of a table's rows in any order, their number, and its schema; the columns in `without` do not count.

    The sum of 60 bits of each row's MD5: adding is order-free, so files and rows may come in any order.
    """
    counted = table.drop_columns([name for name in without if name in table.column_names])
    schema = ",".join(f"{field.name}:{_type_name(field.type)}" for field in counted.schema)
    with memory_connection(ComputeLimits(n_threads=2)) as connection:
        connection.register("counted", counted)
        row = connection.execute(
            "select count(*), coalesce(sum(('0x' || md5(to_json(counted)::varchar)[:15])::hugeint), 0) from counted"
        ).fetchone()
    assert row is not None
    return hashlib.sha256(f"{schema}|{row[0]}|{row[1]}".encode()).hexdigest()[:24]


class Lake:
    """Delta tables under one root, `<root>/<layer>/<table>`, partitioned by benchmark.

    Keys are "layer.table". A part is replaced by one atomic commit; readers see the old part or the new one. Raises
    LakeError for a local root whose name Delta tables cannot have.
    """

    def __init__(self, root: str | Path, *, log_retention_days: int = 7) -> None:
        self.root = str(root).rstrip("/")
        self._is_local = "://" not in self.root
        unusable = _UNUSABLE_IN_PATHS.search(self.root) if self._is_local else None
        if unusable:
            raise LakeError(
                f"{self.root}: tables cannot be kept under a folder with {unusable.group()!r} in its name; "
                "name another one with --data"
            )
        self._log_retention = f"interval {log_retention_days} days"

    def uri(self, key: str) -> str:
        """Where a table lies; key is "layer.table"."""
        layer, name = key.split(".", 1)
        return f"{self.root}/{layer}/{name}"

    def has_table(self, key: str) -> bool:
        """True if anything was ever written to the table."""
        return self._open(key) is not None

    def write(
        self, key: str, benchmark_id: str | None, table: pa.Table, *, clock_columns: Sequence[str] = ()
    ) -> PartVersion:
        """Replace a benchmark's part (or, with None, the whole of an unpartitioned table) in one commit.

        Columns the table did not have are added, other parts keep theirs. Raises LakeError when the disk or the
        object store refuses, or when other writers won WRITE_ATTEMPTS times running.
        """
        part = UNPARTITIONED if benchmark_id is None else benchmark_key(benchmark_id)
        version = content_version(table, without=clock_columns)
        keyed = table.append_column(PARTITION_COLUMN, pa.array([part] * table.num_rows, pa.string()))
        for attempt in range(WRITE_ATTEMPTS):
            try:
                delta_version = self._commit(key, part, keyed, version)
            except CommitFailedError:
                time.sleep(0.05 * 2**attempt)
                continue
            except (DeltaError, OSError) as error:
                raise LakeError(
                    f"{key}: writing benchmark {benchmark_id!r} failed, nothing was changed: {_first_line(error)}"
                ) from error
            return PartVersion(version, delta_version, table.num_rows)
        raise LakeError(
            f"{key}: {WRITE_ATTEMPTS} writes of benchmark {benchmark_id!r} lost against another run; run again"
        )

    def read(self, key: str, benchmark_id: str | None = None) -> pa.Table:
        """Rows of one benchmark's part, or of all parts with None; without files an empty table of the known schema.

        Raises LakeError if the table was never written or a file of it is missing or damaged.
        """
        opened = self._open(key)
        if opened is None:
            raise LakeError(f"{key}: never written; `capeval run` makes it")
        paths = self._paths(opened, benchmark_id)
        if not paths:
            return _without_key(pa.schema(opened.schema().to_arrow()).empty_table())
        with memory_connection() as connection:
            try:
                found = connection.sql(parquet_scan(paths)).to_arrow_table()
                return _with_columns_of(_without_key(pa.schema(opened.schema().to_arrow()).empty_table()), found)
            except Exception as error:
                raise LakeError(
                    f"{key}: a file of benchmark {benchmark_id!r} cannot be read ({_first_line(error)}); "
                    f"expected a whole Parquet file. `capeval run --rebuild {key}` makes it again"
                ) from error

    def schema(self, key: str) -> pa.Schema | None:
        """Arrow schema without the partition column, None if never written."""
        opened = self._open(key)
        return None if opened is None else _without_key(pa.schema(opened.schema().to_arrow()).empty_table()).schema

    def paths(self, key: str, benchmark_id: str | None = None) -> list[str]:
        """Absolute paths or URIs of a part's current files, sorted; empty where nothing is."""
        opened = self._open(key)
        return [] if opened is None else self._paths(opened, benchmark_id)

    def delta_version(self, key: str) -> int | None:
        """Number of the table's latest commit, None if never written."""
        opened = self._open(key)
        return None if opened is None else opened.version()

    def remove_unreferenced(self, key: str, *, keep: Sequence[str] = (), retention_hours: float = 168.0) -> int:
        """Delete files that no version within the retention names; returns how many were deleted.

        keep: files that must stay whatever their age. Where one of those to go is among them, none goes this time.
        """
        opened = self._open(key)
        if opened is None:
            return 0
        condemned = opened.vacuum(retention_hours=int(retention_hours), enforce_retention_duration=False, full=True)
        if any(path.endswith(name) for name in condemned for path in keep):
            return 0
        return len(
            opened.vacuum(
                retention_hours=int(retention_hours), enforce_retention_duration=False, full=True, dry_run=False
            )
        )

    def _open(self, key: str) -> DeltaTable | None:
        try:
            return DeltaTable(self.uri(key))
        except TableNotFoundError:
            return None

    def _paths(self, opened: DeltaTable, benchmark_id: str | None) -> list[str]:
        if benchmark_id is None:
            uris = opened.file_uris()
        else:
            uris = opened.file_uris(file_pruning_predicate=[(PARTITION_COLUMN, "=", benchmark_key(benchmark_id))])
        # Local ones come percent-encoded though they are no URLs: a blank in a folder's name would lead nowhere.
        return sorted(unquote(uri) for uri in uris) if self._is_local else sorted(uris)

    def _commit(self, key: str, part: str, keyed: pa.Table, version: str) -> int:
        uri = self.uri(key)
        properties = CommitProperties(custom_metadata={"capeval_part": part, "capeval_data_version": version})
        if self._open(key) is None:
            write_deltalake(
                uri,
                _streamed(keyed),
                mode="append",
                partition_by=[PARTITION_COLUMN],
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                    "delta.logRetentionDuration": self._log_retention,
                },
                commit_properties=properties,
            )
        else:
            # schema_mode="overwrite" with a predicate would drop the columns of other benchmarks' parts
            write_deltalake(
                uri,
                _streamed(keyed),
                mode="overwrite",
                predicate=f"{PARTITION_COLUMN} = {text_literal(part)}",
                schema_mode="merge",
                commit_properties=properties,
            )
        return int(DeltaTable(uri).version())


def _streamed(table: pa.Table) -> pa.RecordBatchReader:
    """The table in small batches: handed over whole, the writer keeps a second copy of it."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=65_536))


def parquet_scan(paths: Sequence[str]) -> str:
    """SQL that reads Parquet files as one relation by column name; the folder name adds no column."""
    listed = ", ".join(text_literal(path) for path in paths)
    return f"select * from read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def _without_key(table: pa.Table) -> pa.Table:
    return table.drop_columns([PARTITION_COLUMN]) if PARTITION_COLUMN in table.column_names else table


def _with_columns_of(complete: pa.Table, found: pa.Table) -> pa.Table:
    """Found rows with the columns a later part brought into the table, NULL, in the table's order."""
    columns = [
        found.column(field.name) if field.name in found.column_names else pa.nulls(found.num_rows, field.type)
        for field in complete.schema
    ]
    return pa.table(dict(zip(complete.column_names, columns, strict=True)))


def _type_name(type_: pa.DataType) -> str:
    """A type's name without the name of a list's element, which differs between writers and means nothing."""
    return f"list<{_type_name(type_.value_type)}>" if pa.types.is_list(type_) else str(type_)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
