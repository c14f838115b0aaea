"""`capeval status`: benchmarks, models, items, coverage, what is stale, the last run."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from capeval_pipeline.cli.invocation import invocation, print_table
from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.numbers import covered


def status(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False
) -> None:
    """What the workspace holds, what is stale, when it was last run.

    Coverage is the share of model and item pairs that have a score; models and items are those published.

    Examples: `capeval status` · `capeval status --json`
    """
    call = invocation(context)
    call.check_workspace()
    from capeval_pipeline.orchestration import driver
    from capeval_pipeline.orchestration.assets import build_graph
    from capeval_pipeline.orchestration.graph import Request
    from capeval_pipeline.orchestration.partitions import BENCHMARKS
    from capeval_pipeline.storage.warehouse import benchmarks_held_back

    with driver.workspace_instance(call.workspace) as instance:
        known = sorted(instance.get_dynamic_partitions(BENCHMARKS.name or ""))
        plans = driver.plans(call.workspace, instance, build_graph(), known, Request())
        has_read = call.workspace.benchmarks()  # a name under which files were only refused is no benchmark
        last = instance.get_run_records(limit=1)
    held_back = {held.benchmark_id: held.sentence for held in benchmarks_held_back(call.settings.database)}
    sizes = _sizes(call) if call.settings.database.exists() else {}
    entries: list[dict[str, Any]] = [
        {
            "benchmark_id": plan.benchmark_id,
            **sizes.get(plan.benchmark_id, {"n_models": None, "n_items": None, "coverage": None}),
            "held_back": held_back.get(plan.benchmark_id),
            "stale": [{"step": entry.step.name, "because": entry.reason} for entry in plan.ran],
        }
        for plan in plans
        if plan.benchmark_id in has_read or plan.ran
    ]
    last_run: dict[str, Any] | None = None
    if last:
        started = datetime.fromtimestamp(last[0].start_time or last[0].create_timestamp.timestamp(), UTC)
        last_run = {"run_id": last[0].dagster_run.run_id, "status": last[0].dagster_run.status.value, "at": started}
    if as_json:
        report = {"workspace": str(call.settings.root), "benchmarks": entries, "last_run": last_run}
        typer.echo(json.dumps(report, default=str, ensure_ascii=False))
        return
    typer.echo(f"workspace {call.settings.root}")
    if not entries:
        typer.echo("no benchmarks yet; `capeval ingest PATH` reads result files, `capeval demo` shows a sample")
        return
    rows: list[tuple[Any, ...]] = [
        (
            entry["benchmark_id"],
            entry["n_models"],
            entry["n_items"],
            covered(entry["coverage"]),
            f"{counted(len(entry['stale']), 'step')}, {entry['stale'][0]['because']}" if entry["stale"] else "nothing",
        )
        for entry in entries
    ]
    print_table("", ["benchmark", "models", "items", "coverage", "stale"], rows, right=["models", "items", "coverage"])
    if any(entry["n_models"] is None for entry in entries):
        typer.echo("–: read but not published yet; `capeval run` computes and publishes it")
    elif any(entry["coverage"] is None for entry in entries):
        typer.echo("–: judged in pairs, no scores")
    for entry in entries:
        if entry["held_back"]:
            typer.echo(f"{entry['benchmark_id']}: {entry['held_back']}")
    if last_run:
        typer.echo(f"last run {last_run['status'].lower()} at {last_run['at']:%Y-%m-%d %H:%M} UTC")


def _sizes(call: Any) -> dict[str, dict[str, Any]]:
    """Models, items and share of scored cells of each benchmark, from the published database."""
    from capeval_pipeline.storage.warehouse import open_published

    query = """
        with models as (select benchmark_id, count(*) as n_models from raw.models group by benchmark_id),
        items as (select benchmark_id, count(*) as n_items from raw.items group by benchmark_id),
        scored as (
            select benchmark_id, count(distinct (item_id, model_id)) filter (status = 'ok') as n_cells
            from raw.generations group by benchmark_id
        )
        select benchmark_id, n_models, n_items, n_cells / nullif(n_models * n_items, 0) as coverage
        from models
        inner join items using (benchmark_id)
        left join scored using (benchmark_id)
    """
    with open_published(call.settings.database) as connection:
        found = connection.execute(query).fetchall()
    return {row[0]: {"n_models": row[1], "n_items": row[2], "coverage": row[3]} for row in found}
