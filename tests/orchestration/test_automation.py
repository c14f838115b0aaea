"""Increments without a daemon: which assets ask to run after which change.

A tick of the automation sensor is evaluated against an instance in which materializations are reported as a run would
report them; what it requests is reported in turn, until a tick requests nothing.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline import definitions
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.marts import mart_keys
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import asset_key
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.sql_models import load_model, sql_folder

RAW = [key for step in build_graph().steps if step.stage == "ingest" for key in step.outputs]
LONG = {key for step in build_graph().steps if step.is_long for key in step.outputs}
FOLLOWING = {key for step in build_graph().steps if step.stage != "ingest" for key in step.outputs} - LONG


class Ticks:
    """Reports materializations and evaluates ticks; `version_of` gives the data version a table gets when made."""

    def __init__(self, instance: dg.DagsterInstance, loaded: dg.Definitions) -> None:
        self.instance = instance
        self.definitions = loaded
        self.cursor = None
        self.version_of = lambda key, partition: f"of {key} {partition}"
        self.versions: dict[tuple[str, str | None], str] = {}

    def materialize(self, key: str, partition: str | None, version: str | None = None) -> None:
        self.versions[key, partition] = version or self.version_of(key, partition)
        self.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset_key(key),
                partition=partition,
                tags={"dagster/data_version": self.versions[key, partition]},
            )
        )

    def requested(self) -> set[tuple[str, str | None]]:
        """What one tick asks for: (table, benchmark)."""
        result = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        return {
            (".".join(key.path), partition)
            for key in self.definitions.resolve_asset_graph().get_all_asset_keys()
            for partition in result.get_requested_partitions(key)
        }

    def settle(self) -> set[tuple[str, str | None]]:
        """Ticks until nothing is asked for, making all that is; returns everything that was made."""
        made: set[tuple[str, str | None]] = set()
        for _ in range(40):
            requested = self.requested()
            if not requested:
                return made
            for key, partition in sorted(requested, key=str):
                self.materialize(key, partition)
            made |= requested
        raise AssertionError("the graph never settles")


@pytest.fixture(scope="module")
def ticks(tmp_path_factory):
    """Two benchmarks, everything made; a tick costs seconds, so the tests share one instance and leave it settled."""
    folder = tmp_path_factory.mktemp("automation")
    with dg.DagsterInstance.ephemeral(tempdir=str(folder)) as instance:
        instance.add_dynamic_partitions(BENCHMARKS.name, ["arc", "desk"])
        found = Ticks(instance, definitions.build_definitions(Settings(data=folder)))
        found.requested()
        for partition in ("arc", "desk"):
            for key in RAW:
                found.materialize(key, partition)
        found.settle()
        yield found


@pytest.mark.xdist_group("automation")
def test_the_same_content_again_moves_nothing(ticks):
    """The same files read again, and a step in the middle made again by hand with the same outcome."""
    for key in (*RAW, "intermediate.item_scores"):
        ticks.materialize(key, "arc", ticks.versions[key, "arc"])
    assert ticks.requested() == set()


@pytest.mark.xdist_group("automation")
def test_new_files_move_their_benchmark_and_then_the_marts_once(ticks):
    """Everything of the benchmark in one tick, but not the long evaluations; the marts only after its gate.

    A step that is asked for although its own inputs kept their content finds that out by itself and reuses what is
    there; a fan-in that listened to every table would run at the first one that moved and again afterwards.
    """
    for key in RAW:
        ticks.materialize(key, "arc", f"{key} with a new model")
    ticks.version_of = lambda key, partition: f"new {key} {partition}"
    first = ticks.requested()
    assert {partition for _, partition in first} == {"arc"}
    assert {key for key, _ in first} == FOLLOWING
    assert not {key for key, _ in first} & LONG
    for key, partition in first:
        ticks.materialize(key, partition)
    second = ticks.requested()
    assert {partition for _, partition in second} == {None}
    assert {key for key, _ in second} >= set(mart_keys(build_graph().project))
    for key, partition in second:
        ticks.materialize(key, partition)
    assert not {key for key, _ in ticks.settle()} & set(mart_keys(build_graph().project))


@pytest.mark.xdist_group("automation")
def test_a_changed_comment_moves_nothing_and_a_changed_expression_its_model_and_what_follows(ticks, tmp_path):
    """The location is loaded again with another text of one SQL model, as after a deployment; all it sees is a version.

    What it asks for is not made, and its cursor is its own, so that the shared instance stays settled.
    """
    key = "intermediate.item_stats"
    text = (sql_folder() / "models" / "intermediate" / "item_stats.sql").read_text(encoding="utf-8")
    assert (
        model_version(tmp_path / "comment", key, f"-- said better\n{text}")
        == build_graph().project.models[key].code_version
    )

    assert "avg(score order by model_id)" in text
    other = model_version(tmp_path / "expression", key, text.replace("avg(score order by model_id)", "median(score)"))
    steps = [replace(step, code_version=other) if key in step.outputs else step for step in build_graph().steps]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(definitions, "build_graph", lambda: replace(build_graph(), steps=steps))
        deployed = Ticks(ticks.instance, definitions.build_definitions(Settings(data=tmp_path)))
    deployed.cursor = ticks.cursor
    requested = deployed.requested()
    following = {table for step in steps if key in step.inputs for table in step.outputs}
    assert requested >= {(table, name) for table in {key, *following - LONG} for name in ("arc", "desk")}
    assert not {table for table, _ in requested} & {*RAW, "staging.stg_generations", "intermediate.item_scores"}


def model_version(folder: Path, key: str, sql: str) -> str:
    """The code version of a SQL model with another text."""
    layer, name = key.split(".")
    path = folder / layer / f"{name}.sql"
    path.parent.mkdir(parents=True)
    path.write_text(sql, encoding="utf-8")
    shutil.copy(sql_folder() / "models" / layer / f"{name}.yml", path.with_suffix(".yml"))
    return load_model(path).code_version
