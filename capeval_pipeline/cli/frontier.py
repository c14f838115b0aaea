"""`capeval frontier`: how much better the best mixture is than the best model, at what cost."""

from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.cli.reading import BENCHMARK_HELP, TOP_HELP, show


def frontier(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="Sentences and all rows as one JSON object.")] = False,
) -> None:
    """What the best choice of model per item could gain, what a cost budget buys, and how much of it is luck.

    Example: `capeval frontier support_desk`
    """
    from capeval_pipeline.reporting import views

    questions = ("frontier", "frontier_saving", "frontier_router", "frontier_latency", "frontier_draws", "costs")
    show(
        invocation(context),
        benchmark,
        questions,
        (views.FRONTIER, views.BUDGET_CHOICES, views.ORACLE_ESTIMATES),
        as_json=as_json,
        top=top,
    )
