"""When the database was published and of which versions of the lake's tables: what lets one look back.

A small JSON file a publication, beside the published databases; the rows themselves are the lake's.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.storage.held_back import HeldBack

SUFFIX = ".published.json"
NAMED_BY_TIME = "%Y%m%dT%H%M%S.%fZ"
"""UTC, so that names in order are publications in order."""

A_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Publication:
    """One publication: its time, table → Delta version it was built from, and the benchmarks that were held back.

    held_back : benchmark → the versions its rows are from, which are older; none of one that was left out.
    """

    published_at: datetime
    delta_versions: Mapping[str, int]
    held_back: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def made_now(folder: Path, delta_versions: Mapping[str, int], held: Mapping[str, HeldBack]) -> Publication:
    """What a publication of these versions, but for the benchmarks held back, will have to say of itself.

    It is later than all before it, whatever the clock says: one that was put back must not make it look older.
    """
    notes = sorted(folder.glob(f"*{SUFFIX}"))
    last = _read(notes[-1]) if notes else None
    now = datetime.now(UTC)
    older = {
        name: {} if entry.is_left_out or last is None else dict(last.held_back.get(name, last.delta_versions))
        for name, entry in held.items()
    }
    return Publication(max(now, last.published_at + A_MOMENT) if last else now, dict(delta_versions), older)


def note(folder: Path, made: Publication) -> Path:
    """Write a publication down; the path of the note."""
    name = made.published_at.strftime(NAMED_BY_TIME)
    unfinished = folder / f"{name}{SUFFIX}.building"
    content = {
        "published_at": made.published_at.isoformat(),
        "delta_versions": dict(sorted(made.delta_versions.items())),
        "held_back": {key: dict(versions) for key, versions in sorted(made.held_back.items())},
    }
    unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
    written = folder / f"{name}{SUFFIX}"
    os.replace(unfinished, written)
    return written


def publications(folder: Path) -> list[Publication]:
    """All that were noted, oldest first. Raises CapevalError where a note is damaged."""
    found = [_read(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return sorted(found, key=lambda publication: publication.published_at)


def _read(path: Path) -> Publication:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        when = datetime.fromisoformat(content["published_at"])
        return Publication(when, content["delta_versions"], content.get("held_back", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise CapevalError(f"{path}: damaged ({error}); delete it, and what was published then is forgotten") from error


def moment(text: str) -> datetime:
    """A time as people write it: an ISO date means the end of that day, a time without a zone is UTC.

    Raises UsageError on anything else.
    """
    try:
        if len(text) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), time.max, UTC)
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time; expected e.g. 2026-01-31 or 2026-01-31T18:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def as_of(folder: Path, when: datetime) -> Publication:
    """The last publication up to a time. Raises CapevalError where there was none."""
    known = publications(folder)
    before = [publication for publication in known if publication.published_at <= when]
    if before:
        return before[-1]
    if not known:
        raise CapevalError("nothing is published yet; `capeval run` builds the database")
    first = known[0].published_at.isoformat(sep=" ", timespec="seconds")
    raise CapevalError(f"nothing was published by {when.isoformat(sep=' ', timespec='seconds')}; the first was {first}")


def forget_before(folder: Path, when: datetime) -> None:
    """Drop the notes of publications before a time but for the last of them, which is what stood at that time.

    when : in UTC, as the notes are named.
    """
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    old = [path for path in paths if path.name < when.strftime(NAMED_BY_TIME)]
    for path in old[:-1]:
        path.unlink(missing_ok=True)
