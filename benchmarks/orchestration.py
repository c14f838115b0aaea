"""What orchestration costs beside the methods: CPU seconds, ratios to importing dagster, counts of queries and opens.

    python -m benchmarks.orchestration [--n-benchmarks 300] [--only import commands one many]

Everything happens in a temporary workspace, through the commands a user calls; CPU time of processes, since a busy
machine makes wall time say nothing. By hand, never a test; tests/orchestration/test_run_counts.py holds the counts.

Of three hundred benchmarks one is read and computed; what was told of its tables is told of the others as well. What a
run finds out before it starts anything and the sensors see no difference; computing three hundred would take an hour.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import dagster as dg

    from capeval_pipeline.orchestration.workspace import Workspace

SETTINGS = """
name: {name}
score_range: [0, 1]
identification: {{n_seeds: 2, policies: [uniform]}}
capabilities: {{n_clusters: 4, cluster_counts: [1, 2], ridges: [1.0], n_resamples: 100, n_profile_resamples: 20}}
"""
METHODS = ("capabilities", "identification", "frontier")
"""Stages whose CPU time is the methods'; derive's SQL, marts and pages count as orchestration's."""


def write_benchmark(folder: Path, name: str, *, n_models: int = 6, n_items: int = 40) -> Path:
    """A canonical folder of right and wrong answers, one each; what is in it does not matter here."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(sum(map(ord, name)))
    skill, ease = rng.normal(size=n_models), rng.normal(size=n_items)
    right = rng.random((n_models, n_items)) < 1 / (1 + np.exp(-skill[:, None] - ease))
    prompts = [f"q{item},Explain case {item} of topic {item % 5}" for item in range(n_items)]
    answers = [f"m{m},q{i},0,{int(right[m, i])}" for m in range(n_models) for i in range(n_items)]
    (folder / "items.csv").write_text("\n".join(["item_id,prompt", *prompts]) + "\n")
    (folder / "results.csv").write_text("\n".join(["model,item_id,generation,score", *answers]) + "\n")
    (folder / "benchmark.yml").write_text(SETTINGS.format(name=name))
    return folder


def cpu_of(words: Sequence[str], data: Path | None = None, n_times: int = 1) -> float:
    """Least CPU seconds of a process among some. Compiled modules are kept, as those of what it imports are."""
    environment = {**os.environ, **({"CAPEVAL_DATA": str(data)} if data else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    used = []
    for _ in range(n_times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(used)


def capeval(*words: str) -> list[str]:
    """The command of the package that this module finds itself beside."""
    return [sys.executable, "-c", "from capeval_pipeline.cli import main; main()", *words]


def say(what: str, figure: str) -> None:
    print(f"{what:<72}{figure}", flush=True)


def compare_imports() -> float:
    """CPU of importing the definitions against importing dagster; returns the latter."""
    from capeval_pipeline.kept_beside_code import PACKAGE_ROOT

    ours = [sys.executable, "-c", "import capeval_pipeline.definitions"]
    base = cpu_of([sys.executable, "-c", "import dagster"], n_times=5)
    warm = cpu_of(ours, n_times=5)
    for kept in [*PACKAGE_ROOT.glob("__pycache__/code_versions-*"), *PACKAGE_ROOT.glob("__pycache__/sql_models-*")]:
        kept.unlink()
    cold = cpu_of(ours)
    say("import dagster", f"{base:.2f} CPU s")
    say("import the definitions (figure to reach: 1.5)", f"{warm / base:.2f} times that")
    say("the same with nothing kept beside the code", f"{cold / base:.2f}")
    return base


def time_commands(data: Path, base: float) -> None:
    """CPU of commands on a workspace of one computed benchmark."""
    for words in (["--help"], ["leaderboard", "b000"], ["sql", "select 1"], ["status"], ["run"]):
        used = cpu_of(capeval(*words), data, n_times=3)
        say(f"capeval {' '.join(words)}", f"{used:.2f} CPU s, {used / base:.2f} times importing dagster")


def time_one_benchmark(data: Path, folder: Path) -> None:
    """A benchmark from its files to the report, what is the methods' taken off. Kernels are compiled before."""
    read = cpu_of(capeval("ingest", str(folder)), data)
    whole = cpu_of(capeval("run"), data)
    own = sum(seconds for stage, seconds in seconds_of_steps(data) if stage in METHODS)
    say("ingest of one small benchmark", f"{read:.2f} CPU s")
    say("run of all stages, marts and report", f"{whole:.2f} CPU s, of which the methods' steps {own:.2f}")
    say("so orchestration (figure to reach: 10)", f"{whole - own:.2f} CPU s")


def seconds_of_steps(data: Path) -> Iterator[tuple[str, float]]:
    """(stage, CPU seconds of the body) of each step as it was last run."""
    from capeval_pipeline.orchestration.assets import build_graph
    from capeval_pipeline.orchestration.partitions import BENCHMARKS
    from capeval_pipeline.orchestration.records import asset_key

    with opened(data) as (_, instance):
        names = set(instance.get_dynamic_partitions(BENCHMARKS.name or ""))
        for step in build_graph().steps:
            for event in instance.fetch_materializations(asset_key(step.outputs[0]), limit=len(names)).records:
                made = event.asset_materialization
                if made is not None and "cpu_seconds" in made.metadata:
                    yield step.stage, float(made.metadata["cpu_seconds"].value)


