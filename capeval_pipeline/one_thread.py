"""Linear algebra on one thread, so that the last bits of a sum do not depend on how many threads shared it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it BLAS and OpenMP use one thread: libraries that are loaded, and those that are loaded within.

    A library reads the environment when it is loaded, and a limit set before does not reach it. Steps load what they
    need when they run: without the variables a process's first step would use all cores and the next one.
    """
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
