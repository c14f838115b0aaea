"""`capeval demo`: the main job on the sample this project made, from files to the three answers."""

import shutil
import sys
import time
from pathlib import Path

import typer

from capeval_pipeline.cli.invocation import invocation, progress
from capeval_pipeline.errors import CapevalError

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
ANSWERS = (
    ("Capabilities", "support_desk", "clusters"),
    ("Best model in few calls", "circuit_quiz", "identification"),
    ("Capability frontier", "support_desk", "frontier"),
)
"""Which sentence of marts.verdicts answers which question; the sample's benchmarks were made to be asked them."""


def demo(context: typer.Context) -> None:
    """Read the sample, run every stage, publish, and print the three answers and where to look.

    Examples: `capeval demo` · `capeval --data /tmp/trial demo`
    """
    call = invocation(context)
    from capeval_pipeline.orchestration import driver, intake
    from capeval_pipeline.orchestration.graph import Request
    from capeval_pipeline.storage.warehouse import open_published

    if not SAMPLE.is_dir():
        raise CapevalError(f"{SAMPLE}: the sample is not there; run from a checkout of the project")
    folders = sorted(path for path in SAMPLE.iterdir() if path.is_dir())
    started = time.monotonic()
    job = call.job
    with driver.workspace_instance(call.workspace) as instance, progress() as say:
        batch = intake.take_in(call.workspace, instance, job, folders, say)
        names = sorted({name for report in batch.reports for name in report.benchmark_ids})
        typer.echo(f"read {sum(report.n_kept for report in batch.reports):,} results of {', '.join(names)}")
        report = driver.run(job, call.workspace, instance, names, Request(), say)
    failure = driver.failure_of(report)
    if failure:
        raise failure
    typer.echo(f"ran every stage in {time.monotonic() - started:.0f} s\n")
    with open_published(call.settings.database) as connection:
        for title, benchmark, question in ANSWERS:
            row = connection.execute(
                "select sentence from marts.verdicts where benchmark_id = ? and question = ?", [benchmark, question]
            ).fetchone()
            if row is None:
                raise CapevalError(f"marts.verdicts has no sentence for {question!r} of {benchmark}")
            typer.echo(f"{title} ({benchmark}): {row[0]}\n")
    typer.echo(f"report    {call.settings.reports / 'index.html'}")
    typer.echo(f"database  {call.settings.database}")
    capeval = command_name(sys.argv[0])
    typer.echo(f"next      {capeval} leaderboard support_desk · {capeval} ingest YOUR_RESULTS/ · {capeval} up")


def command_name(called_as: str) -> str:
    """How the command is typed here: by its name where the shell finds it, else by its path."""
    if shutil.which("capeval"):
        return "capeval"
    path = Path(called_as).absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
