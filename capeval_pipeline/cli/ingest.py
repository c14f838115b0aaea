"""`capeval ingest`: read result files, say what was kept and what not and why, and commit them."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval_pipeline.cli.invocation import Invocation, invocation, print_table, progress
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import UsageError
from capeval_pipeline.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from capeval_pipeline.ingestion.batch import Batch
    from capeval_pipeline.ingestion.report import Remark, UnitReport
    from capeval_pipeline.storage.stored_rows import StoredRows

FAULTS_OF_A_FILE, FAULTS = 3, 20
"""Lines about rows at fault: of one file, and of one call."""
READING_NAMES = ("files", "items", "models", "generations", "judgments", "metric_values", "rejections")


def _path(given: str | Path) -> Path:
    """A path of the command line; the empty text, as of a variable that is not set, is not the present folder."""
    if not str(given):
        raise UsageError("an empty PATH; expected result files or folders of them")
    return Path(given)


def ingest(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", parser=_path, help="Result files, or folders of them.")
    ],
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", "-b", help="Benchmark of these files: a name, or name@version.")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="Format; else told by the content.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric that is the score; else the format's first.")] = None,
    model: Annotated[str | None, typer.Option(help="Model of files that name none.")] = None,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="M.yml", help="Mapping file for a format of your own.")
    ] = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Keep no prompts; ids and hashes stay.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Take the rows of these files out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen and write nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 if a single record is rejected.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list, an entry a file.")] = False,
) -> None:
    """Read result files into the raw tables; prints read = kept + rejected + duplicate for every file.

    Ends with 0 if all files were read, 1 if one was refused (the others are in), 2 for wrong use.
    Examples: `capeval ingest results/` · `capeval ingest scores.csv --benchmark arc@2 --model lab/m7`
    """
    from capeval_pipeline.formats.protocol import Limits
    from capeval_pipeline.ingestion import batch as batches
    from capeval_pipeline.ingestion.discovery import Place
    from capeval_pipeline.ingestion.reading import Request

    call = invocation(context)
    for option, given in (("--benchmark", benchmark), ("--model", model), ("--metric", metric)):
        _check_name(option, given)
    if mapping is not None and not mapping.is_file():
        raise UsageError(f"--mapping {mapping}: no such file; expected a mapping file")
    settings = call.settings
    place = Place(settings.root, settings.inbox)
    request = Request(
        benchmark=benchmark,
        format=format_,
        metric=metric,
        model=model,
        keep_text=not no_text,
        mapping=mapping,
        limits=Limits(**settings.limits.model_dump()),
    )
    if not forget:
        batches.check_request(paths, request)  # wrong use makes no workspace
    with progress(not as_json) as say, _staging_folder(call, say, is_dry=dry_run) as folder:
        say("reading files")
        if forget:
            batch = batches.forget(paths, place, batches.ledger_in(call.workspace.lake))
        else:
            batch = batches.read_batch(paths, request, place, batches.ledger_in(call.workspace.lake), folder, say)
        raw = _resolved(call, batch, folder) if dry_run else _committed(call, batch, folder, say)
        batch.complete(raw)
    _print(batch, as_json=as_json)
    if not as_json and dry_run:
        typer.echo("nothing is written: --dry-run")
    elif not as_json and batch.changes:
        typer.echo("next: `capeval run` computes and publishes what changed")
    if strict and batch.n_rejected:
        typer.echo(f"capeval: --strict: {counted(batch.n_rejected, 'record')} rejected", err=True)
    if batch.has_refusals or (strict and batch.n_rejected):
        raise typer.Exit(1)


@contextmanager
def _staging_folder(call: Invocation, say: Progress, *, is_dry: bool) -> Iterator[Path]:
    """A folder for temporary readings, gone afterwards; of a dry run not in the workspace, which may not even exist."""
    if is_dry:
        with tempfile.TemporaryDirectory(prefix="capeval-dry-run-") as name:
            yield Path(name)
        return
    with call.workspace.staging_folder(say) as folder:
        yield folder


def _check_name(option: str, given: str | None) -> None:
    name = "" if given is None else given.strip()
    if given is not None and (not name or not name.isprintable() or len(name) > 200):
        cut = given if len(given) <= 60 else given[:59] + "…"
        raise UsageError(f"{option} {cut!r}: expected printable text of 1 to 200 characters")


def _resolved(call: Invocation, batch: "Batch", folder: Path) -> "dict[str, dict[str, pa.Table | StoredRows]]":
    """Raw tables as they would be; nothing is written but temporary files in `folder`."""
    from capeval_pipeline.ingestion.resolution import resolve
    from capeval_pipeline.storage.conformity import empty
    from capeval_pipeline.storage.tables import TABLES

    lake = call.workspace.lake
    raw: dict[str, Any] = {}
    limits = replace(call.workspace.limits(n_threads=2), spill_folder=folder / "spill")
    for number, (benchmark_id, change) in enumerate(sorted(batch.changes.items())):
        readings = {
            name: lake.stored(f"readings.{name}", empty(TABLES[f"readings.{name}"]).schema, benchmark_id)
            for name in READING_NAMES
        }
        resolved = folder / f"resolved{number}"
        raw[benchmark_id] = resolve(change.applied_to(readings, resolved / "readings"), resolved / "raw", limits)
    return raw


def _committed(call: Invocation, batch: "Batch", folder: Path, say: Any) -> "dict[str, dict[str, StoredRows]]":
    """Commit what was read in one run; what the ledgers then say. Raises CapevalError."""
    if not batch.changes:
        return {}
    from capeval_pipeline.orchestration import driver, intake

    with driver.workspace_instance(call.workspace) as instance:
        return intake.commit(call.workspace, instance, call.job, batch, folder, say)


def _print(batch: "Batch", *, as_json: bool) -> None:
    """The counts of every unit and the first faults of its rows on stdout, one line a refused file on stderr."""
    from capeval_pipeline.ingestion.batch import json_list
    from capeval_pipeline.ingestion.report import NOT_READ

    if as_json:
        typer.echo(json.dumps(json_list(batch.reports), ensure_ascii=False))
    elif not batch.reports:
        typer.echo("nothing to read: no result file among these paths")
    else:
        rows = [
            (
                report.path, report.format, ", ".join(report.benchmark_ids), report.status, report.n_read,
                report.n_kept, report.n_rejected, report.n_duplicate, _doubts(report),
            )
            for report in batch.reports
            if report.status != "companion"
        ]  # fmt: skip
        names = ["file", "format", "benchmark", "status", "read", "kept", "rejected", "duplicate", "look at"]
        print_table("", names, rows, right=["read", "kept", "rejected", "duplicate"])
        if len(rows) > 1:
            typer.echo(_in_all([report for report in batch.reports if report.status != "companion"]))
        for line in _faults(batch.reports):
            typer.echo(line)
    for report in batch.reports:
        if report.status in NOT_READ and report.rejections:
            typer.echo(_told(report, report.rejections[0], batch.reports), err=True)


def _told(report: "UnitReport", remark: "Remark", among: "Sequence[UnitReport]") -> str:
    """A message that says which file it is of: with its path where another file has its name, and where what is told
    is a fault of something beside it."""
    name = Path(report.path).name
    is_named = remark.message.startswith((f"{name}: ", report.path))
    if is_named and sum(Path(other.path).name == name for other in among) == 1:
        return remark.message
    return f"{report.path}: {remark.message.removeprefix(f'{name}: ').removeprefix(f'{report.path}: ')}"


def _in_all(reports: "Sequence[UnitReport]") -> str:
    """Whether everything was read, in one line: files by status, records by what became of them."""
    statuses = Counter(report.status for report in reports)
    files = ", ".join(f"{n:,} {status}" for status, n in statuses.most_common())
    read, kept, rejected, duplicate = (
        sum(getattr(report, name) for report in reports) for name in ("n_read", "n_kept", "n_rejected", "n_duplicate")
    )
    told = f"{counted(read, 'record')} = {kept:,} kept + {rejected:,} rejected + {duplicate:,} duplicate"
    return f"{counted(len(reports), 'file')}: {files}; {told}"


def _faults(reports: "Sequence[UnitReport]") -> list[str]:
    """Where the first rejected rows and warnings of each read file are and what to do, and how many more there are."""
    from capeval_pipeline.ingestion.report import NOT_READ

    read = [report for report in reports if report.status not in NOT_READ]
    remarks = [sorted([*report.rejections, *report.warnings], key=_place) for report in read]
    told = [
        _told(report, remark, reports)
        for report, of_file in zip(read, remarks, strict=True)
        for remark in of_file[:FAULTS_OF_A_FILE]
    ]
    shown = told[:FAULTS]
    n_more = sum(sum(report.reasons.values()) for report in read) - len(shown)
    if n_more:
        shown.append(f"and {n_more:,} more; once published, `select location, message from raw.rejections` lists all")
    return shown


def _place(remark: "Remark") -> list[int]:
    """Line 9 comes before line 10, and what is about the whole file first."""
    return [int(number) for number in re.findall(r"\d+", remark.location)]


def _doubts(report: Any) -> str:
    """Reasons of rejections and warnings with their numbers, most frequent first."""
    reasons = Counter(report.reasons)
    return ", ".join(f"{reason} {n}" if n > 1 else reason for reason, n in reasons.most_common())