@contextmanager
def opened(data: Path) -> Iterator[tuple[Workspace, dg.DagsterInstance]]:
    """A workspace and its instance."""
    from capeval_pipeline.orchestration import driver
    from capeval_pipeline.orchestration.workspace import Workspace
    from capeval_pipeline.settings import load_settings

    workspace = Workspace(load_settings(data))
    with driver.workspace_instance(workspace) as instance:
        yield workspace, instance


def tell_as_if_computed(workspace: Workspace, instance: dg.DagsterInstance, template: str, names: Sequence[str]) -> int:
    """Tell of others what was told last of one benchmark, as rows of the event log; returns their number.

    Every benchmark gets a row of raw.benchmarks, so that its settings are looked up as those of any other.
    """
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as log
    from sqlalchemy import insert, select

    from capeval_pipeline.orchestration.assets import build_graph
    from capeval_pipeline.orchestration.event_log import _latest_ids
    from capeval_pipeline.orchestration.partitions import BENCHMARKS
    from capeval_pipeline.orchestration.records import asset_key

    facts = workspace.lake.read("raw.benchmarks", template)
    place = facts.column_names.index("benchmark_id")
    parts = {name: facts.set_column(place, "benchmark_id", [[name]]) for name in names}
    workspace.lake.write_parts("raw.benchmarks", parts)
    instance.add_dynamic_partitions(BENCHMARKS.name or "", list(names))
    keys = [asset_key(key) for step in build_graph().steps for key in step.outputs]
    ids = sorted(set(_latest_ids(instance, keys, [template]).values()))
    columns = [column for column in log.c if column.name != "id"]
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        rows = [
            row._asdict() for row in connection.execute(select(*columns).where(log.c.id.in_(ids)).order_by(log.c.id))
        ]
        for name in names:
            connection.execute(insert(log), [told_of(row, template, name) for row in rows])
        connection.commit()
    return len(rows) * len(names)


def told_of(row: dict[str, Any], template: str, name: str) -> dict[str, Any]:
    """A row of the event log as it would be of another benchmark."""
    event = json.loads(row["event"])
    event["dagster_event"]["event_specific_data"]["materialization"]["partition"] = name
    return {**row, "partition": name, "event": json.dumps(event)}


def time_many(data: Path, folder: Path, n_benchmarks: int) -> None:
    """A run with nothing stale, a look of the inbox sensor and a tick of the automation sensor over many benchmarks."""
    names = [f"b{number:03d}" for number in range(1, n_benchmarks)]
    for name in names:
        write_benchmark(folder / name, name, n_models=2, n_items=2)
    with opened(data) as (workspace, instance):
        say(f"records of {n_benchmarks} benchmarks", str(tell_as_if_computed(workspace, instance, "b000", names)))
    say(f"publish and pages of {n_benchmarks}", f"{cpu_of(capeval('run'), data):.1f} CPU s")
    say(f"run with nothing stale, {n_benchmarks} (figure to reach: 8)", f"{cpu_of(capeval('run'), data):.2f} CPU s")
    time_sensors(data, folder, n_benchmarks)


def time_sensors(data: Path, folder: Path, n_benchmarks: int) -> None:
    """CPU of one tick of each sensor in a process that has loaded the definitions, as the daemon's has."""
    import dagster as dg
    from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
    from dagster._core.definitions.automation_tick_evaluation_context import AutomationTickEvaluationContext

    from capeval_pipeline.definitions import build_definitions
    from capeval_pipeline.orchestration.automation import watch_inbox

    with opened(data) as (workspace, instance):
        cursor = None
        for look in ("first", "second, all whole", "third, all taken"):
            started = time.process_time()
            result = watch_inbox(folder, cursor, time.time() + 3600)
            assert isinstance(result, dg.SensorResult)
            cursor = result.cursor
            n_asked = len(result.run_requests or ())
            used = time.process_time() - started
            say(f"inbox sensor, {look} look: {n_asked} runs asked for (figure to reach: 2)", f"{used:.2f} CPU s")
        graph = build_definitions(workspace.settings).resolve_asset_graph()
        seen = AssetDaemonCursor.empty()
        for tick in ("first", "second", "with nothing new"):
            started = time.process_time()
            # what the daemon calls; dg.evaluate_automation_conditions asks for the partitions thousands of times more
            asked, seen, _ = AutomationTickEvaluationContext(
                evaluation_id=seen.evaluation_id + 1, asset_graph=graph, asset_selection=dg.AssetSelection.all(),
                instance=instance, cursor=seen, materialize_run_tags={}, observe_run_tags={}, emit_backfills=False,
                auto_observe_asset_keys=set(), logger=logging.getLogger(__name__),
            ).evaluate()  # fmt: skip
            used = time.process_time() - started
            say(f"automation sensor, {tick} tick over {n_benchmarks}: {len(asked)} runs", f"{used:.2f} CPU s")


def main() -> None:
    parts = ("import", "commands", "one", "many")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-benchmarks", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    base = compare_imports() if {"import", "commands"} & set(options.only) else 0.0
    if not {"commands", "one", "many"} & set(options.only):
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder, data = Path(scratch) / "files", Path(scratch) / "workspace"
        first = write_benchmark(folder / "b000", "b000")
        warm = Path(scratch) / "warm"  # compiles the kernels, which are kept beside the code and not in a workspace
        cpu_of(capeval("ingest", str(first)), warm)
        say("run of a workspace that compiles kernels, if none were there", f"{cpu_of(capeval('run'), warm):.1f} CPU s")
        time_one_benchmark(data, first)
        if "commands" in options.only:
            time_commands(data, base)
        if "many" in options.only:
            time_many(data, folder, options.n_benchmarks)


if __name__ == "__main__":
    main()
