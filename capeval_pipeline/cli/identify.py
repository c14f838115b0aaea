"""`capeval identify new/ask/tell/status/export`: a live session that says which calls to make next and when to stop.

No command here imports dagster: a session reads the lake itself, and after `new` only its own folder.
"""

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval_pipeline.cli.invocation import invocation, print_table, progress
from capeval_pipeline.cli.reading import BENCHMARK_HELP
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import UsageError
from capeval_pipeline.reporting.numbers import UNKNOWN, shortened

if TYPE_CHECKING:
    from capeval_pipeline.sessions import Session, SessionStatus

PROMPT_WIDTH = 60

identify = typer.Typer(
    help="A live session: which (model, item) calls to make next, and when the best model is certain.\n\n"
    "Example: `capeval identify new june -b my_benchmark --arms lab/m1,lab/m2`, then `ask`, `tell` and `status`",
    no_args_is_help=True,
)
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="Name of the session.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@identify.command()
def new(
    context: typer.Context,
    session: SessionName,
    benchmark: Annotated[str, typer.Option("--benchmark", "-b", help=BENCHMARK_HELP)],
    arms: Annotated[
        str, typer.Option(metavar="M1,M2|@FILE", help="Models to choose among: a list, or a file with one a line.")
    ],
    items: Annotated[
        str, typer.Option(metavar="FILE|all", help="A table with a column item_id, or all items of the benchmark.")
    ] = "all",
    policy: Annotated[str, typer.Option(help="pulse, race, ucb_e, uniform or another one of the study.")] = "pulse",
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may be wrong.")] = 0.05,
    batch: Annotated[
        int | None, typer.Option(help="Calls per decision; else a fortieth of the items, 5 to 32.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order in which items are asked.")] = 0,
    pull_budget: Annotated[int | None, typer.Option(help="Most (model, item) cells to ask.")] = None,
    cost_budget: Annotated[float | None, typer.Option(metavar="USD", help="Most dollars to spend.")] = None,
    prices: Annotated[Path | None, typer.Option(metavar="FILE", help="A table with model_id and usd_per_call.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a session on a benchmark, right after `capeval ingest`; its other models teach what answers to expect.

    Example: `capeval identify new june -b support_desk --arms lab/m1,lab/m2,lab/m3 --policy race`
    """
    from capeval_pipeline.sessions import Session

    call = invocation(context)
    call.check_workspace()
    with progress(not as_json) as say:
        say("learning from the benchmark's other models")
        made = Session.create(
            call.settings.root,
            session,
            benchmark=benchmark,
            arms=_arms(arms),
            items=None if items == "all" else _column(Path(items), "items", "item_id"),
            policy=policy,
            delta=delta,
            batch=batch,
            seed=seed,
            pull_budget=pull_budget,
            cost_budget=cost_budget,
            prices=None if prices is None else _prices(prices),
        )
    config = made.config
    if as_json:
        kept = {name: value for name, value in config.as_json().items() if not name.endswith("_version")}
        typer.echo(json.dumps(kept))
        return
    learned = (
        f"predictions from {counted(config.n_training_models, 'other model')}" if config.rank else "no predictions"
    )
    if config.no_predictor:
        learned = f"no predictions: {config.no_predictor}"
    typer.echo(
        f"session {session}: {counted(len(config.arms), 'model')} x {counted(config.n_items, 'item')} of "
        f"{config.benchmark_id}, policy {config.policy}; {learned}"
    )
    typer.echo(f"next: `capeval identify ask {session} --json`")


@identify.command()
def ask(
    context: typer.Context,
    session: SessionName,
    max_asks: Annotated[
        int | None, typer.Option("--max", min=1, help="Most calls to hand out; else the rest of a batch or a new one.")
    ] = None,
    reissue: Annotated[bool, typer.Option("--reissue", help="The pending calls again, under their ids.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hand out the calls to make next. No calls and no stop means: tell first.

    Example: `capeval identify ask june --max 32 --json`
    """
    reply = _opened(context, session).ask(max_asks, reissue=reissue)
    if as_json:
        typer.echo(json.dumps(reply.as_json()))
        return
    if reply.asks:
        rows = [
            (one.ask_id, one.model_id, one.item_id, None if one.prompt is None else _line(one.prompt))
            for one in reply.asks
        ]
        print_table("", ["ask", "model", "item", "prompt"], rows)
    if reply.stop:
        typer.echo(f"stop: {reply.reason}; `capeval identify status {session}` says what is known")
    elif not reply.asks:
        typer.echo(f"nothing to hand out until answers are told; {counted(reply.n_pending, 'call')} pending")
    else:
        typer.echo(f"{counted(reply.n_pending, 'call')} pending")


@identify.command()
def tell(
    context: typer.Context,
    session: SessionName,
    file: Annotated[
        str, typer.Argument(metavar="[FILE|-]", help="JSON lines with ask_id and score; - is standard input.")
    ] = "-",
    as_json: AsJson = False,
) -> None:
    """Record answers, one JSON object a line: `{"ask_id":"a000017","score":1.0,"cost_usd":0.002,"status":"ok"}`.

    Ends with 1 if a line was refused; the others are recorded. The same lines again change nothing.
    Example: `capeval identify tell june answers.jsonl`
    """
    opened = _opened(context, session)
    reply = opened.tell(_lines(file))
    if as_json:
        typer.echo(json.dumps(reply.as_json()))
    else:
        typer.echo(
            f"{counted(reply.accepted, 'answer')} recorded, {reply.already_recorded:,} recorded before, "
            f"{len(reply.rejected):,} refused, {counted(reply.n_pending, 'call')} pending"
        )
        for line in reply.rejected:
            typer.echo(f"line {line.line}: {line.code}: {line.message}", err=True)
    if reply.rejected:
        raise typer.Exit(1)


@identify.command()
def status(context: typer.Context, session: SessionName, as_json: AsJson = False) -> None:
    """What can be said now: who leads, within which limits, and who cannot be ruled out.

    Example: `capeval identify status june`
    """
    found = _opened(context, session).status()
    if as_json:
        typer.echo(json.dumps(found.as_json()))
        return
    typer.echo(found.sentence)
    _print_arms(found)
    if found.n_pending or found.n_waiting:
        typer.echo(
            f"{counted(found.n_pending, 'call')} pending; {counted(found.n_waiting, 'answer')} told that will count "
            "once the answers they wait for are told"
        )


@identify.command()
def export(
    context: typer.Context,
    session: SessionName,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to write, made if needed.")],
    as_json: AsJson = False,
) -> None:
    """Write what was told as a folder that `capeval ingest` reads.

    Example: `capeval identify export june --to june_results`
    """
    written = _opened(context, session).export(to)
    if as_json:
        typer.echo(json.dumps(written.as_json()))
        return
    typer.echo(f"{counted(written.n_results, 'result')} in {written.folder}, as benchmark {written.benchmark}")
    typer.echo(f"next: `capeval ingest {written.folder}`")


def _opened(context: typer.Context, name: str) -> "Session":
    from capeval_pipeline.sessions import Session

    # A command ends before there is garbage worth looking for, and looking takes a tenth of its time.
    gc.disable()
    return Session.open(invocation(context).settings.root, name)


def _arms(given: str) -> list[str]:
    if not given.startswith("@"):
        return given.split(",")
    path = Path(given[1:])
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--arms {given}: cannot be read ({error}); expected a text file, one model a line") from error
    return [line for line in lines if line.strip()]


def _lines(file: str) -> list[bytes]:
    """Lines of a file or of standard input, as bytes: one line that is no text must not hide the others."""
    if file == "-":
        return sys.stdin.buffer.read().split(b"\n")
    try:
        return Path(file).read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); expected JSON lines, or - for input") from error


def _table(path: Path, option: str, columns: list[str]) -> dict[str, list[Any]]:
    """Columns of a CSV, JSON-lines or Parquet table, ids as text."""
    from capeval_pipeline.formats.protocol import Limits
    from capeval_pipeline.formats.refusals import FileRefused
    from capeval_pipeline.formats.tabular import batches, table_layout

    if not path.is_file():
        raise UsageError(f"--{option} {path}: no such file; expected a table with {' and '.join(columns)}")
    found: dict[str, list[Any]] = {name: [] for name in columns}
    try:
        layout = table_layout(path)
        missing = [name for name in columns if layout is None or (layout.columns and name not in layout.columns)]
        if layout is None or missing:
            raise UsageError(f"--{option} {path}: no column {missing[0]}; expected {' and '.join(columns)}")
        for batch in batches(path, layout, columns, Limits()):
            if batch.faults:
                raise UsageError(f"--{option}: {batch.faults[0].message}")
            for name in columns:
                found[name] += batch.columns[name].to_pylist()
    except FileRefused as error:
        raise UsageError(f"--{option}: {error}") from error
    return found


def _column(path: Path, option: str, name: str) -> list[str]:
    values = _table(path, option, [name])[name]
    if any(value in (None, "") for value in values):
        raise UsageError(f"--{option} {path}: an empty {name}; expected one in every row")
    return [str(value) for value in values]


def _prices(path: Path) -> dict[str, float]:
    table = _table(path, "prices", ["model_id", "usd_per_call"])
    prices: dict[str, float] = {}
    for model, price in zip(table["model_id"], table["usd_per_call"], strict=True):
        try:
            number = float(price)
        except (TypeError, ValueError):
            raise UsageError(f"--prices {path}: price of {model!r} is {price!r}; expected dollars per call") from None
        if str(model) in prices:
            raise UsageError(f"--prices {path}: {model!r} has two prices; expected one")
        prices[str(model)] = number
    return prices


def _print_arms(found: "SessionStatus") -> None:
    ordered = sorted(found.arms, key=lambda arm: (-arm.estimate if arm.n_answers else 2.0, arm.model_id))
    rows = [
        (
            arm.model_id,
            f"{arm.n_answers:,}",
            f"{arm.estimate:.3f}" if arm.n_answers else UNKNOWN,
            f"{arm.lower:.3f} to {arm.upper:.3f}",
            arm.is_candidate,
        )
        for arm in ordered
    ]
    print_table("", ["model", "answers", "estimate", "limits", "may be best"], rows, right=["answers", "estimate"])


def _line(prompt: str) -> str:
    return shortened(" ".join(prompt.split()), PROMPT_WIDTH)
