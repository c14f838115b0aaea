"""Commands without Dagster, for tests of what is the pipeline's own: a notebook stands in its place.

What a command costs beside its work is Dagster's, seconds each. Here the steps' own code runs, with its locks, its
lake and its database, and notes what it made in a file, a line a table, which survives a kill as a database does.
"""

import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg

from capeval_pipeline.ingestion.batch import forget, ledger_in
from capeval_pipeline.orchestration import committing, driver, intake, step_runs
from capeval_pipeline.orchestration.assets import build_graph, marts
from capeval_pipeline.orchestration.graph import Request
from capeval_pipeline.orchestration.records import RECORD_KEY, VersionRecord
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage import warehouse
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.tables import TABLES
from capeval_pipeline.storage.warehouse import open_published, table_schemas
from tests.e2e.conftest import HISTORY
from tests.e2e.dies_at import die_at

TELL_OF_BEFORE = {*HISTORY, "marts.rank_changes", "marts.ingest_report"}
"""Tables that keep what was before, or tell of such a table; those of `meta` do as well."""


@dataclass(frozen=True)
class Notebook:
    """What Dagster keeps for the pipeline: the benchmarks there are, and of every table made its record."""

    folder: Path
    partition: str | None = None

    def tell(self, event: Any) -> None:
        """Note what a step yields; what else it yields (checks) is nothing the pipeline asks for later."""
        if isinstance(event, dg.MaterializeResult | dg.AssetMaterialization) and RECORD_KEY in event.metadata:
            partition = getattr(event, "partition", None) or self.partition
            kept = event.metadata[RECORD_KEY].value
            self._add("records", [".".join(event.asset_key.path), partition, kept])

    def report_runless_asset_event(self, event: dg.AssetMaterialization) -> None:
        self.tell(event)

    def add_dynamic_partitions(self, _: str, names: Sequence[str]) -> None:
        self._add("benchmarks", list(names))

    def get_dynamic_partitions(self, _: str) -> list[str]:
        return sorted({name for names in self._lines("benchmarks") for name in names})

    def get_run_records(self, *_: Any) -> list[Any]:
        return []

    def _add(self, name: str, entry: Any) -> None:
        with (self.folder / name).open("a") as stream:
            stream.write(json.dumps(entry) + "\n")

    def _lines(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def records(self) -> dict[tuple[str, str | None], VersionRecord]:
        known = {entry.name for entry in fields(VersionRecord)}
        return {
            (key, partition): VersionRecord(**{name: value for name, value in kept.items() if name in known})
            for key, partition, kept in self._lines("records")
        }


def latest_records(
    notebook: Notebook, keys: Iterable[str], partitions: Iterable[str] | None = None, known: Any = None
) -> dict[tuple[str, str | None], VersionRecord]:
    wanted, named = set(keys), None if partitions is None else set(partitions)
    return {
        (key, partition): record
        for (key, partition), record in notebook.records().items()
        if key in wanted and (named is None or partition is None or partition in named)
    }


def context_of(workspace: Workspace, notebook: Notebook, config: Mapping[str, Any] | None = None) -> Any:
    return SimpleNamespace(
        resources=SimpleNamespace(workspace=workspace),
        instance=notebook,
        partition_key=notebook.partition,
        op_execution_context=SimpleNamespace(op_config=config or {}),
    )


def run_ingest(job: Any, notebook: Notebook, staged: Path, names: Sequence[str]) -> None:
    failures: dict[str, str] = {}
    for event in committing.commit_staged(job, staged, names, failures):
        notebook.tell(event)
    assert not failures, failures


def run_steps(
    job: Any, notebook: Notebook, benchmark_id: str, stale: Any, request: Request, *_: Any
) -> driver.BenchmarkRun:
    own = Notebook(notebook.folder, benchmark_id)
    for entry in stale:
        config = {"rebuild": True} if request.rebuild in entry.step.outputs else {}
        for event in step_runs.run_step(context_of(job, own, config), entry.step):
            own.tell(event)
    return driver.BenchmarkRun(benchmark_id, stale)


def publish(
    job: Any, workspace: Workspace, notebook: Notebook, graph: Any, *_: Any, is_forced: bool = False
) -> tuple[bool, str]:
    project, keys = graph.project, marts.published_keys(graph.steps)
    inputs, made = marts.inputs_hash(latest_records(notebook, keys)), latest_records(notebook, marts.mart_keys(project))
    if not is_forced and marts.are_published(workspace, project, made, inputs):
        return False, ""
    context = context_of(workspace, notebook, {"rebuild": is_forced})
    for event in marts.publish_in_turn(context, project, graph.steps):
        notebook.tell(event)
    return True, ""


def stand_in_for_dagster(replace: Any) -> None:
    """Put the notebook in Dagster's place; replace(owner, name, value) does it."""
    told = {
        "latest_records": latest_records,
        "said_before": lambda *_: {},
        "pages_of_published": lambda _, keys, *__: {key: {} for key in keys},
        "kept_open": lambda _: nullcontext(),
        "end_dead_runs": lambda _: 0,
    }
    for name, module in sorted(sys.modules.items()):
        for attribute, value in told.items():
            if name.startswith("capeval_pipeline.orchestration.") and hasattr(module, attribute):
                replace(module, attribute, value)
    for attribute, function in {"run_ingest": run_ingest, "run_steps": run_steps, "publish": publish}.items():
        replace(driver, attribute, function)
    replace(driver, "write_report", lambda *_: "")
    replace(warehouse, "table_schemas", lambda _: schemas_of_all_tables())


@functools.cache
def schemas_of_all_tables() -> Mapping[str, Any]:
    return table_schemas(build_graph().project)


def call(data: Path, command: str, *paths: Path, **request: Any) -> driver.RunReport | None:
    """One command on a workspace: ingest, forget, or a stage to run."""
    workspace = Workspace(load_settings(data))
    notebook = Notebook(data / "notebook")
    notebook.folder.mkdir(parents=True, exist_ok=True)
    if command == "ingest":
        intake.take_in(workspace, notebook, workspace, paths)
        return None
    if command == "forget":
        with workspace.staging_folder() as folder:
            batch = forget(paths, intake.place_of(workspace), ledger_in(workspace.lake))
            intake.commit(workspace, notebook, workspace, batch, folder)
        return None
    report = driver.run(workspace, workspace, notebook, [], Request(only=command, **request))
    failure = driver.failure_of(report)
    assert failure is None, failure
    return report


def die(place: str, data: Path, command: str, *paths: Path) -> None:
    """In a process of its own: the command, until it ends itself at the place."""
    stand_in_for_dagster(setattr)
    die_at(place)
    call(data, command, *paths)


def contents(data: Path) -> dict[str, str]:
    """Table → version of its content, of the lake and of the published marts; tables without rows apart."""
    lake = Lake(load_settings(data).lake_root)
    folders = sorted(path.parent for path in Path(lake.root).glob("*/*/_delta_log"))
    keys = [f"{folder.parent.name}.{folder.name}" for folder in folders]
    tables = {key: lake.read(key) for key in keys}
    with open_published(data / "capeval.duckdb") as connection:
        marts = "select table_name from information_schema.tables where table_schema = 'marts'"
        for (name,) in connection.execute(marts).fetchall():
            tables[f"marts.{name}"] = connection.sql(f"select * from marts.{name}").to_arrow_table()
    return {
        key: content_version(table, without=TABLES[key].clock_columns if key in TABLES else ())
        for key, table in sorted(tables.items())
        if table.num_rows and key not in TELL_OF_BEFORE and not key.startswith("meta.")
    }
