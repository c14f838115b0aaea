"""`capeval run`: make what is stale, in process, and publish."""

from typing import Annotated, Any

import typer

from capeval_pipeline.cli.invocation import invocation, progress
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import UsageError


def run(
    context: typer.Context,
    benchmark: Annotated[
        list[str] | None, typer.Option("--benchmark", "-b", help="Only this benchmark; may be given again.")
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Only this stage and what it needs upstream, then publish: ingest, derive, capabilities, "
            "identification, frontier, marts, report or studies."
        ),
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Also the long evaluations, at full size.")] = False,
    preset: Annotated[str, typer.Option(help="Preset of the capabilities stage: default or paper.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="STAGE.FIELD=VALUE for this run, e.g. identification.n_seeds=64.")
    ] = None,
    rebuild: Annotated[
        str, typer.Option(help="Make this table again even if nothing changed, e.g. estimates.strengths.")
    ] = "",
) -> None:
    """Compute whatever is stale and publish the database; prints what was skipped and why.

    Examples: `capeval run` · `capeval run -b arc --only frontier` · `capeval run --set identification.n_seeds=64`
    """
    call = invocation(context)
    call.check_workspace()
    from capeval_pipeline.orchestration import driver
    from capeval_pipeline.orchestration.graph import Request

    overrides = parse_overrides([*(set_ or []), *([f"capabilities.preset={preset}"] if preset else [])])
    request = Request(only, full, overrides, rebuild, with_studies=only == "studies")
    job = call.job
    with driver.workspace_instance(call.workspace) as instance, progress() as say:
        names = [driver.resolve_benchmark(instance, name) for name in benchmark or []]
        for stage, values in overrides.items():
            call.workspace.stage_settings(stage, None, values)
        report = driver.run(job, call.workspace, instance, names, request, say)
    for line in report_lines(report):
        typer.echo(line)
    if report.benchmarks and not full and not only:
        typer.echo(left_as_they_are())
    if report.is_published:
        typer.echo(f"published {call.settings.database}")
        typer.echo(f"report    {call.settings.reports / 'index.html'}")
    failure = driver.failure_of(report)
    if failure:
        raise failure


NAMED_STEPS = 6


def report_lines(report: Any) -> list[str]:
    """What ran and what did not, a line a benchmark; benchmarks with nothing to do share one line."""
    lines = []
    fresh = [run.benchmark_id for run in report.benchmarks if not run.ran]
    for done in report.benchmarks:
        if done.ran:
            first = done.ran[0]
            names = ", ".join(entry.step.name for entry in done.ran[:NAMED_STEPS])
            names += f" and {len(done.ran) - NAMED_STEPS} more" if len(done.ran) > NAMED_STEPS else ""
            lines.append(
                f"{done.benchmark_id}: {counted(len(done.ran), 'step')} in {done.seconds:.1f} s ({names}); "
                f"first because {first.reason}"
            )
    if fresh:
        named = ", ".join(fresh[:5]) + (f" and {len(fresh) - 5} more" if len(fresh) > 5 else "")
        lines.append(f"skipped {named}: nothing asked for is older than the present files, code and settings")
    if not report.benchmarks:
        lines.append("no benchmarks yet; `capeval ingest PATH` reads result files")
    if not report.is_published and not report.publish_failure:
        lines.append("nothing to publish: the database is made from the present tables")
    return lines


def left_as_they_are() -> str:
    """The long evaluations by name, of which a plain run makes none."""
    from capeval_pipeline.orchestration.assets import build_graph

    names = ", ".join(step.name for step in build_graph().steps if step.is_long)
    return f"left as they are: {names}; `capeval run --full` makes them"


def parse_overrides(assignments: list[str]) -> dict[str, dict[str, Any]]:
    """ "stage.field=value" texts as stage → field → value; values are YAML, so 8, true and [a, b] mean what they say.

    Raises UsageError on anything else, naming the stages there are.
    """
    import yaml

    from capeval_pipeline.stage_settings import STAGE_SETTINGS

    overrides: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        stage, dot, field = name.partition(".")
        if not equals or not dot or stage not in STAGE_SETTINGS:
            raise UsageError(
                f"--set {assignment!r}: expected STAGE.FIELD=VALUE with a stage of {', '.join(sorted(STAGE_SETTINGS))}"
            )
        if field not in STAGE_SETTINGS[stage].model_fields:
            known = ", ".join(STAGE_SETTINGS[stage].model_fields)
            raise UsageError(f"--set {assignment!r}: {stage} has no field {field!r}; it has {known}")
        overrides.setdefault(stage, {})[field] = yaml.safe_load(text)
    return overrides
