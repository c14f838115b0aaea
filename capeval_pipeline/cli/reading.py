"""What the reading commands share: a benchmark of the published database, its sentences, and views as tables or JSON.

They import no dagster: an answer that is already computed should not wait for an orchestrator to load.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from capeval_pipeline.cli.invocation import Invocation, print_table
from capeval_pipeline.counting import counted
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.benchmark_names import match_benchmark
from capeval_pipeline.reporting.numbers import errors_count
from capeval_pipeline.reporting.queries import ask
from capeval_pipeline.reporting.verdict_list import Sentence, about, in_order

if TYPE_CHECKING:
    import duckdb

    from capeval_pipeline.reporting.views import View

BENCHMARK_HELP = "A benchmark: its id, or its name while that has one version."
TOP_HELP = "Rows of a table to print; 0 for all. --json always gives all."


@dataclass(frozen=True)
class Benchmark:
    """One benchmark of the published database."""

    connection: duckdb.DuckDBPyConnection
    benchmark_id: str

    def sentences(self, questions: Sequence[str]) -> list[Sentence]:
        """Its sentences on some questions, in the report's order."""
        return about(in_order(ask(self.connection, queries.VERDICTS, self.benchmark_id).rows), questions)

    def rows(self, view: View) -> list[dict[str, Any]]:
        """Rows of a view, all columns of its query."""
        return ask(self.connection, view.query, self.benchmark_id).rows


@contextmanager
def published_benchmark(call: Invocation, name: str) -> Iterator[Benchmark]:
    """Open the published database and find a benchmark in it.

    Raises CapevalError where nothing is published, UsageError on a name that fits none or several.
    """
    from capeval_pipeline.storage.warehouse import open_published

    call.check_workspace()
    with open_published(call.settings.database) as connection:
        known = [row["benchmark_id"] for row in ask(connection, queries.BENCHMARKS).rows]
        yield Benchmark(connection, match_benchmark(known, name))


def show(
    call: Invocation, name: str, questions: Sequence[str], views: Sequence[View], *, as_json: bool, top: int
) -> None:
    """Print the sentences on the questions and the views, or the same as one JSON object."""
    with published_benchmark(call, name) as benchmark:
        sentences = benchmark.sentences(questions)
        tables = [(view, benchmark.rows(view)) for view in views]
        policy = ask(benchmark.connection, queries.ERROR_POLICY, benchmark.benchmark_id).rows[0]["error_policy"]
    if as_json:
        found: dict[str, Any] = {
            "benchmark_id": benchmark.benchmark_id,
            "error_policy": policy,
            "verdicts": [
                {
                    "question": entry.question,
                    "sentence": entry.sentence,
                    "is_computed": entry.is_computed,
                    "source_table": entry.source_table or None,
                }
                for entry in sentences
            ],
        }
        typer.echo(json.dumps(found | {view.name: rows for view, rows in tables}, default=str, ensure_ascii=False))
        return
    # two questions may have one reason why there is no answer
    for sentence in dict.fromkeys(entry.sentence for entry in sentences):
        typer.echo(sentence)
    for view, rows in tables:
        if rows:
            print_view(view, rows, top)
    if policy:
        typer.echo(f"{benchmark.benchmark_id}: {errors_count(policy)}")


def print_view(view: View, rows: Sequence[dict[str, Any]], top: int) -> None:
    """A view as a plain table, with a line about rows that are left out; or the sentence that says more than it."""
    told = view.instead(rows)
    if told:
        typer.echo(told)
        return
    shown = rows[:top] if top > 0 else rows
    columns = [column for column in view.columns if not column.is_wide]
    print_table(
        view.caption,
        [column.heading for column in columns],
        [[column.cell(row) for column in columns] for row in shown],
        right=[column.heading for column in columns if column.is_number],
    )
    if len(shown) < len(rows):
        typer.echo(f"{len(shown)} of {counted(len(rows), 'row')}; --top 0 prints all")
