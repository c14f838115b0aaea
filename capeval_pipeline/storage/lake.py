"""The lake: every table of the layers raw … simulations as a Delta table, one part a benchmark.

The only module that imports deltalake. It keeps Arrow tables and gives them back; what a table must look like stands
in tables.py, who may write it in the assets.
"""

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from capeval_pipeline.errors import DISK_IS_FULL, LakeError, is_disk_full
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.benchmark_key import benchmark_key
from capeval_pipeline.storage.connections import scratch_connection, text_literal
from capeval_pipeline.storage.content_versions import content_version, type_name
from capeval_pipeline.storage.object_copies import ObjectCopies
from capeval_pipeline.storage.stored_rows import BATCH_ROWS, StoredRows

PARTITION_COLUMN = "benchmark_key"
"""Never part of a table's contract: Delta keeps it in the folder name, outside the Parquet files."""

CHECKPOINT_INTERVAL = 20
"""Commits between checkpoints; opening a table costs 10 ms for every 1,000 log entries since the last one."""

WRITE_ATTEMPTS = 8
"""Another process may commit to the same part between our read and our write; the whole write is tried again."""

UNPARTITIONED = "all"

OBJECT_STORE = {"max_retries": "6", "retry_timeout": "60s"}
"""Patience with an object store. Address and credentials come from the environment, as delta-rs names them; commits
rest on conditional puts, which it asks for by itself."""

# Paths become URLs inside delta-rs, which does not survive these; a percent sign before two hex digits is decoded.
_UNUSABLE_IN_PATHS = re.compile(r"[\[\]^|\\\x00-\x1f]|%[0-9A-Fa-f]{2}")


_TREE = re.compile(r"\x1b\[\d+m|↳")


@dataclass(frozen=True)
class PartVersion:
    """What was written: content hash, Delta version, number of rows."""

    data_version: str
    delta_version: int
    n_rows: int


def part_folder(benchmark_id: str) -> str:
    """Name of the folder in which a table keeps a benchmark's part."""
    return f"{PARTITION_COLUMN}={benchmark_key(benchmark_id)}"


