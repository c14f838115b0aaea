"""kill -9 in the middle of every stage: what was there stays whole, the next run finishes, nobody cleans up."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.lake import Lake
from tests.e2e.conftest import call_capeval, environment_of, query_of, versions_of, write_benchmark

SETTINGS = """
name: desk
score_range: [0, 1]
has_true_generations: true
identification: {n_seeds: 2, policies: [uniform]}
capabilities: {n_clusters: 2, cluster_counts: [1, 2], ridges: [1.0], n_resamples: 50, n_profile_resamples: 20}
"""
LAKE = "capeval_pipeline.storage.lake:Lake"
STAGES = {
    "derive": f"{LAKE}.write=intermediate.item_scores",
    "identification": f"{LAKE}.write=simulations.identification_curves",
    "capabilities": f"{LAKE}.write=estimates.clusters",
    "frontier": f"{LAKE}.write=estimates.frontier_points",
    "marts": "capeval_pipeline.storage.warehouse:create_marts",
    "publish": "capeval_pipeline.storage.warehouse:Warehouse._point_link_to",
    "report": "<capeval_pipeline.reporting.writing:write_text#2",
}
"""In the middle of each: some of the stage's tables are written, others not; some pages, not the index."""


def die(place: str, *words: str, data: Path) -> None:
    """Run the command and see it die at a place."""
    command = [sys.executable, "-m", "tests.e2e.dies_at", place, *words]
    done = subprocess.run(
        command, env=environment_of(data), cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, f"{place} was never met\n{done.stdout}\n{done.stderr}"


def runs_that_never_ended(data: Path) -> list[str]:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
        unended = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.NOT_STARTED]
        return [record.dagster_run.job_name for record in instance.get_run_records(dg.RunsFilter(statuses=unended))]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one published benchmark; the stages after the first are made by the runs that are killed."""
    root = tmp_path_factory.mktemp("killed")
    write_benchmark(root / "desk", ["alder", "birch", "cedar"], n_items=24, settings=SETTINGS)
    call_capeval("ingest", str(root / "desk"), data=root / "workspace")
    call_capeval("run", "--only", "derive", data=root / "workspace")
    return root / "workspace"


@pytest.mark.slow
def test_an_ingest_killed_between_two_tables_has_never_been(published):
    """A corrected file of which half the tables were written: no run ever computes with the new half and the old."""
    before = versions_of(published)
    lake = Lake(load_settings(published).lake_root)
    answers = lake.read("raw.generations")
    write_benchmark(published.parent / "desk", ["alder", "birch", "dogwood"], n_items=24, settings=SETTINGS)
    for place in (f"{LAKE}.write_parts=raw.generations", TOLD):
        die(place, "ingest", str(published.parent / "desk"), data=published)
        done = call_capeval("run", "--only", "derive", data=published)
        assert "skipped desk" in done.stdout, "what the killed ingest had written is undone, so nothing is new"
        assert versions_of(published) == before
        assert lake.read("raw.generations").equals(answers)
        assert runs_that_never_ended(published) == []


TOLD = "capeval_pipeline.orchestration.committing:_told=raw.models"


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_every_stage_is_finished_by_the_next(published, tmp_path):
    """One kill after the other, each in the next stage; in between readers see what was published before, whole."""
    folder = published.parent / "desk"
    write_benchmark(folder, ["alder", "birch", "elm"], n_items=24, settings=SETTINGS)
    call_capeval("ingest", str(folder), data=published)
    clean = tmp_path / "clean"
    call_capeval("ingest", str(folder), data=clean)
    call_capeval("run", data=clean)
    models = "select list(model_id order by model_id) as models from marts.leaderboard"
    before = query_of(models, published)
    index = (published / "reports" / "index.html").read_text()
    for stage, place in STAGES.items():
        die(place, "run", data=published)
        is_published = stage in ("publish", "report")
        assert (query_of(models, published) != before) == is_published, stage
        assert (published / "reports" / "index.html").read_text() == index, stage
    done = call_capeval("run", data=published)
    assert done.stderr == ""
    assert versions_of(published) == versions_of(clean)
    assert runs_that_never_ended(published) == []
    status = json.loads(call_capeval("status", "--json", data=published).stdout)
    assert [entry["stale"] for entry in status["benchmarks"]] == [[]]
    assert leftovers(published) == []


def leftovers(data: Path) -> list[Path]:
    """What a killed process may have left and nobody takes away."""
    patterns = ("tmp/*", "locks/*.json", "warehouse/*.building*", "reports/.*")
    return [path for pattern in patterns for path in sorted(data.glob(pattern))]
