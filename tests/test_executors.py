"""One factory for every way to run chunks."""

import importlib.util

import pytest

from capeval_pipeline.errors import UsageError
from capeval_pipeline.executors import open_executor


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


@pytest.mark.skipif(importlib.util.find_spec("distributed") is not None, reason="distributed is installed")
def test_dask_without_its_package_says_what_is_missing():
    with pytest.raises(UsageError, match="distributed"), open_executor("dask://localhost:8786", 1):
        pass