class Lake:
    """Delta tables under one root, `<root>/<layer>/<table>`, partitioned by benchmark.

    Keys are "layer.table". A part is replaced by one atomic commit; readers see the old part or the new one. The root
    is a folder or the URI of an object store; then files are read through local copies under `copies`. Raises
    LakeError for a local root whose name Delta tables cannot have, and for a URI without a folder for copies.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        log_retention_days: int = 7,
        versions: Mapping[str, int] | None = None,
        copies: Path | None = None,
    ) -> None:
        self._versions = versions
        self.is_local = "://" not in str(root)
        # without links in it, as delta-rs names the files: a part's own files must be known as such
        self.root = str(Path(root).resolve()) if self.is_local else str(root).rstrip("/")
        if not self.is_local and copies is None:
            raise LakeError(f"{self.root}: a lake in an object store needs a folder for copies of its files")
        self._copies_folder = copies
        self._options = None if self.is_local else OBJECT_STORE
        unusable = _UNUSABLE_IN_PATHS.search(self.root) if self.is_local else None
        if unusable:
            raise LakeError(
                f"{self.root}: tables cannot be kept under a folder with {unusable.group()!r} in its name; "
                "name another one with --data"
            )
        self._log_retention_days = log_retention_days
        self._log_retention = f"interval {log_retention_days} days"

    def pinned(self, versions: Mapping[str, int]) -> "Lake":
        """The same lake as it was: each table at a version, tables without one as never written. For reading only."""
        return Lake(
            self.root, log_retention_days=self._log_retention_days, versions=versions, copies=self._copies_folder
        )

    def uri(self, key: str) -> str:
        """Where a table lies; key is "layer.table"."""
        layer, name = key.split(".", 1)
        return f"{self.root}/{layer}/{name}"

    def has_table(self, key: str) -> bool:
        """True if anything was ever written to the table."""
        return self._open(key) is not None

    def write(
        self, key: str, benchmark_id: str | None, table: pa.Table | StoredRows, *, clock_columns: Sequence[str] = ()
    ) -> PartVersion:
        """Replace a benchmark's part (or, with None, the whole of an unpartitioned table) in one commit.

        Columns the table did not have are added, other parts keep theirs. Files of stored rows are taken over, those
        that lie in the part already stay. Raises LakeError when the disk or the object store refuses, or when other
        writers won WRITE_ATTEMPTS times running.
        """
        if benchmark_id is not None:
            return self.write_parts(key, {benchmark_id: table}, clock_columns=clock_columns)[benchmark_id]
        version = content_version(table, without=clock_columns)
        return self._write_part(key, "all", UNPARTITIONED, table, version)

    def write_parts(
        self, key: str, parts: Mapping[str, pa.Table | StoredRows], *, clock_columns: Sequence[str] = ()
    ) -> dict[str, PartVersion]:
        """Replace the parts of any number of benchmarks in one commit; raises as `write` does.

        Nothing of stored rows is held: their files become the lake's by their names. In an object store, and where a
        table gets new columns, every part is a commit of its own. (Else the files are not delta-rs's to write: on a
        full disk its writer panics on stderr.)
        """
        rows = dict(parts)
        versions = {name: content_version(part, without=clock_columns) for name, part in rows.items()}
        n_rows = {name: part.num_rows for name, part in rows.items()}
        if not rows:
            return {}
        schema = pa.unify_schemas([part.schema for part in rows.values()])
        named = ", ".join(repr(name) for name in list(rows)[:3])
        if not self.is_local or not self._retried(key, named, lambda: self._has_columns(key, schema)):
            return {
                name: self._write_part(key, repr(name), benchmark_key(name), part, versions[name])
                for name, part in rows.items()
            }
        with_key = schema.append(pa.field(PARTITION_COLUMN, pa.string()))
        added = {name: self._take_over(key, name, part) for name, part in rows.items()}
        properties = CommitProperties(
            custom_metadata={
                "capeval_part": ",".join(map(benchmark_key, rows)),
                "capeval_data_version": ",".join(versions.values()),
            }
        )
        delta_version = self._retried(key, named, lambda: self._exchange(key, with_key, rows, added, properties))
        return {name: PartVersion(versions[name], delta_version, n_rows[name]) for name in rows}

    def _write_part(self, key: str, named: str, part: str, rows: pa.Table | StoredRows, version: str) -> PartVersion:
        delta_version = self._retried(key, named, lambda: self._commit(key, part, rows, version))
        return PartVersion(version, delta_version, rows.num_rows)

    def _retried(self, key: str, named: str, commit: Callable[[], int]) -> int:
        """What a commit gives back, tried again while other writers win. Raises LakeError."""
        for attempt in range(WRITE_ATTEMPTS):
            try:
                return commit()
            except CommitFailedError:
                time.sleep(0.05 * 2**attempt)
                continue
            except (DeltaError, OSError) as error:
                raise LakeError(
                    f"{key}: writing benchmark {named} failed, nothing was changed: {_first_line(error)}"
                ) from error
        raise LakeError(f"{key}: {WRITE_ATTEMPTS} writes of benchmark {named} lost against another run; run again")

    def _has_columns(self, key: str, schema: pa.Schema) -> bool:
        """Whether a table, made now if it was not there, has all columns of a schema."""
        opened = self._open(key)
        if opened is None:
            opened = DeltaTable.create(
                self.uri(key),
                schema.append(pa.field(PARTITION_COLUMN, pa.string())),
                mode="ignore",
                storage_options=self._options,
                partition_by=[PARTITION_COLUMN],
                configuration=self._configuration(),
            )
        present = pa.schema(opened.schema().to_arrow())
        for field in schema:
            if field.name in present.names and type_name(present.field(field.name).type) != type_name(field.type):
                raise LakeError(
                    f"{key}: another release wrote column {field.name!r} as {present.field(field.name).type}, this one "
                    f"writes {field.type}. So delete {self.uri(key)}, and {self.repair(key)}"
                )
        return set(schema.names) <= set(present.names)

    def _take_over(self, key: str, benchmark_id: str, part: pa.Table | StoredRows) -> list[Path]:
        """Files of a part under the names they have in the lake; what lies elsewhere is moved there."""
        folder = Path(self.uri(key)) / f"{PARTITION_COLUMN}={benchmark_key(benchmark_id)}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if isinstance(part, pa.Table):
                path = folder / _file_name()
                if part.num_rows:
                    pq.write_table(part, path, compression="zstd", compression_level=1)
                return [path] if part.num_rows else []
            paths = []
            for source in map(Path, part.paths):
                path = source if source.parent == folder else folder / _file_name()
                if path != source:
                    shutil.move(source, path)
                paths.append(path)
        except OSError as error:
            raise LakeError(
                f"{key}: writing benchmark {benchmark_id!r} failed, nothing was changed: {_first_line(error)}"
            ) from error
        return paths

    def _exchange(
        self,
        key: str,
        schema: pa.Schema,
        parts: Mapping[str, pa.Table | StoredRows],
        files: Mapping[str, Sequence[Path]],
        properties: CommitProperties,
    ) -> int:
        """Commit that the parts consist of these files and of no others."""
        opened = DeltaTable(self.uri(key), storage_options=self._options)
        actions: list[AddAction | RemoveAction] = []
        for benchmark_id in parts:
            part = benchmark_key(benchmark_id)
            present = set(self._paths(opened, benchmark_id))
            wanted = {str(path) for path in files[benchmark_id]}
            for path in sorted(wanted - present):
                status = Path(path).stat()
                actions.append(
                    AddAction(
                        path=quote(f"{PARTITION_COLUMN}={part}/{Path(path).name}", safe="/="),
                        size=status.st_size,
                        partition_values={PARTITION_COLUMN: part},
                        modification_time=int(status.st_mtime * 1000),
                        data_change=True,
                        stats=json.dumps({"numRecords": pq.read_metadata(path).num_rows}),
                    )
                )
            for path in sorted(present - wanted):
                actions.append(
                    RemoveAction(
                        path=f"{PARTITION_COLUMN}={part}/{Path(path).name}",
                        data_change=True,
                        deletion_timestamp=int(time.time() * 1000),
                        partition_values={PARTITION_COLUMN: part},
                    )
                )
        if actions:
            opened.create_write_transaction(actions, "append", schema, [PARTITION_COLUMN], commit_properties=properties)
        return int(DeltaTable(self.uri(key), storage_options=self._options).version())

    def stored(self, key: str, schema: pa.Schema, benchmark_id: str) -> StoredRows:
        """A benchmark's part as rows in files, with the columns of `schema`; without files if it was never written."""
        return StoredRows(schema, tuple(self.paths(key, benchmark_id)))

    def read(self, key: str, benchmark_id: str | None = None) -> pa.Table:
        """Rows of one benchmark's part, or of all parts with None; without files an empty table of the known schema.

        Raises LakeError if the table was never written or a file of it is missing or damaged.
        """
        opened = self._open(key)
        if opened is None:
            raise LakeError(f"{key}: never written; `capeval run` makes it")
        paths = self._paths(opened, benchmark_id)
        if not paths:
            return _no_rows(opened)
        with scratch_connection() as connection:
            try:
                found = connection.sql(parquet_scan(paths)).to_arrow_table()
                return _with_columns_of(_no_rows(opened), found)
            except Exception as error:
                raise LakeError(
                    f"{key}: a file of benchmark {benchmark_id!r} cannot be read ({_first_line(error)}); "
                    f"expected a whole Parquet file. {self.repair(key)}"
                ) from error

    def repair(self, key: str) -> str:
        """What brings a damaged table back, as a clause: derived tables can be made again, what was read can be not."""
        if key == "readings.files":  # the ledger, by which files would be known
            return f"delete {self.root}/readings and {self.root}/raw, then ingest all files again"
        if key.startswith("readings."):
            return "`capeval ingest --forget` takes the benchmark's files out, then ingest them again"
        return f"`capeval run --rebuild {key}` makes it again"

    def table_in(self, text: str) -> str | None:
        """The table one of whose files a text names, as a library's message about a damaged one does."""
        found = re.search(rf"{re.escape(self.root)}/(\w+)/(\w+)/", text)
        return f"{found[1]}.{found[2]}" if found else None

    def schema(self, key: str) -> pa.Schema | None:
        """Arrow schema without the partition column, None if never written."""
        opened = self._open(key)
        return None if opened is None else _no_rows(opened).schema

    def paths(self, key: str, benchmark_id: str | None = None) -> list[str]:
        """Absolute paths or URIs of a part's current files, sorted; empty where nothing is."""
        opened = self._open(key)
        return [] if opened is None else self._paths(opened, benchmark_id)

    def delta_version(self, key: str) -> int | None:
        """Number of the table's latest commit, None if never written; of a pinned lake the one it is pinned to."""
        if self._versions is not None:
            return self._versions.get(key)
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
        if not self.is_local:
            table = key.replace(".", "/")
            self._copies.forget_all_but(table, {uri.removeprefix(f"{self.root}/") for uri in opened.file_uris()})
        return len(
            opened.vacuum(
                retention_hours=int(retention_hours), enforce_retention_duration=False, full=True, dry_run=False
            )
        )

    def _open(self, key: str) -> DeltaTable | None:
        if self._versions is None:
            try:
                return DeltaTable(self.uri(key), storage_options=self._options)
            except TableNotFoundError:
                return None
            except (DeltaError, OSError) as error:
                if self.is_local:
                    repair = self.repair(key)
                    if not repair.startswith("delete"):
                        repair = f"delete {self.uri(key)}, and {repair}"
                    raise LakeError(f"{key}: its log cannot be read ({_first_line(error)}). So {repair}") from error
                raise LakeError(f"{key}: {self.root} does not answer ({_first_line(error)})") from error
        version = self._versions.get(key)
        if version is None:
            return None
        try:
            return DeltaTable(self.uri(key), version=version, storage_options=self._options)
        except DeltaError as error:
            raise LakeError(f"{key}: version {version} is gone ({_first_line(error)})") from error

    def _paths(self, opened: DeltaTable, benchmark_id: str | None) -> list[str]:
        if benchmark_id is None:
            uris = opened.file_uris()
        else:
            uris = opened.file_uris(file_pruning_predicate=[(PARTITION_COLUMN, "=", benchmark_key(benchmark_id))])
        if self.is_local:
            # They come percent-encoded though they are no URLs: a blank in a folder's name would lead nowhere.
            return sorted(unquote(uri) for uri in uris)
        return self._copied(opened, uris)

    @cached_property
    def _copies(self) -> ObjectCopies:
        """Only asked for where the lake lies in an object store."""
        assert self._copies_folder is not None
        store = pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.root, self._options))
        return ObjectCopies(store, self._copies_folder)

    def _copied(self, opened: DeltaTable, uris: Sequence[str]) -> list[str]:
        """Local copies of a table's files, sorted."""
        table = opened.table_uri.rstrip("/")
        key = ".".join(table.rsplit("/", 2)[1:])
        sizes = pa.table(opened.get_add_actions(flatten=True))
        n_bytes = dict(zip(sizes.column("path").to_pylist(), sizes.column("size_bytes").to_pylist(), strict=True))
        names = sorted(uri.removeprefix(f"{table}/") for uri in uris)
        try:
            return [self._copies.path(f"{key.replace('.', '/')}/{name}", n_bytes[name]) for name in names]
        except LakeError as error:
            raise LakeError(f"{key}: {error}; {self.repair(key)}") from error
        except OSError as error:
            if is_disk_full(error):  # of the folder with the copies
                raise
            raise LakeError(f"{key}: {self.root} does not answer ({_first_line(error)})") from error

    def _configuration(self) -> dict[str, str | None]:
        return {
            "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
            "delta.logRetentionDuration": self._log_retention,
        }

    def _commit(self, key: str, part: str, rows: pa.Table | StoredRows, version: str) -> int:
        uri = self.uri(key)
        properties = CommitProperties(custom_metadata={"capeval_part": part, "capeval_data_version": version})
        if self._open(key) is None:
            write_deltalake(
                uri,
                _streamed(rows, part),
                mode="append",
                storage_options=self._options,
                partition_by=[PARTITION_COLUMN],
                configuration=self._configuration(),
                commit_properties=properties,
            )
        else:
            # schema_mode="overwrite" with a predicate would drop the columns of other benchmarks' parts
            write_deltalake(
                uri,
                _streamed(rows, part),
                mode="overwrite",
                storage_options=self._options,
                predicate=f"{PARTITION_COLUMN} = {text_literal(part)}",
                schema_mode="merge",
                commit_properties=properties,
            )
        return int(DeltaTable(uri, storage_options=self._options).version())


