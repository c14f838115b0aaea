"""Builds and publishes capeval.duckdb: the only module that opens a DuckDB file.

A new file is built aside and put in place by replacing a link, so that nobody who holds the old one, reading or
writing, is in the way or loses it. A plain replace would not do: a write-ahead log that an analyst's connection left
beside the old file would make the new one unreadable; DuckDB puts that log beside the real file, behind the link.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.errors import BrokenClaims, CapevalError, LakeError, is_disk_full, one_sentence
from capeval_pipeline.storage import publications
from capeval_pipeline.storage.claims import Findings
from capeval_pipeline.storage.connections import ComputeLimits, memory_connection, text_literal
from capeval_pipeline.storage.database_contents import FilesOf, check_claims, create_layers, create_marts
from capeval_pipeline.storage.held_back import HELD_BACK, HeldBack, LastSound, held_back, held_back_table, last_sound
from capeval_pipeline.storage.lake import Lake, part_folder
from capeval_pipeline.storage.older_parts import complete
from capeval_pipeline.storage.publications import Publication
from capeval_pipeline.storage.sql_models import SqlProject
from capeval_pipeline.storage.tables import TABLES

STORAGE_VERSION = "v1.5.0"
"""Oldest DuckDB that must be able to open the published file."""


@dataclass(frozen=True)
class Published:
    """The new file; of each mart the version of its content and what its claims found; of each table built the rows.

    Claims that only benchmarks break which are held back count as broken, though nothing published breaks them.
    """

    path: Path
    data_versions: Mapping[str, str]
    n_rows: Mapping[str, int]
    claims: Mapping[str, tuple[bool, str]]
    held_back: Sequence[HeldBack] = ()


@dataclass(frozen=True)
class _Built:
    data_versions: Mapping[str, str]
    n_rows: Mapping[str, int]
    claims: Mapping[str, Findings]


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
        before the lake is read: else the slower of two runs would publish the older state. A benchmark whose rows
        break a claim is held back: its last sound rows stay, or it is left out. Raises BrokenClaims where it cannot
        be told whose rows they are: the link then stays where it was.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sweep_unfinished()
        versions_of = {key: version for key in schemas if (version := lake.delta_version(key)) is not None}
        lake = lake.pinned(versions_of)
        name = f"capeval-{uuid.uuid4().hex[:12]}.duckdb"
        unfinished = self._folder / f"{name}.building"
        held: dict[str, HeldBack] = {}
        claims: dict[str, tuple[bool, str]] = {}
        try:
            while True:  # each round holds back more benchmarks, or leaves out what was held back
                sound, held = self._last_sound(held, schemas)
                built = self._build(unfinished, lake, schemas, project, extra, held, sound)
                claims = {key: found.told for key, found in built.claims.items()} | {
                    key: found for key, found in claims.items() if not found[0]
                }
                newly = _held_back_by(built.claims, held)
                if not newly:
                    break
                held |= newly
                unfinished.unlink()
            finished = self._folder / name
            publication = publications.made_now(self._folder, versions_of, held)
            unfinished.rename(finished)
            # before the swap: a disk that is full now must not leave a publication that nobody can look back to
            noted = publications.note(self._folder, publication)
            try:
                self._point_link_to(finished)
            except BaseException:
                noted.unlink(missing_ok=True)
                raise
        except CapevalError:
            self._sweep_unfinished()
            raise
        except (duckdb.Error, OSError) as error:
            self._sweep_unfinished()
            damaged = lake.table_in(str(error))
            if damaged and not is_disk_full(error):
                raise LakeError(
                    f"{damaged}: a file of it cannot be read ({one_sentence(error)}); {lake.repair(damaged)}"
                ) from error
            raise CapevalError(
                f"building {self._link.name} failed, the published one is untouched: {one_sentence(error)}"
            ) from error
        self._forget_old(finished)
        n_rows = {**built.n_rows, **{key: table.num_rows for key, table in extra.items()}, HELD_BACK: len(held)}
        return Published(finished, built.data_versions, n_rows, claims, tuple(held.values()))

    def _last_sound(
        self, held: Mapping[str, HeldBack], schemas: Mapping[str, pa.Schema]
    ) -> tuple[LastSound, dict[str, HeldBack]]:
        """What is published of those held back, and who they are: of whom nothing can be had is left out."""
        kept = {name for name, entry in held.items() if not entry.is_left_out}
        sound = LastSound()
        if kept and self._link.exists():
            try:
                with open_published(self._link, self._limits) as published:
                    sound = last_sound(published, kept, schemas)
            except (duckdb.Error, pa.ArrowException):  # of another release, or damaged
                sound = LastSound()
        return sound, {
            name: replace(entry, is_left_out=name not in sound.benchmark_ids) for name, entry in held.items()
        }

    def _build(
        self,
        unfinished: Path,
        lake: Lake,
        schemas: Mapping[str, pa.Schema],
        project: SqlProject,
        extra: Mapping[str, pa.Table],
        held: Mapping[str, HeldBack],
        sound: LastSound,
    ) -> _Built:
        """Write the file, but for the benchmarks that are held back, of which it gets what is sound."""
        handed = {key: _exchanged(table, held, sound.rows.get(key)) for key, table in extra.items()}
        handed[HELD_BACK] = held_back_table(held.values())
        now = _files_without(lake, held)
        with memory_connection(self._limits) as connection:
            options = f"storage_version {text_literal(STORAGE_VERSION)}"
            connection.execute(f"attach {text_literal(str(unfinished))} as warehouse ({options})")
            connection.execute("use warehouse")
            create_layers(
                connection,
                lambda key: [*now(key), *sound.files.get(key, ())],
                schemas,
                handed,
                with_views=lake.is_local,
                kept=sound.rows,
            )
            complete(connection, [table for key, table in TABLES.items() if key in schemas], lake.uri)
            versions, n_rows = create_marts(connection, project.by_layer["marts"])
            claims = check_claims(connection, project)
            connection.execute("use memory")
            connection.execute("detach warehouse")
        return _Built(versions, n_rows, claims)

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
    now = _files_without(lake.pinned(publication.delta_versions), publication.held_back)
    then = {name: lake.pinned(versions) for name, versions in publication.held_back.items()}
    try:
        create_layers(
            connection,
            lambda key: [*now(key), *(path for name, old in then.items() for path in old.paths(key, name))],
            schemas,
            {},
            with_views=lake.is_local,
        )
        complete(connection, [table for key, table in TABLES.items() if key in schemas], lake.uri)
        create_marts(connection, project.by_layer["marts"])
    except LakeError as error:
        connection.close()
        moment = publication.published_at.isoformat(sep=" ", timespec="seconds")
        raise LakeError(
            f"the database published at {moment} cannot be looked back to any more: {str(error).split(';')[0]}; "
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
    try:
        return pa.Table.from_pylist(_previous_ranks(database, strengths), schema)
    except duckdb.Error:  # damaged, or of another release: what is about to be published replaces it
        return schema.empty_table()


def _previous_ranks(database: Path, strengths: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    with open_published(database) as connection:
        published = dict(connection.execute(PUBLISHED_STRENGTHS).fetchall())
        for query, is_kept in ((KEPT_RANKS, True), (PUBLISHED_RANKS, False)):
            for row in connection.sql(query).to_arrow_table().to_pylist():
                version = published.get(row["benchmark_id"])
                if (strengths.get(row["benchmark_id"]) == version) == is_kept and version is not None:
                    rows.append({"data_version": version} | row)
    return sorted(rows, key=lambda row: (row["benchmark_id"], row["model_id"]))


PUBLISHED_STRENGTHS = """
    select benchmark_id, data_version from meta.data_versions where "schema" = 'estimates' and "table" = 'strengths'
