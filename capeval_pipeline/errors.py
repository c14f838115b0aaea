"""Errors a person is meant to read: one sentence with what, where, got, expected and what to do.

Only errors that cross a layer live here. A method that is given arrays it cannot use raises ValueError.
"""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path


class CapevalError(Exception):
    """Something the user asked for could not be done; the message is one sentence.

    exit_code is what the `capeval` command ends with: 1 the asked-for thing failed, 2 wrong use.
    """

    exit_code = 1


class UsageError(CapevalError):
    """The command was called wrongly: unknown option value, no such path, ambiguous benchmark name."""

    exit_code = 2


class ConvergenceError(CapevalError):
    """An iterative fit did not reach its stopping rule; its numbers must not be used."""


class TableContractError(CapevalError):
    """A frame does not fit the contract of its table (columns, types, grain, keys)."""


class LakeError(CapevalError):
    """A part of the lake cannot be read or written; the message names the file and the repairing command."""


class SqlModelError(CapevalError):
    """A SQL model does not say what it must, or refers to something that is not there."""


class StageSkipped(CapevalError):
    """The stage does not apply to this benchmark; the message is the reason, a clause without a full stop."""


class BrokenClaims(CapevalError):
    """What was built contradicts itself, so the published file stays as it was.

    found : of each mart, whether its claims hold and the sentence that says so
    """

    def __init__(self, found: Mapping[str, tuple[bool, str]]) -> None:
        self.found = found
        first = next(f"{key}: {sentence}" for key, (held, sentence) in found.items() if not held)
        super().__init__(f"not published, the database stays as it was: {first}")


DISK_IS_FULL = "the disk is full; free some space and do it again"
FULL_DISK = ("No space left on device", "database or disk is full", "os error 28", DISK_IS_FULL)
"""What is said of a full disk: by the system, by SQLite, by delta-rs, by us."""

LEAST_FREE_BYTES = 1 << 20


def one_sentence(error: BaseException) -> str:
    """An error of a library as one line; a full disk, whichever library met it, as the plain fact and what to do."""
    text = str(error).strip()
    if is_disk_full(error):
        return DISK_IS_FULL
    return text.splitlines()[0] if text else type(error).__name__


def is_disk_full(error: BaseException, folder: Path | None = None) -> bool:
    """Whether an error, or one it came from, says that no space is left.

    folder : where it came to be, if that is known: SQLite's "disk I/O error" means a full disk where nothing is free.
    """
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "errno", None) == errno.ENOSPC or any(phrase in str(seen) for phrase in FULL_DISK):
            return True
        if "disk I/O error" in str(seen) and folder is not None and folder.exists():
            return shutil.disk_usage(folder).free < LEAST_FREE_BYTES
        seen = seen.__cause__ or seen.__context__
    return False