def _file_name() -> str:
    """A name no other file has; later ones sort after earlier ones, and after those delta-rs names."""
    return f"part-{time.time_ns():020d}-{uuid.uuid4()}.parquet"


def _streamed(rows: pa.Table | StoredRows, part: str) -> pa.RecordBatchReader:
    """Rows with their part's key in small batches: handed over whole, the writer keeps a second copy of them."""
    batches = rows.batches() if isinstance(rows, StoredRows) else rows.to_batches(max_chunksize=BATCH_ROWS)
    schema = rows.schema.append(pa.field(PARTITION_COLUMN, pa.string()))
    keyed = (
        pa.RecordBatch.from_arrays([*batch.columns, pa.array([part] * batch.num_rows, pa.string())], schema=schema)
        for batch in batches
    )
    return pa.RecordBatchReader.from_batches(schema, keyed)


def parquet_scan(paths: Sequence[str]) -> str:
    """SQL that reads Parquet files as one relation by column name; the folder name adds no column."""
    listed = ", ".join(text_literal(path) for path in paths)
    return f"select * from read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def _no_rows(opened: DeltaTable) -> pa.Table:
    """The table's columns without the key. Not `empty_table()`, which imports pandas: a quarter of a second."""
    return _without_key(pa.Table.from_batches([], schema=pa.schema(opened.schema().to_arrow())))


def _without_key(table: pa.Table) -> pa.Table:
    return table.drop_columns([PARTITION_COLUMN]) if PARTITION_COLUMN in table.column_names else table


def _with_columns_of(complete: pa.Table, found: pa.Table) -> pa.Table:
    """Found rows with the columns a later part brought into the table, NULL, in the table's order."""
    columns = [
        found.column(field.name) if field.name in found.column_names else pa.nulls(found.num_rows, field.type)
        for field in complete.schema
    ]
    return pa.table(dict(zip(complete.column_names, columns, strict=True)))


def _first_line(error: Exception) -> str:
    """A sentence: the first line, and of an object store's tree of causes, which arrows join, the innermost too."""
    if is_disk_full(error):
        return DISK_IS_FULL
    lines = [_TREE.sub("", line).strip() for line in str(error).strip().splitlines()]
    if not lines:
        return type(error).__name__
    return f"{lines[0]}: {' '.join(lines[1:])[-200:]}" if "↳" in str(error) else lines[0]


def lake_of(settings: Settings) -> Lake:
    """The lake of a workspace, in its folder or where the setting lake_uri says."""
    return Lake(settings.lake_root, log_retention_days=settings.log_retention_days, copies=settings.cache / "lake")
