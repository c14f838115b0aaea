"""One way to run chunks of work: threads, processes or a Dask cluster, all as `concurrent.futures.Executor`.

Threads are the default: the kernels release the GIL and nothing needs to be copied. Work is submitted as top-level
functions on plain arrays, so that the choice never changes a result.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from capeval_pipeline.errors import CapevalError, UsageError

DASK_PREFIX = "dask://"
DASK_TIMEOUT_S = 10
DASK_PATIENCE_S = 180.0
"""How long a cluster may be without a worker: new ones may be on their way, but a run must not wait for ever."""


@contextmanager
def open_executor(spec: str = "threads", n_workers: int = 2) -> Iterator[Executor]:
    """Open the executor that `spec` names: 'threads', 'processes' or 'dask://host:port'; closed on leaving.

    n_workers : threads or processes, at least 1; a Dask cluster has its own.
    Raises UsageError for an unknown spec, where the package `distributed` is needed and missing, or no cluster answers;
    CapevalError where a cluster loses its scheduler, or all its workers and gets no new ones.
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
        with _dask_executor(spec) as cluster:
            yield cluster
    else:
        raise UsageError(f"unknown executor {spec!r}; expected 'threads', 'processes' or 'dask://host:port'")


@contextmanager
def _dask_executor(spec: str) -> Iterator[Executor]:
    """The cluster's executor. What a worker that dies was doing is done by another; without any, all is given up."""
    try:
        from distributed import Client
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise UsageError(f"executor {spec!r} needs the package 'distributed', which is not installed") from error
    address = spec[len(DASK_PREFIX) :]
    try:
        client = Client(f"tcp://{address}", timeout=DASK_TIMEOUT_S)
    except OSError as error:
        raise UsageError(f"no Dask cluster answers at {address} ({error})") from error
    with client:
        executor = client.get_executor()
        is_done = threading.Event()
        watch = threading.Thread(target=_give_up_without_workers, args=(client, executor, is_done), daemon=True)
        watch.start()
        try:
            yield executor
        except (CancelledError, CommClosedError, KilledWorker) as error:
            raise CapevalError(
                f"the Dask cluster at {address} lost its workers or its scheduler and got no new ones; what other "
                "steps wrote is kept, `capeval run` goes on from there"
            ) from error
        finally:
            is_done.set()
            watch.join()


def _give_up_without_workers(client: Any, executor: Any, is_done: threading.Event) -> None:
    """Cancel everything once the cluster was without a worker for DASK_PATIENCE_S; ends when is_done is set."""
    without_since: float | None = None
    while not is_done.wait(min(1.0, DASK_PATIENCE_S / 4)):
        try:
            n_workers = len(client.scheduler_info(n_workers=1)["workers"])
        except (OSError, TimeoutError):  # the scheduler does not answer either
            n_workers = 0
        if n_workers:
            without_since = None
            continue
        without_since = without_since or time.monotonic()
        if time.monotonic() - without_since >= DASK_PATIENCE_S:
            executor.shutdown(wait=False)
            return
