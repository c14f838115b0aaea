"""One way to run chunks of work: threads, processes or a Dask cluster, all as `concurrent.futures.Executor`.

Threads are the default: the kernels release the GIL and nothing needs to be copied. Work is submitted as top-level
functions on plain arrays, so that the choice never changes a result.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager

from capeval_pipeline.errors import UsageError

DASK_PREFIX = "dask://"
DASK_TIMEOUT_S = 10


@contextmanager
def open_executor(spec: str = "threads", n_workers: int = 2) -> Iterator[Executor]:
    """Open the executor that `spec` names: 'threads', 'processes' or 'dask://host:port'; closed on leaving.

    n_workers : threads or processes, at least 1; a Dask cluster has its own.
    Raises UsageError for an unknown spec, where the package `distributed` is needed and missing, or no cluster answers.
    """
    if n_workers < 1:
        raise UsageError(f"an executor needs at least 1 worker, not {n_workers}")
    if spec == "threads":
        with ThreadPoolExecutor(max_workers=n_workers) as pool:
            yield pool
    elif spec == "processes":
        # Spawned and not forked: the parent has threads (Dagster's, BLAS's), and a fork copies only their locks.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=n_workers, mp_context=context) as processes:
            yield processes
    elif spec.startswith(DASK_PREFIX) and len(spec) > len(DASK_PREFIX):
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError(f"executor {spec!r} needs the package 'distributed', which is not installed") from error
        address = spec[len(DASK_PREFIX) :]
        try:
            client = Client(f"tcp://{address}", timeout=DASK_TIMEOUT_S)
        except OSError as error:
            raise UsageError(f"no Dask cluster answers at {address} ({error})") from error
        with client:
            yield client.get_executor()
    else:
        raise UsageError(f"unknown executor {spec!r}; expected 'threads', 'processes' or 'dask://host:port'")
