"""Where compiled kernels are kept: a folder named by the source they were compiled from.

The compiler's own cache looks only at the file a kernel stands in, so a kernel that calls one of another, edited file
would go on running its old code. A folder a state of the source cannot go stale. It lies beside the code, as compiled
modules do, so that a new workspace compiles nothing; where that cannot be written, in the workspace.
"""

import contextlib
import hashlib
import os
from functools import cache
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def use_kernel_cache(workspace_folder: Path) -> None:
    """Have kernels compiled into (and taken from) a folder of this source, unless VARIABLE is set.

    workspace_folder : where the folder lies if the package's own cannot be written.
    """
    if VARIABLE not in os.environ:
        beside = Path(__file__).parent / "__pycache__" / "kernels"
        os.environ[VARIABLE] = str((beside if _can_be_written(beside) else workspace_folder) / source_hash())


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
