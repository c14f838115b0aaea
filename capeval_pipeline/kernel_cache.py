"""Where compiled kernels are kept: a folder named by the source they were compiled from.

The compiler's own cache looks only at the file a kernel stands in, so a kernel that calls one of another, edited file
would go on running its old code. A folder a state of the source cannot go stale.
"""

import hashlib
import os
from functools import cache
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def use_kernel_cache(folder: Path) -> None:
    """Have kernels compiled into (and taken from) `folder/<hash of the methods' source>`, unless VARIABLE is set."""
    os.environ.setdefault(VARIABLE, str(folder / source_hash()))


@cache
def source_hash() -> str:
    """Hash of every source file of methods/, by name."""
    root = Path(__file__).parent / "methods"
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]
