"""What may befall a run that the daemon started: it is cancelled, or killed with the daemon. The file is in, once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster import DagsterRunStatus

from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.benchmark_key import benchmark_key
from tests.e2e.conftest import call_capeval, environment_of, query_of, versions_of
from tests.e2e.test_faults_killed import runs_that_never_ended
from tests.file_locks import is_locked

PROJECT = Path(__file__).parents[2]
PATIENCE = 240.0
BETWEEN_TWO_TABLES = "<capeval_pipeline.storage.lake:Lake.write_parts=raw.generations"
MODELS = "select model_id from raw.generations order by all"


@contextmanager
def daemon(data: Path, waits_at: str = "") -> Iterator[subprocess.Popen]:
    """Dagster's daemon with the code it loads and the runs it starts, which wait at a place if one is named."""
    location = {"module_name": "tests.e2e.waits_at", "working_directory": str(PROJECT)}
    loaded = data.parent / "workspace.yaml"
    loaded.write_text(
        yaml.safe_dump({"load_from": [{"python_module": {**location, "location_name": "capeval_pipeline"}}]})
    )
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(loaded)]
    environment = {**environment_of(data), "DAGSTER_HOME": str(data / "dagster")}
    if waits_at:
        environment |= {"WAITS_AT": waits_at, "WAITING": str(waiting(data))}
        waiting(data).unlink(missing_ok=True)
    with (data / "daemon.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        end_family(process.pid)
        process.wait()


def waiting(data: Path) -> Path:
    """The file that says that a run has come to the place where it waits."""
    return data.parent / "waiting"


def end_family(pid: int) -> None:
    """kill -9 of a process and everything it started, at once."""
    family = [pid]
    for member in family:
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(member)], capture_output=True, text=True, check=False)
        family += [int(line) for line in found.stdout.split()]
    for member in family:
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            continue


def until(holds, data: Path, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{what}: never\n{(data / 'daemon.log').read_text()[-3000:]}"
        time.sleep(0.5)


def statuses(data: Path, job: str) -> list[DagsterRunStatus]:
    """Of the runs of a job, the newest first."""
    with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
        return [run.status for run in instance.get_runs(dg.RunsFilter(job_name=job))]


def cancel(data: Path, job: str) -> None:
    """What the button on a run's page does: the launcher is asked to end the newest run of a job."""
    with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
        assert instance.run_launcher.terminate(instance.get_runs(dg.RunsFilter(job_name=job), limit=1)[0].run_id)


@pytest.mark.slow
def test_a_file_whose_run_was_cancelled_and_whose_daemon_was_killed_is_in_once(tmp_path):
    """First the run is cancelled between two tables, then, asked for again, killed there with the daemon."""
    data = tmp_path / "workspace"
    first = tmp_path / "first.csv"
    first.write_text("item_id,model,score\nq1,a,1\nq2,a,0\n")
    call_capeval("ingest", str(first), "--benchmark", "desk", data=data)
    call_capeval("run", "--only", "derive", data=data)
    before, workspace = versions_of(data), Workspace(load_settings(data))
    locks = workspace.settings.root / "locks"
    held = [locks / "ingest.lock", locks / f"{benchmark_key('desk')}.lock"]
    dropped = data / "inbox" / "desk" / "second.csv"
    dropped.parent.mkdir(parents=True)
    dropped.write_text("item_id,model,score\nq1,b,1\nq2,b,1\n")

    with daemon(data, BETWEEN_TWO_TABLES):
        until(waiting(data).exists, data, "the file is taken")
        assert statuses(data, "ingest_inbox") == [DagsterRunStatus.STARTED]
        assert all(map(is_locked, held))
        cancel(data, "ingest_inbox")
        until(lambda: statuses(data, "ingest_inbox")[-1] == DagsterRunStatus.CANCELED, data, "the run is cancelled")
        assert not any(map(is_locked, held))
    assert runs_that_never_ended(data) == [], "also the run within the run"
    assert workspace.unfinished_note("desk").exists()
    assert query_of(MODELS, data) == [{"model_id": "a"}] * 2, "what was written is not seen"
    done = call_capeval("run", "--only", "derive", data=data)
    assert "skipped desk" in done.stdout, "what the cancelled run had written is undone, so nothing is new"
    assert versions_of(data) == before

    with daemon(data, BETWEEN_TWO_TABLES) as running:
        until(waiting(data).exists, data, "the file is taken again")
        assert statuses(data, "ingest_inbox") == [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELED]
        end_family(running.pid)
        running.wait()
    with daemon(data):
        until(lambda: workspace.lake.read("raw.files", "desk").num_rows == 2, data, "the file is in")
        until(lambda: runs_that_never_ended(data) == [], data, "the killed run is ended")
    assert statuses(data, "ingest_inbox")[1:] == [DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
    assert sorted(workspace.lake.read("raw.generations", "desk").column("model_id").to_pylist()) == ["a", "a", "b", "b"]
