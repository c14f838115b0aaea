"""Increments without a daemon: which assets ask to run after which change.

A tick of the automation sensor is evaluated against an instance in which materializations are reported as a run would
report them; what it requests is reported in turn, until a tick requests nothing.
"""

from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline.definitions import build_definitions
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.marts import mart_keys
from capeval_pipeline.orchestration.assets.partition_state import GATE
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import asset_key
from capeval_pipeline.settings import Settings

RAW = [key for step in build_graph().steps if step.stage == "ingest" for key in step.outputs]
LONG = {key for step in build_graph().steps if step.is_long for key in step.outputs}
FOLLOWING = {key for step in build_graph().steps if step.stage != "ingest" for key in step.outputs} - LONG


class Ticks:
    """Reports materializations and evaluates ticks; `version_of` gives the data version a table gets when made."""

    def __init__(self, instance: dg.DagsterInstance, definitions: dg.Definitions) -> None:
        self.instance = instance
        self.definitions = definitions
        self.cursor = None
        self.version_of = lambda key, partition: f"of {key} {partition}"

    def materialize(self, key: str, partition: str | None, version: str | None = None) -> None:
        self.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset_key(key),
                partition=partition,
                tags={"dagster/data_version": version or self.version_of(key, partition)},
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


@pytest.fixture
def ticks(tmp_path: Path):
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions(BENCHMARKS.name, ["arc", "desk"])
        found = Ticks(instance, build_definitions(Settings(data=tmp_path)))
        found.requested()
        for partition in ("arc", "desk"):
            for key in RAW:
                found.materialize(key, partition)
        found.settle()
        yield found


def test_new_files_of_one_benchmark_move_that_benchmark_and_the_fan_in_alone(ticks):
    for key in RAW:
        ticks.materialize(key, "arc", f"{key} with a new model")
    ticks.version_of = lambda key, partition: f"new {key} {partition}"
    made = ticks.settle()
    assert {partition for _, partition in made} == {"arc", None}
    assert {key for key, partition in made if partition == "arc"} == FOLLOWING
    assert {key for key, partition in made if partition is None} >= set(mart_keys(build_graph().project))


def test_the_same_content_again_moves_nothing(ticks):
    for key in RAW:
        ticks.materialize(key, "arc")
    assert ticks.settle() == set()


def test_a_step_made_again_with_the_same_content_moves_nothing_downstream(ticks):
    ticks.materialize("intermediate.item_scores", "arc")
    assert ticks.settle() == set()


def test_a_change_that_ends_in_the_same_table_stops_there(ticks):
    """New bytes in raw, the same scores: what only reads the scores is left alone."""
    ticks.materialize("raw.files", "arc", "another file, same answers")
    for key in ("raw.generations",):
        ticks.materialize(key, "arc", "other costs")
    made = ticks.settle()
    assert ("staging.stg_generations", "arc") in made
    assert ("intermediate.comparisons", "arc") not in made


def test_the_marts_wait_for_the_gate_and_run_once(ticks):
    """A fan-in that listened to every table would be asked for at the first one that moved, and again afterwards."""
    for key in RAW:
        ticks.materialize(key, "arc", f"{key} again")
    ticks.version_of = lambda key, partition: f"newer {key} {partition}"
    n_requests = 0
    for _ in range(40):
        requested = ticks.requested()
        if not requested:
            break
        n_requests += ("marts.leaderboard", None) in requested
        if ("marts.leaderboard", None) in requested:
            assert (GATE, "arc") not in requested or len({p for _, p in requested}) > 1
        for key, partition in sorted(requested, key=str):
            ticks.materialize(key, partition)
    assert n_requests == 1


def test_long_evaluations_never_run_by_themselves(ticks):
    for key in RAW:
        ticks.materialize(key, "arc", f"{key} once more")
    ticks.version_of = lambda key, partition: f"newest {key} {partition}"
    assert not {key for key, _ in ticks.settle()} & LONG
