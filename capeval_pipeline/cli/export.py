"""`capeval export`: a benchmark's tables as Parquet files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.cli.reading import BENCHMARK_HELP, published_benchmark
from capeval_pipeline.counting import counted


def export(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    to: Annotated[Path, typer.Option("--to", help="A new folder; one Parquet file a table goes there.")],
    as_json: Annotated[bool, typer.Option("--json", help="The files and their rows as a JSON list.")] = False,
) -> None:
    """Write what is published of a benchmark as Parquet files, SCHEMA/TABLE.parquet; empty tables are left out.

    Example: `capeval export support_desk --to support_desk_tables`
    """
    call = invocation(context)
    from capeval_pipeline.storage.export import export_benchmark

    with published_benchmark(call, benchmark) as found:
        files = export_benchmark(found.connection, found.benchmark_id, to)
    if as_json:
        entries = [{"table": entry.table, "path": str(entry.path), "n_rows": entry.n_rows} for entry in files]
        typer.echo(json.dumps(entries, ensure_ascii=False))
        return
    n_rows = sum(entry.n_rows for entry in files)
    typer.echo(f"{to}: {counted(len(files), 'table')}, {counted(n_rows, 'row')} of {found.benchmark_id}")
