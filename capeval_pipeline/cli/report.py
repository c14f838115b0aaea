"""`capeval report`: the HTML report, one self-contained file a benchmark, and an index."""

import json
from pathlib import Path
from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation, progress
from capeval_pipeline.errors import CapevalError, UsageError


def report(
    context: typer.Context,
    benchmark: Annotated[str, typer.Option("--benchmark", "-b", help="Only this benchmark.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write the one report to this file instead of the reports folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The written files as a JSON list.")] = False,
) -> None:
    """Write the report of every benchmark, or of one; the files need no network and open from disk.

    Examples: `capeval report` · `capeval report --benchmark support_desk --out report.html`
    """
    call = invocation(context)
    call.check_workspace()
    from capeval_pipeline.reporting import queries
    from capeval_pipeline.reporting.benchmark_names import match_benchmark
    from capeval_pipeline.reporting.page import render_page
    from capeval_pipeline.reporting.queries import ask
    from capeval_pipeline.reporting.writing import write_pages, write_text
    from capeval_pipeline.storage.warehouse import open_published

    with open_published(call.settings.database) as connection, progress() as say:
        known = [row["benchmark_id"] for row in ask(connection, queries.BENCHMARKS).rows]
        chosen = [match_benchmark(known, benchmark)] if benchmark else known
        if out is not None and len(chosen) != 1:
            raise UsageError(f"--out takes one report and these are {len(chosen)}; name one with --benchmark")
        try:
            if out is None:
                written = write_pages(connection, call.settings.reports, chosen, say)
            else:
                write_text(out, render_page(connection, chosen[0]))
                written = [out]
        except OSError as error:
            raise CapevalError(f"the report cannot be written: {error}") from error
    if as_json:
        typer.echo(json.dumps([str(path) for path in written], ensure_ascii=False))
        return
    for path in written:
        typer.echo(str(path))
