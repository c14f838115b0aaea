"""`capeval clusters`: what kinds of items there are and which models are good at them."""

from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.cli.reading import BENCHMARK_HELP, TOP_HELP, show


def clusters(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Sentences and all rows as one JSON object.")] = False,
) -> None:
    """Clusters of items, who is best in each, and whether they predict anything.

    Example: `capeval clusters support_desk`
    """
    from capeval_pipeline.reporting import views

    questions = ("clusters", "human_labels", "probe", "routing")
    show(invocation(context), benchmark, questions, (views.CLUSTERS, views.ROUTING), as_json=as_json, top=top)
