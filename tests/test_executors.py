"""One factory for every way to run chunks."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from capeval_pipeline import executors
from capeval_pipeline.errors import UsageError
from capeval_pipeline.executors import open_executor
from capeval_pipeline.methods.identification.records import ReplaySettings
from capeval_pipeline.methods.identification.study import StudyWorld, run_study


def test_threads_run_what_they_are_given():
    with open_executor("threads", 2) as pool:
        assert [future.result() for future in [pool.submit(divmod, 7, k) for k in (2, 3)]] == [(3, 1), (2, 1)]


@pytest.mark.parametrize("spec", ["", "thread", "dask://", "spark://host:1"])
def test_unknown_executors_are_refused(spec):
    with pytest.raises(UsageError, match="unknown executor"), open_executor(spec, 1):
        pass


def test_no_workers_are_refused():
    with pytest.raises(UsageError, match="at least 1"), open_executor("threads", 0):
        pass


def test_dask_without_its_package_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)  # importing it fails, as where the extra is not installed
    with pytest.raises(UsageError, match="distributed"), open_executor("dask://localhost:8786", 1):
        pass


@pytest.fixture
def dask_spec(tmp_path) -> Iterator[str]:
    """A cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    )
    with cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@pytest.mark.slow
def test_a_dask_cluster_gives_what_no_executor_gives_in_chunks_of_any_size(dask_spec):
    rng = np.random.default_rng(2)
    scores = (rng.random((8, 40)) < 0.6).astype(float)
    world = StudyWorld(scores, ReplaySettings(batch=5, pull_budgets=np.array([80, 160, 320])), n_arms=6)
    policies = ["uniform", "ucb_e", "successive_rejects_shared", "race"]
    alone = run_study(world, policies, 7)
    for n_chunks in (2, 5):
        with open_executor(dask_spec, 2) as pool:
            spread = run_study(world, policies, 7, pool, n_chunks=n_chunks)
        for name in policies:
            for run, other in zip(alone[name].runs, spread[name].runs, strict=True):
                assert run.recommended.tolist() == other.recommended.tolist()
                assert (run.pulls_to_certificate, run.n_missed_arms) == (
                    other.pulls_to_certificate,
                    other.n_missed_arms,
                )
                np.testing.assert_array_equal(run.interval_sums, other.interval_sums)


def test_a_cluster_that_is_not_there_is_named_in_the_error(monkeypatch):
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    monkeypatch.setattr(executors, "DASK_TIMEOUT_S", 1)
    with (
        pytest.raises(UsageError, match=r"no Dask cluster answers at 127\.0\.0\.1:9"),
        open_executor("dask://127.0.0.1:9", 1),
    ):
        pass
