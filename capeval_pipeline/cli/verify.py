"""`capeval verify`: is what is stored what was made, and does making it again give the same?"""

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation, print_table, progress
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError


def verify(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help="A benchmark's id or name; all without.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Every table as JSON.")] = False,
) -> None:
    """Compare every table with its record and make it again from the same inputs, code and values; writes nothing.

    Takes about as long as a run from the start. Ends with 1 if a table is damaged or came out different.

    Example: `capeval verify support_desk`
    """
    call = invocation(context)
    call.check_workspace()
    from capeval_pipeline.orchestration import driver, verification
    from capeval_pipeline.orchestration.assets import build_graph
    from capeval_pipeline.orchestration.partitions import BENCHMARKS

    with driver.workspace_instance(call.workspace) as instance, progress(not as_json) as say:
        known = sorted(instance.get_dynamic_partitions(BENCHMARKS.name or ""))
        chosen = [driver.resolve_benchmark(instance, benchmark)] if benchmark else known
        steps = build_graph().steps
        found = [entry for name in chosen for entry in verification.verify(call.workspace, instance, steps, name, say)]
    if not found:
        raise CapevalError("nothing to verify: no table was made yet; `capeval ingest PATH`, then `capeval run`")
    bad = [entry for entry in found if entry.state in verification.BAD]
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in found], ensure_ascii=False))
    else:
        told = [entry for entry in found if entry.state not in ("same", "kept")]
        if told:
            columns = ["benchmark", "table", "state", "what was found"]
            print_table("", columns, [(e.benchmark_id, e.table, e.state, e.sentence) for e in told])
        counts = Counter[str](entry.state for entry in found)
        parts = [f"{counts[state]} {words}" for state, words in STATES.items() if counts[state]]
        typer.echo(f"{counted(len(found), 'table')} of {counted(len(chosen), 'benchmark')}: {', '.join(parts)}")
    if bad:
        raise typer.Exit(1)


STATES = {
    "same": "made again the same",
    "kept": "stored as recorded, not made again",
    "stale": "stale",
    "damaged": "damaged",
    "differs": "different when made again",
}
