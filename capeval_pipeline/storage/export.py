"""A benchmark's published tables as plain Parquet files, for those who read them elsewhere."""

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import duckdb

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.storage.connections import quoted, text_literal

WITH_BENCHMARK = """
    select table_schema, table_name from information_schema.columns
    where column_name = 'benchmark_id' and table_catalog = current_database()
    order by all
"""


@dataclass(frozen=True)
class Exported:
    """One file: the table, where it lies, its rows."""

    table: str
    path: Path
    n_rows: int


def export_benchmark(connection: duckdb.DuckDBPyConnection, benchmark_id: str, folder: Path) -> list[Exported]:
    """Write every published table that has rows of the benchmark to `<folder>/<schema>/<table>.parquet`.

    The folder appears whole or not at all. Raises CapevalError where it exists with something in it, or where it
    cannot be written.
    """
    folder = folder.absolute()  # "." has no name to put another one beside
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CapevalError(f"{folder}: not empty; expected a new folder, so that nothing there is mixed or lost")
    aside = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    exported = []
    try:
        for schema, name in connection.execute(WITH_BENCHMARK).fetchall():
            rows = f"select * from {quoted(schema)}.{quoted(name)} where benchmark_id = {text_literal(benchmark_id)}"
            target = Path(schema) / f"{name}.parquet"
            (aside / schema).mkdir(parents=True, exist_ok=True)
            copied = connection.execute(f"copy ({rows}) to {text_literal(str(aside / target))} (format parquet)")
            [(n_rows,)] = copied.fetchall()
            if n_rows:
                exported.append(Exported(f"{schema}.{name}", folder / target, n_rows))
            else:
                (aside / target).unlink()
        for empty in [path for path in aside.iterdir() if not any(path.iterdir())]:
            empty.rmdir()
        if folder.exists():
            folder.rmdir()
        os.replace(aside, folder)
    except (duckdb.Error, OSError) as error:
        raise CapevalError(f"{folder}: cannot be written: {str(error).splitlines()[0]}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return exported
