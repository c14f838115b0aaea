"""What is stale, decided from records alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.orchestration.graph import Request, in_order, needed_for, stale_steps
from capeval_pipeline.orchestration.records import NEVER, VersionRecord
from capeval_pipeline.orchestration.stages import StageAsset, StageResult
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings


def step(name: str, inputs: tuple[str, ...], *, stage: str = "derive", **changes) -> StageAsset:
    return StageAsset(name, stage, (f"t.{name}",), inputs, lambda part, settings: StageResult({}), "1", "", **changes)


FILES = step("files", (), stage="ingest", always_runs=True)
SCORES = step("scores", ("t.files",))
PAIRS = step("pairs", ("t.scores",))
CLUSTERS = step("clusters", ("t.pairs",), stage="capabilities")
LONG = step("long", ("t.clusters",), stage="capabilities", is_long=True)
COSTS = step("costs", ("t.files",), stage="frontier")
STEPS = [FILES, SCORES, PAIRS, CLUSTERS, LONG, COSTS]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Settings(data=tmp_path))


def made(workspace: Workspace, steps=STEPS, **versions: str) -> dict[tuple[str, str | None], VersionRecord]:
    """Records as a run leaves them: version 'v' for each output unless given, all inputs at their version."""
    version_of = {entry.tables[0]: versions.get(entry.name, "v") for entry in steps}
    return {
        (entry.tables[0], "arc"): VersionRecord(
            version_of[entry.tables[0]],
            entry.code_version,
            {key: version_of.get(key, NEVER) for key in entry.inputs},
            entry.configured(workspace, {}),
        )
        for entry in steps
    }


def stale_names(workspace, records, request=None, facts=None) -> list[str]:
    return [found.step.name for found in stale_steps(STEPS, "arc", records, workspace, facts, request or Request())]


def test_steps_come_after_what_they_read():
    names = [entry.name for entry in in_order(reversed(STEPS))]
    assert names.index("files") < names.index("scores") < names.index("pairs") < names.index("clusters")


def test_a_circle_is_refused_by_name():
    with pytest.raises(CapevalError, match="a, b"):
        in_order([step("a", ("t.b",)), step("b", ("t.a",))])


def test_a_stage_needs_what_is_upstream_of_it_and_nothing_else():
    assert [entry.name for entry in needed_for(STEPS, "capabilities")] == [
        "files",
        "scores",
        "pairs",
        "clusters",
        "long",
    ]


def test_nothing_made_yet_means_everything_but_files_and_long_evaluations(workspace):
    assert stale_names(workspace, {}) == ["scores", "pairs", "clusters", "costs"]


def test_nothing_changed_means_nothing_to_do(workspace):
    assert stale_names(workspace, made(workspace)) == []


def test_new_files_make_stale_what_reads_them_and_what_follows(workspace):
    records = made(workspace)
    records["t.files", "arc"] = replace(records["t.files", "arc"], data_version="new")
    found = stale_steps(STEPS, "arc", records, workspace, None, Request())
    assert [entry.step.name for entry in found] == ["scores", "pairs", "clusters", "costs"]
    assert found[0].reason == "t.files changed"


def test_a_changed_code_version_makes_a_step_and_its_dependents_stale(workspace):
    records = made(workspace)
    records["t.pairs", "arc"] = replace(records["t.pairs", "arc"], code_version="0")
    assert stale_names(workspace, records) == ["pairs", "clusters"]


def test_a_changed_setting_of_the_benchmark_makes_its_stage_stale(workspace):
    facts = {"settings": {"derive": {"pairs_per_item": 5}}}
    assert stale_names(workspace, made(workspace), facts=facts) == ["scores", "pairs", "clusters"]


def test_one_stage_alone_leaves_the_others_as_they_are(workspace):
    assert stale_names(workspace, {}, Request(only="frontier")) == ["costs"]


def test_one_stage_alone_tells_the_gate_too_so_that_pages_hear_of_it(workspace):
    gate = step("gate", ("t.scores", "t.costs"), stage="marts")
    records = made(workspace, [*STEPS, gate])
    records["t.costs", "arc"] = replace(records["t.costs", "arc"], code_version="0")
    found = stale_steps([*STEPS, gate], "arc", records, workspace, None, Request(only="frontier"))
    assert [entry.step.name for entry in found] == ["costs", "gate"]
    assert [entry.step.name for entry in stale_steps([gate, SCORES], "arc", {}, workspace, None, Request("marts"))] == [
        "gate"
    ]


def test_the_long_evaluations_run_when_asked_for(workspace):
    assert stale_names(workspace, made(workspace)) == []
    records = made(workspace)
    del records["t.long", "arc"]
    assert stale_names(workspace, records, Request(is_full=True)) == ["long"]


def test_a_result_of_an_override_stays_until_something_else_changes(workspace):
    records = made(workspace)
    records["t.pairs", "arc"] = replace(records["t.pairs", "arc"], overrides={"pairs_per_item": 3})
    assert stale_names(workspace, records) == []
    asked_again = Request(overrides={"derive": {"pairs_per_item": 3}})
    records["t.scores", "arc"] = replace(records["t.scores", "arc"], overrides={"pairs_per_item": 3})
    assert stale_names(workspace, records, asked_again) == []
    other = Request(overrides={"derive": {"pairs_per_item": 4}})
    assert stale_names(workspace, records, other) == ["scores", "pairs", "clusters"]


def test_a_rebuild_makes_the_table_and_its_dependents_again(workspace):
    assert stale_names(workspace, made(workspace), Request(rebuild="t.pairs")) == ["pairs", "clusters"]


def test_raw_tables_are_resolved_again_when_asked_for(workspace):
    assert stale_names(workspace, made(workspace), Request(rebuild="t.files"))[0] == "files"
