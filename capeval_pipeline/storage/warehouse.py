"""Builds and publishes capeval.duckdb: the only module that opens a DuckDB file.

A new file is built aside and put in place by replacing a link, so that nobody who holds the old one, reading or
writing, is in the way or loses it. A plain replace would not do: a write-ahead log that an analyst's connection left
beside the old file would make the new one unreadable; DuckDB puts that log beside the real file, behind the link.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from capeval_pipeline.errors import BrokenClaims, CapevalError, LakeError
from capeval_pipeline.storage import publications
from capeval_pipeline.storage.claims import claims_found
from capeval_pipeline.storage.connections import ComputeLimits, memory_connection, quoted, text_literal
from capeval_pipeline.storage.lake import Lake, content_version, parquet_scan
from capeval_pipeline.storage.publications import Publication
from capeval_pipeline.storage.sql_models import SqlModel, SqlProject
from capeval_pipeline.storage.tables import TABLES

STORAGE_VERSION = "v1.5.0"
"""Oldest DuckDB that must be able to open the published file."""

VIEW_LAYERS = frozenset({"raw", "readings", "staging", "intermediate"})
"""Layers published as views over the lake's files: copying them would double the largest tables.

Of a lake in an object store they are copied: those who query the database shall not need its keys.
"""

VIEW_TABLES = frozenset({"estimates.cluster_responsibilities", "estimates.item_embeddings"})
UNPUBLISHED_LAYERS = frozenset({"readings"})


@dataclass(frozen=True)
class Published:
    """The new file; of each mart the version of its content and what its claims found; of each table built the rows."""

    path: Path
    data_versions: Mapping[str, str]
    n_rows: Mapping[str, int]
    claims: Mapping[str, tuple[bool, str]]


class Warehouse:
    """The published database of one workspace: `link` is what people open, `folder` holds the files behind it."""

    def __init__(self, link: Path, folder: Path, limits: ComputeLimits, *, n_old: int = 2) -> None:
        self._link = link
        self._folder = folder
        self._limits = limits
        self._n_old = n_old

    def publish(
        self,
        lake: Lake,
        schemas: Mapping[str, pa.Schema],
        project: SqlProject,
        extra: Mapping[str, pa.Table],
    ) -> Published:
        """Build a new file from the lake and the project's marts, then swap the link to it.

        schemas: every table to publish, key → schema, so that a table nobody has filled yet exists, empty.
        extra: tables that are handed over instead of read from the lake. The caller holds the publishing lock, taken
        before the lake is read: else the slower of two runs would publish the older state. Raises BrokenClaims if a
        claim does not hold: the link then stays where it was.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sweep_unfinished()
        versions_of = {key: version for key in schemas if (version := lake.delta_version(key)) is not None}
        lake = lake.pinned(versions_of)
        name = f"capeval-{uuid.uuid4().hex[:12]}.duckdb"
        unfinished = self._folder / f"{name}.building"
        try:
            with memory_connection(self._limits) as connection:
                options = f"storage_version {text_literal(STORAGE_VERSION)}"
                connection.execute(f"attach {text_literal(str(unfinished))} as warehouse ({options})")
                connection.execute("use warehouse")
                _create_layers(connection, lake, schemas, extra)
                marts = project.by_layer["marts"]
                versions, n_rows = _create_marts(connection, marts)
                claims = _check_claims(connection, project)
                connection.execute("use memory")
                connection.execute("detach warehouse")
            if not all(held for held, _ in claims.values()):
                raise BrokenClaims(claims)
        except CapevalError:
            unfinished.unlink(missing_ok=True)
            raise
        except duckdb.Error as error:
            unfinished.unlink(missing_ok=True)
            raise CapevalError(
                f"building {self._link.name} failed, the published one is untouched: {str(error).splitlines()[0]}"
            ) from error
        finished = self._folder / name
        unfinished.rename(finished)
        self._point_link_to(finished)
        self._forget_old(finished)
        publications.note(self._folder, versions_of)
        return Published(finished, versions, n_rows | {key: table.num_rows for key, table in extra.items()}, claims)

    def _point_link_to(self, finished: Path) -> None:
        fresh = self._link.with_name(f".{self._link.name}-{uuid.uuid4().hex[:8]}")
        target = Path(os.path.relpath(finished, self._link.parent))
        try:
            fresh.symlink_to(target)
        except (OSError, NotImplementedError):  # no links here: a copy, and no stray log that would shadow it
            self._link.with_name(self._link.name + ".wal").unlink(missing_ok=True)
            fresh.write_bytes(finished.read_bytes())
        os.replace(fresh, self._link)

    def _sweep_unfinished(self) -> None:
        for path in (*self._folder.glob("*.building*"), *self._link.parent.glob(f".{self._link.name}-*")):
            path.unlink(missing_ok=True)

    def _forget_old(self, newest: Path) -> None:
        files = sorted(self._folder.glob("capeval-*.duckdb"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in [path for path in files if path != newest][self._n_old :]:
            path.unlink(missing_ok=True)
            path.with_name(path.name + ".wal").unlink(missing_ok=True)


def open_published(database: Path, limits: ComputeLimits | None = None) -> duckdb.DuckDBPyConnection:
    """Read-only connection to the file behind the link; the file stays readable while newer ones are published.

    Where another process has the file open for writing, DuckDB lets nobody else in; then a copy is read.
    Raises CapevalError where nothing has been published yet.
    """
    if not database.exists():
        raise CapevalError(f"{database}: nothing is published yet; `capeval run` builds it")
    limits = limits or ComputeLimits(n_threads=2)
    path = database.resolve()
    try:
        return _open_read_only(path, limits)
    except duckdb.IOException as error:
        if not _is_locked(error):
            raise
    return _open_copy(path, limits)


def _open_read_only(path: Path, limits: ComputeLimits) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        str(path),
        read_only=True,
        config={
            "memory_limit": limits.memory_limit,
            "threads": limits.n_threads,
            "autoinstall_known_extensions": "false",
        },
    )
    connection.execute("set timezone = 'UTC'")
    return connection


def _is_locked(error: duckdb.IOException) -> bool:
    return "set lock" in str(error)


def _open_copy(path: Path, limits: ComputeLimits) -> duckdb.DuckDBPyConnection:
    """The file as its last checkpoint left it; what is written now stands in a log beside it, which is not copied."""
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=path.parent, ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
            return _open_read_only(copy, limits)  # the open file outlives its name
        except (OSError, duckdb.Error) as error:
            raise CapevalError(
                f"{path}: another process has it open for writing and it cannot be copied ({error}); close it there"
            ) from error


def open_as_of(
    lake: Lake, publication: Publication, schemas: Mapping[str, pa.Schema], project: SqlProject, limits: ComputeLimits
) -> duckdb.DuckDBPyConnection:
    """The database as it was published then, rebuilt in memory: the lake's tables of that time under today's marts.

    Tables that only a publish hands over (meta.*) are empty. Raises LakeError where a version is no longer kept.
    """
    connection = memory_connection(limits)
    try:
        _create_layers(connection, lake.pinned(publication.delta_versions), schemas, {})
        _create_marts(connection, project.by_layer["marts"])
    except LakeError as error:
        connection.close()
        then = publication.published_at.isoformat(sep=" ", timespec="seconds")
        raise LakeError(
            f"the database published at {then} cannot be looked back to any more: {str(error).split(';')[0]}; "
            "files are kept for log_retention_days"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def previous_leaderboard(database: Path, strengths: Mapping[str, str]) -> pa.Table:
    """Ranks before the strengths of each benchmark last changed, for `meta.previous_leaderboard`.

    strengths: benchmark_id → data version of estimates.strengths that is about to be published. Where it is the one
    already published, what stood as previous there stays; else the published ranks become the previous ones.
    """
    schema = TABLES["meta.previous_leaderboard"].arrow_schema
    if not database.exists():
        return schema.empty_table()
    rows = []
    with open_published(database) as connection:
        published = dict(connection.execute(PUBLISHED_STRENGTHS).fetchall())
        for query, is_kept in ((KEPT_RANKS, True), (PUBLISHED_RANKS, False)):
            for row in connection.sql(query).to_arrow_table().to_pylist():
                version = published.get(row["benchmark_id"])
                if (strengths.get(row["benchmark_id"]) == version) == is_kept and version is not None:
                    rows.append({"data_version": version} | row)
    return pa.Table.from_pylist(sorted(rows, key=lambda row: (row["benchmark_id"], row["model_id"])), schema)


PUBLISHED_STRENGTHS = """
    select benchmark_id, data_version from meta.data_versions where "schema" = 'estimates' and "table" = 'strengths'
"""
KEPT_RANKS = "select * from meta.previous_leaderboard"
PUBLISHED_RANKS = """
    select benchmark_id, model_id, rank, rank_lower, rank_upper, mean_score from marts.leaderboard
"""


def _create_layers(
    connection: duckdb.DuckDBPyConnection, lake: Lake, schemas: Mapping[str, pa.Schema], extra: Mapping[str, pa.Table]
) -> None:
    for layer in sorted({key.split(".")[0] for key in (*schemas, *extra)}):
        connection.execute(f"create schema if not exists {quoted(layer)}")
    for key in sorted({*schemas, *extra}):
        layer, name = key.split(".", 1)
        target = f"{quoted(layer)}.{quoted(name)}"
        handed = extra.get(key)
        paths = [] if handed is not None else lake.paths(key)
        is_view = lake.is_local and (layer in VIEW_LAYERS or key in VIEW_TABLES)
        kind = "view" if is_view else "table"
        if paths:
            try:
                connection.execute(f"create {kind} {target} as {parquet_scan(paths)}")
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                raise LakeError(
                    f"{key}: a file of it cannot be read ({str(error).splitlines()[0]}); "
                    f"`capeval run --rebuild {key}` makes it again"
                ) from error
        else:
            connection.register("handed", handed if handed is not None else schemas[key].empty_table())
            connection.execute(f"create table {target} as select * from handed")
            connection.unregister("handed")


def _create_marts(
    connection: duckdb.DuckDBPyConnection, marts: Sequence[SqlModel]
) -> tuple[dict[str, str], dict[str, int]]:
    connection.execute("create schema if not exists marts")
    versions: dict[str, str] = {}
    n_rows: dict[str, int] = {}
    for model in marts:
        try:
            connection.execute(f"create table {model.key} as {model.sql}")
        except duckdb.Error as error:
            raise CapevalError(f"{model.key}: its SQL failed: {str(error).splitlines()[0]}") from error
        table = connection.sql(f"select * from {model.key}").to_arrow_table()
        versions[model.key], n_rows[model.key] = content_version(table), table.num_rows
    return versions, n_rows


def _check_claims(connection: duckdb.DuckDBPyConnection, project: SqlProject) -> dict[str, tuple[bool, str]]:
    """Claims of each mart; the assertions across tables are told with the first mart, which stands for the build."""
    marts = project.by_layer["marts"]
    found = {model.key: claims_found(connection, model.claims) for model in marts}
    if marts:
        first = marts[0].key
        held, across = claims_found(connection, project.assertions)
        both = [found[first], (held, f"Across tables: {across}")]
        told = [sentence for is_held, sentence in both if not is_held] or [sentence for _, sentence in both]
        found[first] = (found[first][0] and held, " ".join(told))
    return found


def table_schemas(project: SqlProject) -> dict[str, pa.Schema]:
    """Schema of every table: Python's from their contracts, SQL models' by running them over empty tables."""
    schemas = {key: table.arrow_schema for key, table in TABLES.items()}
    with memory_connection() as connection:
        for key, schema in schemas.items():
            connection.execute(f"create schema if not exists {key.split('.')[0]}")
            connection.register("nothing", schema.empty_table())
            connection.execute(f"create table {key} as select * from nothing")
            connection.unregister("nothing")
        for key, model in project.models.items():
            connection.execute(f"create schema if not exists {model.schema}")
            connection.execute(f"create table {key} as {model.sql}")
            schemas[key] = connection.sql(f"select * from {key}").to_arrow_table().schema
    return schemas
