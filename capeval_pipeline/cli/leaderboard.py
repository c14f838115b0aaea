"""`capeval leaderboard`: models in order, and which ranks are real."""

from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.cli.reading import BENCHMARK_HELP, TOP_HELP, show


def leaderboard(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Sentences and all rows as one JSON object.")] = False,
) -> None:
    """Models by mean score, with the ranks that cannot be told apart, and what changed since before.

    Example: `capeval leaderboard support_desk`
    """
    from capeval_pipeline.reporting import views

    questions = ("strengths", "coverage", "order_bias")
    show(invocation(context), benchmark, questions, (views.LEADERBOARD, views.RANK_CHANGES), as_json=as_json, top=top)
