"""What was found out about the code itself, kept from one process to the next in `__pycache__`.

A file is named by what it holds and by a key of the code that found it out, so that other code never reads it. Whether
an entry still fits is the caller's to say: entries carry what they were found from. Where the folder cannot be written,
things are found anew each time.
"""

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).resolve().parent


def key_of(*parts: str | Path) -> str:
    """Key of texts and of files' contents, 8 hex digits."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        whole.update(b"\0")
    return whole.hexdigest()[:8]


def read(name: str, key: str, root: Path = PACKAGE_ROOT) -> dict[str, Any]:
    """What was kept, {} if nothing or if it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(_file(name, key, root).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def write(name: str, key: str, content: dict[str, Any], root: Path = PACKAGE_ROOT) -> None:
    """Keep it instead of what was kept under the name by this and by any other code."""
    target = _file(name, key, root)
    aside = target.with_name(f"{target.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        target.parent.mkdir(exist_ok=True)
        aside.write_text(json.dumps(content), encoding="utf-8")
        os.replace(aside, target)
        for other in target.parent.glob(f"{name}-{sys.implementation.cache_tag}-*.json"):
            if other != target:
                other.unlink()


def _file(name: str, key: str, root: Path) -> Path:
    return root / "__pycache__" / f"{name}-{sys.implementation.cache_tag}-{key}.json"
