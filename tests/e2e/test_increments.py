"""From files to the published database: the same files give the same versions, and only what changed runs again."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND, HISTORY, SETTINGS, VERSIONS, write_benchmark

MODELS = ["alder", "birch", "cedar", "elm", "fir"]


def versions(query, data: Path | None = None) -> dict[tuple[str, str], str]:
    return {
        (row["key"], row["benchmark_id"]): row["data_version"]
        for row in query(VERSIONS, data)
        if row["key"] not in HISTORY
    }


def test_two_workspaces_from_the_same_files_in_another_order_have_the_same_versions(capeval, query, tmp_path):
    first = write_benchmark(tmp_path / "desk", MODELS)
    second = write_benchmark(tmp_path / "other", MODELS[:3], settings=SETTINGS.replace("name: desk", "name: other"))
    for data, order in ((tmp_path / "a", [first, second]), (tmp_path / "b", [second, first])):
        for folder in order:
            capeval("ingest", str(folder), data=data)
        capeval("run", data=data)
    assert versions(query, tmp_path / "a") == versions(query, tmp_path / "b")


def test_nothing_runs_where_nothing_changed(capeval, query, tmp_path):
    folder = write_benchmark(tmp_path / "desk", MODELS)
    capeval("ingest", str(folder))
    capeval("run")
    before = versions(query)
    again = capeval("ingest", str(folder))
    assert "unchanged" in again.stdout
    done = capeval("run")
    assert "skipped desk" in done.stdout
    assert "nothing to publish" in done.stdout
    assert versions(query) == before


def test_another_model_leaves_old_pairs_and_other_benchmarks_as_they_are(capeval, query, tmp_path):
    folder = write_benchmark(tmp_path / "desk", MODELS)
    other = write_benchmark(tmp_path / "other", MODELS[:3], settings=SETTINGS.replace("name: desk", "name: other"))
    capeval("ingest", str(folder), str(other))
    capeval("run")
    pairs = "select item_id, model_a_id, model_b_id, outcome from intermediate.comparisons where benchmark_id = 'desk'"
    before = {(row["item_id"], row["model_a_id"], row["model_b_id"]): row["outcome"] for row in query(pairs)}
    untouched = {key: found for key, found in versions(query).items() if key[1] == "other"}

    write_benchmark(folder, [*MODELS, "gum"])
    capeval("ingest", str(folder))
    done = capeval("run")

    assert "skipped other" in done.stdout
    after = {(row["item_id"], row["model_a_id"], row["model_b_id"]): row["outcome"] for row in query(pairs)}
    old_pairs = {key: outcome for key, outcome in after.items() if "gum" not in key}
    assert len(after) > len(old_pairs) > 0, "the new model takes part"
    # with at most 64 models the old pairs of the new sample are a subset of the old sample
    assert {key: before[key] for key in old_pairs} == old_pairs
    assert {key: found for key, found in versions(query).items() if key[1] == "other"} == untouched


def test_a_damaged_table_is_named_with_the_command_that_repairs_it(capeval, query, tmp_path):
    folder = write_benchmark(tmp_path / "desk", MODELS[:3])
    capeval("ingest", str(folder))
    capeval("run")
    before = versions(query)
    workspace = tmp_path / "workspace"
    for path in (workspace / "lake" / "estimates" / "strengths").rglob("*.parquet"):
        path.unlink()
    (workspace / "capeval.duckdb").unlink()
    broken = capeval("run", check=False)
    assert broken.returncode == 1
    assert "capeval run --rebuild estimates.strengths" in broken.stderr
    assert "Traceback" not in broken.stderr
    capeval("run", "--rebuild", "estimates.strengths")
    assert versions(query) == before


def test_an_interrupted_run_stops_at_once_and_says_what_is_kept(capeval, tmp_path):
    """Ctrl-C while the first of two benchmarks runs: the second is not begun, nothing is published."""
    for name in ("desk", "other"):
        capeval("ingest", str(write_benchmark(tmp_path / name, MODELS, settings=SETTINGS.replace("desk", name))))
    workspace = tmp_path / "workspace"
    environment = {**os.environ, "CAPEVAL_DATA": str(workspace)}
    process = subprocess.Popen(
        [COMMAND, "run"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    while not (workspace / "lake" / "staging").exists():
        time.sleep(0.05)
        assert process.poll() is None, "the run ended before it could be interrupted"
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert error == "capeval: interrupted; what was finished is kept, `capeval run` goes on from there\n"
    assert not (workspace / "capeval.duckdb").exists()


@pytest.mark.slow
def test_a_run_killed_at_any_moment_is_finished_by_the_next_one(capeval, query, tmp_path):
    """Kills spread over the whole run; what the last run publishes equals a run that nobody disturbed."""
    folder = write_benchmark(tmp_path / "desk", MODELS)
    clean, disturbed = tmp_path / "clean", tmp_path / "disturbed"
    capeval("ingest", str(folder), data=clean)
    started = time.monotonic()
    capeval("run", data=clean)
    length = time.monotonic() - started

    capeval("ingest", str(folder), data=disturbed)
    n_killed = 0
    for attempt in range(8):
        environment = {**os.environ, "CAPEVAL_DATA": str(disturbed)}
        process = subprocess.Popen(
            [COMMAND, "run"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=length * (attempt + 2) / 10)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            n_killed += 1
        process.wait()
    assert n_killed >= 4, "the kills came too late to disturb anything"
    capeval("run", data=disturbed)
    assert versions(query, disturbed) == versions(query, clean)
    assert "skipped desk" in capeval("run", data=disturbed).stdout
