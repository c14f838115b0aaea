"""Which files of the drop folder are whole: nothing may be read while somebody still writes it.

A file counts once its size and modification time were the same in two looks and it is at least MINIMUM_AGE old; a
folder once all in it do. Looking twice is the caller's business, what was seen is handed over and back.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capeval_pipeline.formats import canonical, helm
from capeval_pipeline.ingestion.discovery import is_skipped

MINIMUM_AGE = 2.0
"""Seconds since the last change."""

Signature = tuple[int, int]
"""Size in bytes, modification time in nanoseconds."""


@dataclass(frozen=True)
class Settled:
    """Paths of one benchmark's folder that can be read now, folders where all in them can, and a key of the content."""

    benchmark: str
    paths: tuple[Path, ...]
    key: str


def look(inbox: Path) -> dict[str, Signature]:
    """Every file under `inbox/<benchmark>/` by its path relative to the inbox; leftovers by name are not seen."""
    seen: dict[str, Signature] = {}
    if inbox.is_dir():
        for folder in sorted(path for path in inbox.iterdir() if path.is_dir() and not is_skipped(path.name)):
            for path, signature in _files(folder):
                seen[path.relative_to(inbox).as_posix()] = signature
    return seen


def settled(
    inbox: Path,
    before: Mapping[str, Signature],
    now: Mapping[str, Signature],
    taken: Mapping[str, Signature],
    at: float,
) -> list[Settled]:
    """What can be read: whole files that were not taken as they are now. `at` is the present time in seconds.

    taken: files that were handed out before, with the signature they had; one that changed since counts again.
    """
    ready = {
        name
        for name, signature in now.items()
        # a time in the future is that of a clock that was put back since: two looks have to do
        if before.get(name) == signature and not 0 <= at - signature[1] / 1e9 < MINIMUM_AGE
    }
    of_benchmark: dict[str, list[str]] = {}  # each looked at once: three hundred folders are a thousand files
    for name in sorted(now):
        of_benchmark.setdefault(name.split("/", 1)[0], []).append(name)
    found = []
    for benchmark, own in sorted(of_benchmark.items()):
        paths = tuple(_whole(inbox / benchmark, inbox, own, ready))
        names = [name for name in own if name in ready and _is_in_any(name, paths, inbox)]
        if any(taken.get(name) != now[name] for name in names):
            found.append(Settled(benchmark, paths, _content_key(inbox, names)))
    return found


def taken_by(settled_: Settled, inbox: Path, now: Mapping[str, Signature]) -> dict[str, Signature]:
    """Files that a Settled hands out, with their signatures."""
    return {
        name: signature
        for name, signature in now.items()
        if name.startswith(f"{settled_.benchmark}/") and _is_in_any(name, settled_.paths, inbox)
    }


def _files(folder: Path) -> Iterator[tuple[Path, Signature]]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if is_skipped(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file():
            status = entry.stat()
            yield Path(entry.path), (status.st_size, status.st_mtime_ns)


def _whole(folder: Path, inbox: Path, names: Sequence[str], ready: set[str]) -> Iterator[Path]:
    """The largest folders all of whose files are ready, and single ready files of folders that are no unit.

    names : files of the benchmark that the folder is or belongs to
    """
    inside = [name for name in names if _is_in_any(name, [folder], inbox)]
    if inside and all(name in ready for name in inside):
        yield folder
        return
    is_unit = canonical.matches(folder) > 0 or helm.matches(folder) > 0
    for path in sorted(folder.iterdir()):
        if is_skipped(path.name):
            continue
        if path.is_dir():
            yield from _whole(path, inbox, names, ready)
        elif not is_unit and path.relative_to(inbox).as_posix() in ready:
            yield path


def _is_in_any(name: str, paths: Sequence[Path], inbox: Path) -> bool:
    """Whether a file, named from the inbox, is one of the paths or lies in one."""
    return any(
        name == start or name.startswith(f"{start}/") for start in (p.relative_to(inbox).as_posix() for p in paths)
    )


def _content_key(inbox: Path, names: list[str]) -> str:
    whole = hashlib.sha256()
    for name in names:
        whole.update(name.encode())
        with (inbox / name).open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:32]
