"""Changes of several tables that are seen whole or not at all, though each table is a commit of its own.

Before the first table is written a note says at which version each is; the note goes when the last one is written and
told. Whoever finds a note whose writer is gone puts the benchmark's parts of those versions back: the lake deletes no
file until its retention is over. Writers and finders hold the benchmark's lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from capeval_pipeline.errors import LakeError, one_sentence
from capeval_pipeline.storage.locks import UNFINISHED_SUFFIX
from capeval_pipeline.storage.tables import TABLES

if TYPE_CHECKING:
    from capeval_pipeline.storage.lake import Lake, PartVersion


def note_before(path: Path, lake: Lake, benchmark_id: str, keys: Sequence[str]) -> None:
    """Write down the versions of tables before a benchmark's parts of them are changed."""
    noted = {"benchmark_id": benchmark_id, "versions": {key: lake.delta_version(key) for key in keys}}
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(noted), encoding="utf-8")
    os.replace(aside, path)


def noted_benchmark(path: Path) -> str | None:
    """Whose change a note is about, None if it has gone meanwhile. Raises LakeError."""
    noted = _read(path)
    return None if noted is None else str(noted["benchmark_id"])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        noted: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return noted if {"benchmark_id", "versions"} <= set(noted) else _cannot_undo(path, "the note is not whole")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        return _cannot_undo(path, f"the note cannot be read: {one_sentence(error)}")


def _cannot_undo(path: Path, why: str) -> NoReturn:
    whose = path.name.removesuffix(UNFINISHED_SUFFIX)
    raise LakeError(
        f"{whose}: an interrupted change cannot be undone ({why}); delete {path} and ingest the benchmark's files again"
    )


def put_back(path: Path, lake: Lake) -> dict[str, PartVersion]:
    """Make a benchmark's parts what they were when the note was written; what they are now, by table that changed.

    Nothing where there is no note; it stays until the caller has told of what came back. A table that the change was
    the first to write stays, empty. Raises LakeError.
    """
    from capeval_pipeline.storage.stored_rows import StoredRows  # brings Arrow, which definitions do without

    noted = _read(path)
    if noted is None:
        return {}
    benchmark_id, versions = noted["benchmark_id"], noted["versions"]
    before = lake.pinned({key: version for key, version in versions.items() if version is not None})
    found = {}
    for key, version in versions.items():
        schema = lake.schema(key)
        if schema is None or lake.delta_version(key) == version:
            continue
        clock = TABLES[key].clock_columns if key in TABLES else ()
        try:
            files = before.paths(key, benchmark_id)
        except LakeError as error:
            _cannot_undo(path, one_sentence(error))
        if lake.is_local and (gone := [file for file in files if not Path(file).exists()]):
            _cannot_undo(path, f"{gone[0]} is gone")
        found[key] = lake.write(key, benchmark_id, StoredRows(schema, tuple(files)), clock_columns=clock)
    return found


def versions_at(lake: Lake, keys: Collection[str]) -> dict[str, int]:
    """Present versions of tables, those that were never written apart."""
    return {key: version for key in keys if (version := lake.delta_version(key)) is not None}


def lake_at_rest(
    lake: Lake, note: Path, lock: Callable[[], AbstractContextManager[None]], keys: Collection[str]
) -> Lake:
    """The lake of a moment in which no change of a benchmark was half done, for reading its parts of some tables.

    note : the benchmark's. lock : takes the benchmark's lock. A change under way is waited for, but not a step that
    still computes; one that was cut short is put back, and its note stays for whoever tells of it. Raises LakeError.
    """
    while True:
        before = versions_at(lake, keys)
        if note.exists():
            with lock():
                put_back(note, lake)
                return lake.pinned(versions_at(lake, keys))
        if versions_at(lake, keys) == before and not note.exists():
            return lake.pinned(before)
