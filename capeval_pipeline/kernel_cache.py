"""Where compiled kernels are kept: a folder named by the source they were compiled from.

The compiler's own cache looks only at the file a kernel stands in, so a kernel that calls one of another, edited file
would go on running its old code. A folder a state of the source cannot go stale. It lies beside the code, as compiled
modules do, so that a new workspace compiles nothing; where that cannot be written, in the workspace. Folders of code
that nobody has run for a month go; a process holds the one it uses for as long as it lives.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from functools import cache
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
FOLDERS = "kernels"
UNUSED_SECONDS = 30 * 86_400.0
"""How long kernels of other code are kept after a process last began to use them."""

_held: dict[Path, int] = {}


def use_kernel_cache(workspace_folder: Path) -> None:
    """Have kernels compiled into (and taken from) a folder of this source, unless VARIABLE is set.

    workspace_folder : where the folder lies if the package's own cannot be written.
    """
    if VARIABLE not in os.environ:
        beside = Path(__file__).parent / "__pycache__" / FOLDERS
        os.environ[VARIABLE] = str((beside if _can_be_written(beside) else workspace_folder) / source_hash())
    folder = Path(os.environ[VARIABLE])
    if folder.parent.name == FOLDERS and folder not in _held:  # else it is a folder of somebody's own
        _hold(folder)
        _sweep(folder)


def _hold(folder: Path) -> None:
    """Say that the folder is in use: now, for the month to come, and by a lock for the life of the process."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _held[folder] = os.open(folder, os.O_RDONLY)
        fcntl.flock(_held[folder], fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.utime(folder)


def _sweep(used: Path) -> None:
    """Delete the folders beside one that nobody holds and nobody began to use for long."""
    with contextlib.suppress(OSError):
        for folder in used.parent.iterdir():
            if folder != used:
                _delete_if_forsaken(folder)


def _delete_if_forsaken(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(opened).st_mtime < time.time() - UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(opened)


def _can_be_written(folder: Path) -> bool:
    """Whether files can be made in the folder, which is made."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    return False


@cache
def source_hash() -> str:
    """Hash of every source file of methods/, by name."""
    root = Path(__file__).parent / "methods"
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]
