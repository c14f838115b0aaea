"""The daemon is killed while it reads a file from the inbox and started again: the file is in, once, nothing hangs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.lake import Lake
from tests.e2e.conftest import call_capeval, environment_of
from tests.e2e.test_faults_killed import runs_that_never_ended

PROJECT = Path(__file__).parents[2]
PATIENCE = 240.0


@contextmanager
def daemon(data: Path) -> Iterator[subprocess.Popen]:
    """Dagster's daemon with the code it loads and the runs it starts, in a group of processes that can be killed."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(PROJECT / "workspace.yaml")]
    environment = {**environment_of(data), "DAGSTER_HOME": str(data / "dagster")}
    with (data / "daemon.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        end_family(process.pid)
        process.wait()


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


def n_runs(data: Path, job: str, **which) -> int:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
        return len(instance.get_run_records(dg.RunsFilter(job_name=job, **which)))


@pytest.mark.slow
def test_a_daemon_killed_amid_an_ingest_neither_loses_nor_doubles_the_file(tmp_path):
    from dagster import DagsterRunStatus

    data = tmp_path / "workspace"
    first = tmp_path / "first.csv"
    first.write_text("item_id,model,score\nq1,a,1\nq2,a,0\n")
    call_capeval("ingest", str(first), "--benchmark", "desk", data=data)
    dropped = data / "inbox" / "desk" / "second.csv"
    dropped.parent.mkdir(parents=True)
    dropped.write_text("item_id,model,score\nq1,b,1\nq2,b,1\n")
    begun = [DagsterRunStatus.STARTED, DagsterRunStatus.SUCCESS]
    with daemon(data) as running:
        until(lambda: n_runs(data, "ingest_inbox", statuses=begun) == 1, data, "the file is taken")
        end_family(running.pid)
        running.wait()
    lake = Lake(load_settings(data).lake_root)
    with daemon(data):
        until(lambda: lake.read("raw.files", "desk").num_rows == 2, data, "the file is in")
        until(lambda: runs_that_never_ended(data) == [], data, "the killed run is ended")
    assert sorted(lake.read("raw.generations", "desk").column("model_id").to_pylist()) == ["a", "a", "b", "b"]
