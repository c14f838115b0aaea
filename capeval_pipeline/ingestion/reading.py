"""One unit read into readings: what it says, numbered, with its repetitions settled and its records counted.

Rows go to temporary Parquet as they come, one folder a benchmark, so that a big file needs no big memory and a file
that breaks half way leaves nothing. Other files are not looked at here.
"""

import errno
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.formats import READERS, cells, mapping
from capeval_pipeline.formats.mapping_file import load_mapping
from capeval_pipeline.formats.opening import fingerprint, packed_sha256
from capeval_pipeline.formats.protocol import FileFacts, Limits, ReadOptions
from capeval_pipeline.formats.refusals import FileRefused, one_line, refusal, shown, texts_hidden
from capeval_pipeline.ingestion.detection import detect
from capeval_pipeline.ingestion.discovery import Unit
from capeval_pipeline.ingestion.parts import Part
from capeval_pipeline.ingestion.report import Remark, UnitReport, check_counts
from capeval_pipeline.ingestion.shares import (
    BENCHMARK_CHARACTERS,
    USABLE_NAME,
    benchmark_id_of,
    is_usable_name,
    shares,
)

READING_VERSION = "2"
"""Raised when readers give other rows for the same bytes: files are then read again."""


@dataclass(frozen=True)
class Request:
    """What was asked for; None is not asked for. benchmark is a name or name@version."""

    benchmark: str | None = None
    format: str | None = None
    metric: str | None = None
    model: str | None = None
    keep_text: bool = True
    mapping: Path | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def name_and_version(self) -> tuple[str | None, str | None]:
        if self.benchmark is None:
            return None, None
        name, mark, version = self.benchmark.rpartition("@")
        return (name, version) if mark and name and version else (self.benchmark, None)


@dataclass(frozen=True)
class LedgerRow:
    """A file as the lake knows it: one row a benchmark and file (readings.files).

    path : as the file was given. lies_at : where it lies, which a relative path does not say.
    """

    benchmark_id: str
    file_id: str
    path: str
    lies_at: str
    reading_key: str
    status: str
    n_read: int
    format: str | None = None


@dataclass(frozen=True)
class Staged:
    """What one unit left behind: a folder of Parquet a benchmark. `replaces` are ledger rows that go, `relies_on`
    those by which an unchanged unit is in."""

    report: UnitReport
    folders: Mapping[str, Path] = field(default_factory=dict)
    replaces: tuple[LedgerRow, ...] = ()
    relies_on: tuple[LedgerRow, ...] = ()


def read_unit(unit: Unit, request: Request, ledger: list[LedgerRow], folder: Path) -> Staged:
    """Read a unit into `folder`; a unit that is refused leaves its ledger row and nothing else."""
    with texts_hidden(not request.keep_text):
        return _read_unit(unit, request, ledger, folder)


def _read_unit(unit: Unit, request: Request, ledger: list[LedgerRow], folder: Path) -> Staged:
    report = UnitReport(unit.shown_path)
    before = _state(unit)
    try:
        if unit.refused is not None:
            raise unit.refused
        report.content_id = report.file_id = unit_id(unit, request.limits)
        key = reading_key(unit, request, report.content_id)
        same = [row for row in ledger if row.reading_key == key and row.status == "read"]
        if same:
            held = {row.file_id for row in same}
            # what the path said before leaves also where another path has brought what it says now
            left = tuple(row for row in ledger if row.lies_at == unit.lies_at and row.file_id not in held)
            return Staged(_unchanged(report, same), replaces=left, relies_on=tuple(same))
        report.file_id = own_id(unit, report.content_id, ledger)
        by_mapping = "mapping" if named_mapping(unit, request) is not None else None
        report.format = detect(
            unit.path,
            request.format or by_mapping,
            None if unit.is_folder else request.mapping or unit.declared.mapping,
        )
        parts = _read(unit, request, report, folder)
        if _state(unit) != before:
            raise _changed(unit)
    except AssertionError:  # counts that do not add up are a fault of ours, not of the file
        raise
    except Exception as error:  # a file must not end the batch, whatever is in it
        if _is_full(error):
            told = f"no space left for temporary readings in {folder.parent}; nothing of these files is in. Make room"
            raise CapevalError(told) from error
        fault = error if isinstance(error, FileRefused) else _not_followed(unit, report.format, error)
        if unit.refused is None and (not before or _state(unit) != before):  # half of it is no fault of its content
            fault = _changed(unit)
        shutil.rmtree(folder, ignore_errors=True)
        staged = _refused(unit, request, report, fault, ledger, folder)
        if fault.reason == "changed_while_reading" and _has_grown(before, _state(unit)):
            report.status = "waiting"  # somebody still writes it: the ledger has it as refused until it is at rest
        return staged
    replaced = tuple(
        row for row in ledger
        if row.lies_at == unit.lies_at and (row.file_id != report.file_id or row.benchmark_id not in parts)
    )  # fmt: skip
    return Staged(report, {name: part.folder for name, part in parts.items()}, replaced)


