"""A disk of a few megabytes that really fills up: a tmpfs, for which one must be root, be it of a namespace."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

BALLAST = "ballast"
AS_ANYBODY = "`unshare --map-root-user --mount pytest PATH`"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount one on a folder, gone afterwards; the test is skipped, with the reason, where that cannot be done."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "capeval-test", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted ({done.stderr.strip()}); who is not root runs {AS_ANYBODY}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk to its last block."""
    ballast = folder / BALLAST
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while stream.write(bytes(size)) == size:
                    pass
    os.sync()
    return ballast
