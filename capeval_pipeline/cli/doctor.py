"""`capeval doctor`: what is set and why, which versions run, and whether anything is broken."""

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from capeval_pipeline.cli.invocation import Invocation, invocation, print_table
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError

PACKAGES = (
    "capeval-pipeline",
    "dagster",
    "dagster-webserver",
    "deltalake",
    "duckdb",
    "numba",
    "numpy",
    "pandas",
    "plotly",
    "pyarrow",
    "scikit-learn",
    "scipy",
)
LITTLE_SPACE = 2 * 1024**3
"""Free bytes below which a run may well fail."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ok, note (worth knowing) or broken, and a sentence."""

    what: str
    state: str
    sentence: str


def doctor(
    context: typer.Context,
    is_cleaning: Annotated[
        bool, typer.Option("--clean", help="Delete files of the lake that nothing names any more.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Check settings, versions, the data folder, the lake, runs that died, the daemon and the published file.

    Ends with 1 if something is broken. Runs whose process is gone are ended, and what they held is freed. With
    --clean files older than log_retention_days go which neither a table nor a published database names.

    Example: `capeval doctor` · `capeval doctor --clean`
    """
    call = invocation(context)
    versions = {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
    settings, findings = _settings(call, context)
    if settings:
        for look in (_folder, _stage_blocks, _lake, _runs_and_daemon, _published, *([_cleaned] if is_cleaning else [])):
            findings += _looked(look, call)
    is_broken = any(finding.state == "broken" for finding in findings)
    if as_json:
        report = {"settings": settings, "versions": versions, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(report, default=str, ensure_ascii=False))
    else:
        print_table("settings", ["setting", "value", "from"], [tuple(entry.values()) for entry in settings])
        typer.echo("versions: " + ", ".join(f"{name} {found or 'missing'}" for name, found in versions.items()))
        print_table("", ["", "", ""], [(finding.state, finding.what, finding.sentence) for finding in findings])
    if is_broken:
        raise typer.Exit(1)


def _settings(call: Invocation, context: typer.Context) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Every setting with its value and where it came from; a finding instead where they cannot be read."""
    from capeval_pipeline.settings import Settings, workspace_file

    try:
        settings = call.settings
        from_file = workspace_file(settings.root)
    except CapevalError as error:
        return [], [Finding("settings", "broken", str(error))]
    source = context.find_root().get_parameter_source("data")
    # told by name: typer brings a click of its own, whose members are not those of the package
    named = {"COMMANDLINE": "--data", "ENVIRONMENT": "environment CAPEVAL_DATA"}
    data_from = named.get(source.name, "default") if source else "default"
    entries = []
    for name in Settings.model_fields:
        if name == "data":
            origin, value = data_from, str(settings.root)
        else:
            variable = f"CAPEVAL_{name.upper()}"
            in_environment = any(key.upper() == variable for key in os.environ)
            origin = f"environment {variable}" if in_environment else "capeval.toml" if name in from_file else "default"
            value = getattr(settings, name)
        entries.append({"setting": name, "value": value if value != "" else None, "from": origin})
    return entries, []


def _looked(look: Callable[[Invocation], Iterator[Finding]], call: Invocation) -> list[Finding]:
    """The findings of one look; an error in it is itself a finding, so that the others are still made."""
    try:
        return list(look(call))
    except Exception as error:
        if call.debug:
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return [Finding(look.__name__.strip("_").replace("_", " "), "broken", lines[0])]


def _folder(call: Invocation) -> Iterator[Finding]:
    root = call.settings.root
    if not root.exists():
        yield Finding("data folder", "note", f"{root} does not exist yet; `capeval ingest` makes it")
        return
    probe = root / f".doctor-{os.getpid()}"
    try:
        probe.write_bytes(b"")
        probe.unlink()
        yield Finding("data folder", "ok", f"{root} can be written")
    except OSError as error:
        yield Finding("data folder", "broken", f"{root} cannot be written: {error.strerror}")
    free = shutil.disk_usage(root).free
    state = "ok" if free >= LITTLE_SPACE else "note"
    yield Finding(
        "disk space", state, f"{free / 1024**3:.1f} GiB free" + ("" if state == "ok" else ", which is little")
    )


def _stage_blocks(call: Invocation) -> Iterator[Finding]:
    """Stage fields that capeval.toml sets, and whether they are valid."""
    from capeval_pipeline.settings import STAGE_BLOCKS
    from capeval_pipeline.stage_settings import STAGE_SETTINGS

    for stage in STAGE_BLOCKS:
        block = dict(call.settings.stage_block(stage))
        if not block or stage not in STAGE_SETTINGS:
            continue
        call.workspace.stage_settings(stage, None)
        told = ", ".join(f"{name} = {value!r}" for name, value in block.items())
        yield Finding(f"[{stage}]", "ok", f"capeval.toml sets {told}")


def _lake(call: Invocation) -> Iterator[Finding]:
    """Where the tables lie and whether they can be read."""
    lake = call.workspace.lake
    n_benchmarks = lake.read("raw.benchmarks").num_rows if lake.has_table("raw.benchmarks") else 0
    yield Finding("lake", "ok", f"{lake.root} answers and holds {counted(n_benchmarks, 'benchmark')}")


def _cleaned(call: Invocation) -> Iterator[Finding]:
    from capeval_pipeline.orchestration.automation import clean

    yield Finding("cleaning", "ok", clean(call.workspace))


def _runs_and_daemon(call: Invocation) -> Iterator[Finding]:
    if not (call.settings.dagster_home / "dagster.yaml").exists():
        yield Finding("runs", "note", "nothing has run in this workspace yet")
        return
    from capeval_pipeline.orchestration import driver
    from capeval_pipeline.orchestration.daemon import daemon_state

    with driver.workspace_instance(call.workspace) as instance:
        n_ended = driver.end_dead_runs(instance)
        told = f"{n_ended} ended whose process was gone; what they held is free" if n_ended else "none is left over"
        yield Finding("dead runs", "note" if n_ended else "ok", told)
        is_alive, sentence = daemon_state(instance)
        yield Finding("daemon", "ok" if is_alive else "note", sentence)


def _published(call: Invocation) -> Iterator[Finding]:
    database = call.settings.database
    if not database.exists():
        if database.is_symlink():
            target = os.readlink(database)
            yield Finding(
                "database", "broken", f"{database} points to {target}, which is gone; `capeval run` builds it"
            )
        else:
            yield Finding("database", "note", "nothing is published yet; `capeval run` builds it")
        return
    from capeval_pipeline.reporting import queries
    from capeval_pipeline.reporting.queries import ask
    from capeval_pipeline.storage.warehouse import open_published

    with open_published(database) as connection:
        n_benchmarks = len(ask(connection, queries.BENCHMARKS).rows)
        # raw tables are views over the lake's files: reading one row of each finds files that are gone
        views = "select table_schema || '.' || table_name from information_schema.tables where table_type = 'VIEW'"
        unreadable = []
        for (key,) in sorted(connection.execute(views).fetchall()):
            try:
                connection.execute(f"select * from {key} limit 1").fetchall()
            except Exception as error:
                unreadable.append(f"{key} ({str(error).splitlines()[0][:120]})")
    if unreadable:
        sentence = (
            f"{unreadable[0]} cannot be read; `capeval run --rebuild {unreadable[0].split(' ')[0]}` makes it again"
        )
        yield Finding("database", "broken", sentence)
    else:
        yield Finding("database", "ok", f"{database} opens and holds {counted(n_benchmarks, 'benchmark')}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
