"""Whether somebody holds a lock, this process or another."""

import fcntl
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether the lock that `file_lock` takes on a path is held; of one that was never taken it is not."""
    if not path.exists():
        return False
    with path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
