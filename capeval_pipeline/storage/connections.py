"""In-memory DuckDB connections with limits. Files are opened by warehouse.py alone."""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class ComputeLimits:
    """What one DuckDB connection may use.

    n_threads is 1 where a result feeds a content hash: a parallel sum of floats depends, in its last bits, on how
    the rows were dealt out.
    """

    memory_limit: str = "3GB"
    n_threads: int = 1
    spill_folder: Path | None = None


def memory_connection(limits: ComputeLimits | None = None) -> duckdb.DuckDBPyConnection:
    """Open an in-memory connection: UTC, no extension is fetched, memory and threads as in limits."""
    import duckdb  # a tenth of a second, which the definitions do without

    limits = limits or ComputeLimits()
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": limits.memory_limit,
            "threads": limits.n_threads,
            "autoinstall_known_extensions": "false",
        },
    )
    if limits.spill_folder is not None:
        limits.spill_folder.mkdir(parents=True, exist_ok=True)
        connection.execute(f"set temp_directory = {text_literal(str(limits.spill_folder))}")
    connection.execute("set timezone = 'UTC'")
    # files are read once: keeping their pages would fill the memory up to its limit
    connection.execute("set enable_external_file_cache = false")
    return connection


_OPEN_DATABASES = 4
_databases: OrderedDict[tuple[int, ComputeLimits], duckdb.DuckDBPyConnection] = OrderedDict()
_databases_lock = threading.Lock()
_schema_numbers = itertools.count()


@contextmanager
def scratch_connection(limits: ComputeLimits | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """As memory_connection, for one piece of work after another: a schema of its own in a database that stays open.

    Opening a database takes 16 ms of CPU, this one. Those of equal limits share the database and its memory.
    """
    key = (os.getpid(), limits or ComputeLimits())  # a forked child must not use its parent's
    with _databases_lock:
        if key not in _databases:
            _databases[key] = memory_connection(limits)
        _databases.move_to_end(key)
        while len(_databases) > _OPEN_DATABASES:
            _databases.popitem(last=False)
        connection = _databases[key].cursor()
    schema = f"scratch_{next(_schema_numbers)}"
    try:
        connection.execute(f"create schema {schema}")
        connection.execute(f"set search_path = '{schema}'")
        connection.execute("set timezone = 'UTC'")
        yield connection
    finally:
        try:
            connection.execute(f"drop schema if exists {schema} cascade")
        finally:
            connection.close()


def text_literal(text: str) -> str:
    """A SQL text literal, quotes doubled."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A SQL identifier that keeps its spelling."""
    return '"' + name.replace('"', '""') + '"'
