"""The `capeval` command: a module a command; each parses, calls, prints. Heavy imports stand inside the functions."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from capeval_pipeline.cli.clusters import clusters
from capeval_pipeline.cli.demo import demo
from capeval_pipeline.cli.doctor import doctor
from capeval_pipeline.cli.export import export
from capeval_pipeline.cli.frontier import frontier
from capeval_pipeline.cli.identify import identify
from capeval_pipeline.cli.identify_study import identify_study
from capeval_pipeline.cli.ingest import ingest
from capeval_pipeline.cli.invocation import Invocation
from capeval_pipeline.cli.leaderboard import leaderboard
from capeval_pipeline.cli.report import report
from capeval_pipeline.cli.route import route
from capeval_pipeline.cli.run import run
from capeval_pipeline.cli.sql import sql
from capeval_pipeline.cli.status import status
from capeval_pipeline.cli.up import up
from capeval_pipeline.cli.verify import verify
from capeval_pipeline.errors import DISK_IS_FULL, CapevalError, is_disk_full

WRONG_USE: Any = typer.BadParameter.__mro__[2]
"""ClickException, as typer raises it: newer ones bring a click of their own, whose errors are not the package's."""

INTERRUPTED = 130
"""Exit code after Ctrl-C; newer typers turn the interrupt into it themselves."""

COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "ingest": ingest,
    "run": run,
    "status": status,
    "leaderboard": leaderboard,
    "clusters": clusters,
    "route": route,
    "frontier": frontier,
    "identify-study": identify_study,
    "sql": sql,
    "report": report,
    "export": export,
    "up": up,
    "verify": verify,
    "doctor": doctor,
}

app = typer.Typer(
    name="capeval",
    add_completion=True,
    no_args_is_help=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(identify, name="identify")

FIRST_STEPS = """capeval turns result files of language-model evaluations into answers.

  capeval demo                      see it work on the sample, in minutes
  capeval ingest PATH               read your own result files
  capeval run                       compute what is stale and publish
  capeval leaderboard BENCHMARK     which ranks are real

`capeval --help` lists every command."""


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="The workspace folder.", envvar="CAPEVAL_DATA", show_default="./data")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """From result files of language-model evaluations to answers with honest uncertainty.

    Examples: `capeval demo` · `capeval ingest results/` · `capeval run` · `capeval leaderboard my_benchmark`
    """
    context.obj = Invocation(data, debug)
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS)


def main() -> None:
    """Entry point: exit code 0 fine, 1 the asked-for thing failed, 2 wrong use, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    try:
        code = app(standalone_mode=False)
    except CapevalError as error:
        if debug:
            raise
        print(f"capeval: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(_interrupted())
    except KeyboardInterrupt:
        sys.exit(_interrupted())
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except WRONG_USE as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if debug or not is_disk_full(error, Path(os.environ.get("CAPEVAL_DATA", "data"))):
            raise
        print(f"capeval: {DISK_IS_FULL}", file=sys.stderr)
        sys.exit(1)
    sys.exit(_interrupted() if code == INTERRUPTED else code if isinstance(code, int) else 0)


def _interrupted() -> int:
    print("capeval: interrupted; what was finished is kept, `capeval run` goes on from there", file=sys.stderr)
    return INTERRUPTED
