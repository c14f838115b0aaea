"""`capeval identify-study`: how few calls find the best model, by policy."""

from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.cli.reading import BENCHMARK_HELP, TOP_HELP, show


def identify_study(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Sentences and all rows as one JSON object.")] = False,
) -> None:
    """Replays on the stored answers: calls each policy needs, and whether its intervals hold.

    Example: `capeval identify-study support_desk`
    """
    from capeval_pipeline.reporting import views

    questions = ("identification",)
    show(invocation(context), benchmark, questions, (views.IDENTIFICATION,), as_json=as_json, top=top)