"""
KEPT_RANKS = "select * from meta.previous_leaderboard"
PUBLISHED_RANKS = """
    select benchmark_id, model_id, rank, rank_lower, rank_upper, mean_score from marts.leaderboard
"""


def _files_without(lake: Lake, benchmark_ids: Collection[str]) -> FilesOf:
    """The lake's files of a table, but for those of some benchmarks."""
    folders = [f"/{part_folder(benchmark_id)}/" for benchmark_id in benchmark_ids]
    return lambda key: [path for path in lake.paths(key) if not any(folder in path for folder in folders)]


def _exchanged(table: pa.Table, held: Mapping[str, HeldBack], sound: pa.Table | None) -> pa.Table:
    """A table that is handed over, with the last sound rows of benchmarks that are held back instead of their own."""
    if not held or "benchmark_id" not in table.column_names:
        return table
    own = pc.is_in(table.column("benchmark_id"), value_set=pa.array(sorted(held), pa.string()))
    others = table.filter(pc.invert(own))
    return others if sound is None else pa.concat_tables([others, sound.cast(table.schema)])


def _held_back_by(claims: Mapping[str, Findings], held: Mapping[str, HeldBack]) -> dict[str, HeldBack]:
    """Benchmarks whose rows break a claim: held back now or, if they are already, left out.

    Raises BrokenClaims where that does not help: rows at fault of no benchmark, or of one that is left out.
    """
    at_fault: dict[str, str] = {}
    for found in claims.values():
        at_fault = found.at_fault | at_fault
    is_hopeless = any(name in held and held[name].is_left_out for name in at_fault)
    if is_hopeless or not all(found.is_known_whose for found in claims.values()):
        raise BrokenClaims({key: found.told for key, found in claims.items()})
    return {
        name: replace(held[name], is_left_out=True) if name in held else HeldBack(name, reason)
        for name, reason in at_fault.items()
    }


def benchmarks_held_back(database: Path) -> list[HeldBack]:
    """Benchmarks that the published database does not show as they are; none where nothing readable is published."""
    if not database.exists():
        return []
    try:
        with open_published(database) as connection:
            return held_back(connection)
    except duckdb.Error:
        return []


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
