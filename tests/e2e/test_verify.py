"""`capeval verify`: nothing to say of a sound workspace; a table changed by hand, or one that is not made the same."""

from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.stages import StageResult
from capeval_pipeline.orchestration.verification import Verified, verify
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from tests.e2e.conftest import call_capeval, write_benchmark

pytestmark = pytest.mark.xdist_group("verify")

MODELS = ["alder", "birch", "cedar"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A workspace whose capabilities were computed; the tests below only read it or repair what they break."""
    folder = tmp_path_factory.mktemp("verify")
    write_benchmark(folder / "desk", MODELS)
    call_capeval("ingest", str(folder / "desk"), data=folder / "data")
    call_capeval("run", "--only", "capabilities", data=folder / "data")
    return folder / "data"


def verified(workspace, monkeypatch, body=None) -> dict[str, Verified]:
    """Table → what was found; body: in place of that of `strengths`, given the sound one first."""
    monkeypatch.setenv("CAPEVAL_DATA", str(workspace))
    steps = [step for step in build_graph().steps if step.stage in ("ingest", "derive", "capabilities")]
    if body:
        steps = [replace(s, body=partial(body, s.body)) if s.name == "strengths" else s for s in steps]
    here = Workspace(load_settings(workspace))
    with driver.workspace_instance(here) as instance:
        return {entry.table: entry for entry in verify(here, instance, steps, "desk")}


def test_a_sound_workspace_is_made_again_the_same(workspace, monkeypatch):
    found = verified(workspace, monkeypatch)
    assert found["raw.generations"].state == "kept"
    assert {entry.state for key, entry in found.items() if not key.startswith(("raw.", "readings."))} == {"same"}


def test_a_step_that_does_not_repeat_itself_is_found(workspace, monkeypatch):
    rng = np.random.default_rng()

    def restless(body, part, settings) -> StageResult:
        result = body(part, settings)
        frame = result.tables["estimates.strengths"].copy()
        frame["strength"] += rng.normal(scale=1e-6, size=len(frame))
        return replace(result, tables={**result.tables, "estimates.strengths": frame})

    found = verified(workspace, monkeypatch, restless)
    assert {key for key, entry in found.items() if entry.state == "differs"} == {"estimates.strengths"}
    assert "recorded is" in found["estimates.strengths"].sentence


def test_a_step_that_fails_when_made_again_is_found(workspace, monkeypatch):
    def failing(body, part, settings) -> StageResult:
        raise ArithmeticError("no convergence")

    assert "no convergence" in verified(workspace, monkeypatch, failing)["estimates.strengths"].sentence


def test_rows_changed_by_hand_are_found_and_putting_them_back_repairs_them(workspace, monkeypatch):
    changed = next((workspace / "lake/estimates/strengths").rglob("*.parquet"))
    sound = changed.read_bytes()
    with duckdb.connect() as connection:
        moved = connection.sql(f"select * replace (strength + 1e-9 as strength) from '{changed}'").to_arrow_table()
    pq.write_table(moved, changed)
    found = verified(workspace, monkeypatch)
    assert [key for key, entry in found.items() if entry.state == "damaged"] == ["estimates.strengths"]
    assert "capeval run --rebuild estimates.strengths" in found["estimates.strengths"].sentence
    assert found["estimates.model_pairs"].state == "kept"
    done = call_capeval("verify", "desk", data=workspace, check=False)
    assert done.returncode == 1
    assert "estimates.strengths" in done.stdout
    changed.unlink()
    assert verified(workspace, monkeypatch)["estimates.strengths"].state == "damaged"
    changed.write_bytes(sound)
    assert verified(workspace, monkeypatch)["estimates.strengths"].state == "same"


def test_a_workspace_without_tables_says_what_to_do(tmp_path):
    done = call_capeval("verify", data=tmp_path / "nothing", check=False)
    assert done.returncode == 1
    assert "capeval ingest PATH" in done.stderr
