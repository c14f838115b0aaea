"""A Dask cluster of two worker processes: the same results as threads, also where workers are killed half way."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future

import numpy as np
import pytest

from capeval_pipeline import executors
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.executors import open_executor
from capeval_pipeline.methods.identification.records import ReplaySettings
from capeval_pipeline.methods.identification.study import PolicyRuns, StudyWorld, run_study
from tests.e2e.conftest import call_capeval
from tests.e2e.one_machine import data_versions, on_one_machine
from tests.patience import ended

distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("beyond_one_machine")]

POLICIES = ["uniform", "ucb_e", "successive_rejects_shared", "race"]


@pytest.fixture
def cluster(tmp_path) -> Iterator["distributed.LocalCluster"]:
    """Two processes with a nanny each, which starts a worker again that died."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    ) as found:
        yield found


def spec_of(cluster: "distributed.LocalCluster") -> str:
    return cluster.scheduler_address.replace("tcp://", "dask://")


def pids(cluster: "distributed.LocalCluster") -> dict[str, int]:
    with distributed.Client(cluster.scheduler_address) as client:
        return client.run(os.getpid)


class Watched(Executor):
    """An executor that calls back once when so many of its tasks are done."""

    def __init__(self, pool: Executor, n_done: int, then) -> None:
        self._pool, self._left, self._then = pool, n_done, then
        self._lock = threading.Lock()
        self.n_submitted = 0

    def submit(self, function, /, *args, **kwargs) -> Future:
        future = self._pool.submit(function, *args, **kwargs)
        self.n_submitted += 1
        future.add_done_callback(self._count)
        return future

    def _count(self, _: Future) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._then()


def world() -> StudyWorld:
    scores = (np.random.default_rng(2).random((10, 60)) < np.linspace(0.4, 0.7, 10)[:, None]).astype(float)
    return StudyWorld(scores, ReplaySettings(batch=5, pull_budgets=np.array([100, 200, 400])), n_arms=8)


def told(found: dict[str, PolicyRuns]) -> dict[str, list[bytes]]:
    """Everything a study found, as bytes."""
    return {
        name: [
            run.recommended.tobytes()
            + run.interval_sums.tobytes()
            + repr((run.pulls_to_certificate, run.n_missed_arms)).encode()
            for run in runs.runs
        ]
        for name, runs in found.items()
    }


def test_a_worker_killed_half_way_through_a_study_changes_nothing(cluster):
    """kill -9 after half of the chunks: what the worker was doing is done again elsewhere, from the same seeds."""
    with open_executor("threads", 2) as pool:
        expected = told(run_study(world(), POLICIES, 24, pool, n_chunks=6))
    before = pids(cluster)
    victim = sorted(before.values())[0]
    with open_executor(spec_of(cluster)) as pool:
        watched = Watched(pool, len(POLICIES) * 3, lambda: os.kill(victim, signal.SIGKILL))
        found = run_study(world(), POLICIES, 24, watched, n_chunks=6)
    assert watched.n_submitted == len(POLICIES) * 6
    assert told(found) == expected
    deadline = time.monotonic() + 60
    while len(pids(cluster)) < 2:
        assert time.monotonic() < deadline, "the nanny did not start another worker"
        time.sleep(0.2)
    assert victim not in pids(cluster).values()


def test_a_cluster_without_workers_is_given_up_with_a_sentence(cluster, monkeypatch):
    """All workers go for good half way: no new ones come, and the study ends instead of waiting for ever."""
    monkeypatch.setattr(executors, "DASK_PATIENCE_S", 2.0)

    def study() -> None:
        with open_executor(spec_of(cluster)) as pool:
            run_study(world(), POLICIES, 400, Watched(pool, 2, lambda: cluster.scale(0)), n_chunks=40)

    with pytest.raises(CapevalError, match=r"lost its workers or its scheduler.*`capeval run` goes on"):
        ended(study)


def test_the_pipeline_on_a_cluster_gives_the_same_data_versions(cluster, tmp_path, tmp_path_factory, monkeypatch):
    reference = on_one_machine(tmp_path_factory.getbasetemp())
    monkeypatch.setenv("CAPEVAL_EXECUTOR", spec_of(cluster))
    data = tmp_path / "workspace"
    call_capeval("ingest", str(reference.files), data=data)
    call_capeval("run", data=data)
    assert data_versions(data) == reference.data_versions
