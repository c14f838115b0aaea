"""In-memory DuckDB connections with limits. Files are opened by warehouse.py alone."""

from dataclasses import dataclass
from pathlib import Path

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
    return connection


def text_literal(text: str) -> str:
    """A SQL text literal, quotes doubled."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A SQL identifier that keeps its spelling."""
    return '"' + name.replace('"', '""') + '"'
