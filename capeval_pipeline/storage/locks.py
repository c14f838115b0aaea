"""Locks of a workspace: files under `<data>/locks/` that one process holds at a time, and the notes beside them."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from capeval_pipeline.storage.benchmark_key import benchmark_key

UNFINISHED_SUFFIX = ".unfinished.json"


@contextmanager
def file_lock(path: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Exclusive lock on a file, waited for; the system frees it when the process ends, however it ends.

    waits : called once if another holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def benchmark_lock(root: Path, benchmark_id: str) -> Iterator[None]:
    """Hold a benchmark of the workspace `root`: who changes its tables, or undoes a change, takes turns."""
    with file_lock(root / "locks" / f"{benchmark_key(benchmark_id)}.lock"):
        yield


def unfinished_note(root: Path, benchmark_id: str) -> Path:
    """Where it is noted that tables of a benchmark are being changed together."""
    return root / "locks" / f"{benchmark_key(benchmark_id)}{UNFINISHED_SUFFIX}"