def _state(unit: Unit) -> tuple[tuple[int, int, int], ...]:
    """What changes when a unit's files do, also for another file of the same size and date; nothing if one is gone."""
    try:
        found = [path.stat() for path in unit.members]
    except OSError:
        return ()
    return tuple((status.st_ino, status.st_size, status.st_mtime_ns) for status in found)


def _has_grown(before: tuple[tuple[int, int, int], ...], now: tuple[tuple[int, int, int], ...]) -> bool:
    """Whether the same files are there, none of them smaller and one of them larger."""
    pairs = list(zip(before, now, strict=False))
    is_same = len(before) == len(now) and all(old[0] == new[0] and old[1] <= new[1] for old, new in pairs)
    return is_same and any(old[1] < new[1] for old, new in pairs)


def _changed(unit: Unit) -> FileRefused:
    found = "changed while it was read" if _state(unit) else "went away while it was read"
    return refusal(unit.path, "changed_while_reading", found, "a file at rest", "Try again.")


def _is_full(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, is a disk without space, which is no fault of the file being read."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
            return True
        error = error.__cause__
    return False


def unit_id(unit: Unit, limits: Limits) -> str:
    """SHA-256 of a file's inflated bytes; of a folder, of its members' names and hashes. Raises FileRefused."""
    if not unit.is_folder:
        return fingerprint(unit.path, limits).sha256
    digest = hashlib.sha256()
    for path in sorted(unit.members):
        digest.update(f"{path.relative_to(unit.path).as_posix()}\0{fingerprint(path, limits).sha256}\n".encode())
    return digest.hexdigest()


def own_id(unit: Unit, content_id: str, ledger: list[LedgerRow]) -> str:
    """The content's hash; with the path's where another path has brought this content.

    The same bytes may mean two things: the answers of two models that are told apart by --model or by the file beside
    them, or two empty files. A ledger with one row for both would keep one of them only.
    """
    if any(row.file_id == content_id and row.lies_at != unit.lies_at for row in ledger):
        return placed_id(unit, content_id)
    return content_id


def placed_id(unit: Unit, content_id: str) -> str:
    """Hash of the content and of where it lies."""
    return hashlib.sha256(f"{content_id}\0{unit.lies_at}".encode()).hexdigest()


def _not_followed(unit: Unit, format_name: str | None, error: BaseException) -> FileRefused:
    reader = f"the {format_name} reader" if format_name else "no reader"
    can = "cannot" if format_name else "can"
    found = f"{reader} {can} follow it ({type(error).__name__}: {shown(str(error))})"
    expected = f"the layout of {format_name}" if format_name else "a known format"
    return refusal(unit.path, "unknown_format", found, expected, "Check the file, or give --format.")


def reading_key(unit: Unit, request: Request, file_id: str) -> str:
    """Hash of everything a reading depends on: content, companions, what was asked for, the benchmark it goes to."""
    beside = {*unit.companions, *mapping.companions(unit.path, named_mapping(unit, request))}
    companions = sorted((path.name, found) for path in beside if (found := _hash_of(path)) is not None)
    asked = [request.benchmark, request.format, request.metric, request.model, request.keep_text]
    goes_to = [unit.inbox_name, None if unit.inbox_name else unit.fallback_name]
    text = json.dumps([READING_VERSION, file_id, companions, asked, goes_to, *_names_in_path(unit, request)])
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_of(companion: Path) -> str | None:
    """Hash of a file beside the unit; None if it is not there, or the system does not let us open it."""
    try:
        return packed_sha256(companion) if companion.is_file() else None
    except OSError:
        return None


def _names_in_path(unit: Unit, request: Request) -> list[str | None]:
    """Names of file and folders where they may name the model: the same bytes elsewhere are then another model's."""
    if unit.refused is not None:  # a pipe must not be opened
        return []
    said = list(takewhile(lambda name: "=" in name, (folder.name for folder in unit.path.absolute().parents)))
    readers = [reader for reader in READERS.values() if getattr(reader, "NAMES_MODEL_BY_PATH", False)]
    try:
        is_named = any(reader.matches(unit.path) > 0 for reader in readers)
    except Exception:  # whatever it trips over is told when the file is read
        return []
    return [*said, unit.path.name, _model_folder(unit, request)] if is_named else [*said]


def _model_folder(unit: Unit, request: Request) -> str | None:
    """Name of the folder a file lies in; None if it is the one that names the benchmark."""
    folder = unit.path.absolute().parent.name
    return None if folder == own_benchmark(unit, request, None)[0] else folder


def named_mapping(unit: Unit, request: Request) -> Path | None:
    """The mapping file that --mapping or benchmark.yml names, if it governs this file (or is too broken to say)."""
    file = request.mapping or unit.declared.mapping
    if file is None or unit.is_folder:
        return None
    try:
        return file if load_mapping(file).governs(unit.path) else None
    except FileRefused:
        return file


def _unchanged(report: UnitReport, rows: list[LedgerRow]) -> UnitReport:
    n_read = sum(row.n_read for row in rows)
    own = next((row for row in rows if row.path == report.path), rows[0])  # another path may have brought the content
    return replace(
        report,
        status="unchanged",
        file_id=own.file_id,
        format=rows[0].format,
        benchmark_ids=sorted({row.benchmark_id for row in rows}),
        n_read=n_read,
        n_duplicate=n_read,
    )


def _refused(
    unit: Unit, request: Request, report: UnitReport, fault: FileRefused, ledger: list[LedgerRow], folder: Path
) -> Staged:
    if report.content_id is None:
        report.content_id = _bytes_id(unit)
    report.file_id = placed_id(unit, report.content_id)  # two empty files are two refusals, whichever came first
    report.status = "refused"
    report.n_read = report.n_rejected = fault.n_read
    report.n_kept = report.n_duplicate = 0
    faults = (fault, *fault.also)
    report.rejections = [Remark(each.location, each.reason, str(each)) for each in faults]
    report.reasons = dict(Counter(each.reason for each in faults))
    report.warnings = []
    benchmark_id = benchmark_id_of(*own_benchmark(unit, request, None))
    if not is_usable_name(benchmark_id):  # what is refused for its benchmark's name cannot be listed under it
        benchmark_id = one_line(benchmark_id.replace("...", "…"), BENCHMARK_CHARACTERS).strip() or "unnamed"
    report.benchmark_ids = [benchmark_id]
    is_known = any(
        row.benchmark_id == benchmark_id and row.file_id == report.file_id and row.lies_at == unit.lies_at
        for row in ledger
    )
    if is_known:
        return Staged(report)
    earlier = tuple(
        row for row in ledger
        if row.lies_at == unit.lies_at and row.status == "refused" and row.file_id != report.file_id
    )  # fmt: skip
    part = Part(benchmark_id, folder / "refused", report.file_id, unit, {}, {})
    part.note([(None, "rejected", each.location, each.reason, str(each)) for each in faults])
    part.finish(_ledger_columns(unit, request, report, FileFacts(report.format or ""), part, report.format))
    return Staged(report, {benchmark_id: part.folder}, earlier)


def _bytes_id(unit: Unit) -> str:
    """Id of a unit that cannot be read: hash of its bytes as they lie there, or of its name if even that fails."""
    digest = hashlib.sha256()
    for path in unit.members:
        try:
            digest.update(packed_sha256(path).encode() if path.is_file() else path.name.encode())
        except OSError:
            digest.update(path.name.encode())
    return digest.hexdigest()


def own_benchmark(unit: Unit, request: Request, facts: FileFacts | None) -> tuple[str, str | None]:
    """Name and version of the benchmark of a unit: asked for, declared, inbox folder, said by the file, folder name."""
    asked_name, asked_version = request.name_and_version
    said_name = None if facts is None else facts.benchmark
    said_version = None if facts is None else facts.version
    name = asked_name or unit.declared.name or unit.inbox_name or said_name or unit.fallback_name
    name = name.strip()
    return name, asked_version or unit.declared.version or said_version


def _read(unit: Unit, request: Request, report: UnitReport, folder: Path) -> dict[str, Part]:
    """Read all chunks of a unit into parts, settle repetitions, count. Raises FileRefused."""
    assert report.format is not None and report.file_id is not None
    options = ReadOptions(
        metric=request.metric or unit.declared.metric,
        model=request.model or unit.declared.model,
        score_range=unit.declared.score_range,
        keep_text=request.keep_text,
        folder=_model_folder(unit, request),
        mapping=named_mapping(unit, request),
        instances=unit.declared.instances,
        limits=request.limits,
    )
    parts: dict[str, Part] = {}
    try:
        reading = READERS[report.format].read(unit.path, options)
        facts = reading.facts
        name, version = own_benchmark(unit, request, facts)
        _check_name(unit, benchmark_id_of(name, version))
        is_fixed = request.benchmark is not None or unit.declared.name is not None
        n_read = 0
        for chunk in reading.chunks:
            n_read += chunk.n_read
            for benchmark_id, share in shares(unit.path.name, chunk, name, version, is_fixed=is_fixed):
                if benchmark_id not in parts:
                    where = folder / f"part{len(parts)}"
                    canonical_names = unit.declared.canonical_names
                    parts[benchmark_id] = Part(
                        benchmark_id, where, report.file_id, unit, facts.model_settings, canonical_names
                    )
                parts[benchmark_id].add(share)
        for part in parts.values():
            part.end()
    except (FileRefused, AssertionError):
        raise
    except Exception as error:
        raise _not_followed(unit, report.format, error) from error
    finally:
        for part in parts.values():
            part.stop()
    own = benchmark_id_of(name, version)
    if not parts:
        parts[own] = Part(own, folder / "part0", report.file_id, unit, facts.model_settings, {})
    _finish(unit, request, report, facts, parts, parts.get(own) or next(iter(parts.values())), n_read)
    return parts


def _check_name(unit: Unit, benchmark_id: str) -> None:
    if not is_usable_name(benchmark_id):
        found = f"its benchmark would be called {shown(benchmark_id)}"
        raise refusal(unit.path, "config_invalid", found, USABLE_NAME, "Give --benchmark, or name in benchmark.yml.")


def _finish(
    unit: Unit, request: Request, report: UnitReport, facts: FileFacts, parts: dict[str, Part], own: Part, n_read: int
) -> None:
    """Settle every part, check that no record is lost or counted twice, and write the ledger rows."""
    seen = np.zeros(n_read, bool)
    for part in parts.values():
        part.settle()
        records = np.flatnonzero(part.records.flags)
        if seen[records].any():
            raise AssertionError(f"{unit.shown_path}: record {records[seen[records]][0]} is in two benchmarks")
        seen[records] = True
    report.benchmark_ids = sorted(parts)
    for part in parts.values():
        report.n_kept += part.n_kept
        report.n_rejected += part.n_rejected
        report.n_duplicate += part.n_duplicate
    report.n_read = n_read
    counts = {name: getattr(report, name) for name in ("n_kept", "n_rejected", "n_duplicate")}
    check_counts(unit.shown_path, n_read=n_read, **counts)
    if n_read == 0:
        raise refusal(unit.path, "empty_file", "has no records", "results", "Copy or export it again.")
    for part in parts.values():
        part.finish(_ledger_columns(unit, request, report, facts, part, report.format))


def _ledger_columns(
    unit: Unit, request: Request, report: UnitReport, facts: FileFacts, part: Part, format_name: str | None
) -> dict[str, Any]:
    """The row of readings.files of one part."""
    assert report.file_id is not None
    is_refused = report.status == "refused"
    assert report.content_id is not None
    return {
        "benchmark_id": part.benchmark_id,
        "file_id": report.file_id,
        "path": unit.shown_path,
        "lies_at": unit.lies_at,
        "format": format_name,
        "status": report.status,
        "reading_key": reading_key(unit, request, report.content_id),
        "n_read": report.n_read if is_refused else part.n_kept + part.n_rejected + part.n_duplicate,
        "n_kept": part.n_kept,
        "n_rejected": report.n_rejected if is_refused else part.n_rejected,
        "n_duplicate": part.n_duplicate,
        "ingested_at": datetime.now(UTC),
        "created": facts.created,
        "modified_at": _modified_at(unit),
        "tool_version": facts.tool_version,
        "claimed_items": facts.claimed_items,
        "benchmark_facts": json.dumps(_benchmark_facts(unit, request, facts, part), sort_keys=True),
        "replaced_by_file_id": None,
    }


def _modified_at(unit: Unit) -> datetime | None:
    """Latest change of a unit's files; unknown where a file system says something that is no date."""
    try:
        return cells.as_time(max(path.stat().st_mtime for path in unit.members if path.exists()))
    except (OSError, ValueError):
        return None


def _benchmark_facts(unit: Unit, request: Request, facts: FileFacts, part: Part) -> dict[str, Any]:
    """What this file brings to raw.benchmarks and to costs; `declared` by a person, `said` by the file."""
    declared = unit.declared
    name, mark, version = part.benchmark_id.rpartition("@")
    if not mark:
        name, version = part.benchmark_id, ""
    return {
        "name": name,
        "version": version or None,
        "declared": {
            "score_range": None if declared.score_range is None else [_bound(side) for side in declared.score_range],
            "higher_is_better": declared.higher_is_better,
            "error_policy": declared.error_policy,
            "on_conflict": declared.on_conflict,
            "has_true_generations": declared.has_true_generations,
            "zero_cost": declared.zero_cost,
            "metric": request.metric or declared.metric,
        },
        "said": {
            "score_range": None if facts.score_range is None else [_bound(side) for side in facts.score_range],
            "higher_is_better": facts.higher_is_better,
            "metric": facts.main_metric,
        },
        "stage_blocks": dict(declared.stage_blocks),
        "prices": dict(declared.prices),
    }


def _bound(side: float) -> float | None:
    return side if np.isfinite(side) else None
