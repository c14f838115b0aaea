"""A number of paths read into temporary Parquet, and what that changes in each benchmark's readings.

`read_batch` reads; `Change.applied_to` puts the outcome into the readings a lake holds. Between the two lies a folder
with a manifest, so that reading and committing may happen in different processes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capeval_pipeline.errors import UsageError
from capeval_pipeline.formats import READERS
from capeval_pipeline.ingestion.discovery import Place, check_paths, discover
from capeval_pipeline.ingestion.parts import PART_TABLES, reading_schema
from capeval_pipeline.ingestion.reading import LedgerRow, Request, Staged, read_unit
from capeval_pipeline.ingestion.report import NOT_READ, UnitReport, told_of_files
from capeval_pipeline.ingestion.resolution import Readings, by_file
from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.storage.connections import ComputeLimits, scratch_connection, text_literal
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.stored_rows import StoredRows, as_table, copied, stored

MANIFEST = "manifest.json"
MERGED_ROWS = 1_000_000
MAX_FILES = 64
"""Rows up to which a table of readings is one file, and files it may have beyond: a million are rewritten in a second,
and a file takes a millisecond to open."""


@dataclass
class Change:
    """What a batch changes in one benchmark: folders of new readings; files that leave, by id, with what replaces them.

    A file that leaves without a successor leaves no trace, nor do the earlier contents it had replaced; one that is
    replaced keeps its ledger row.
    """

    folders: list[Path] = field(default_factory=list)
    removals: dict[str, str | None] = field(default_factory=dict)

    def applied_to(self, readings: Readings, folder: Path) -> dict[str, StoredRows]:
        """Readings of the benchmark after the change; a file that was read again replaces its old readings.

        Nothing is held: rows stay in the files they are in unless some of them leave, or the files are many or small.
        What has to be written is written to `folder`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ledger = readings["files"].table()
        added = [pq.read_table(path / "files.parquet") for path in self.folders]
        new_ids = {file_id for table in added for file_id in table.column("file_id").to_pylist()}
        gone = (new_ids | set(self.removals)) & set(ledger.column("file_id").to_pylist())
        changed = {}
        for name in PART_TABLES:
            if name != "files":
                new = [str(path / f"{name}.parquet") for path in self.folders]
                changed[name] = _exchanged(name, readings[name], new, gone, folder)
        changed["files"] = stored(self._ledger(ledger, added, gone, new_ids), folder / "files.parquet")
        return changed

    def _ledger(self, ledger: pa.Table, added: list[pa.Table], gone: set[str], new_ids: set[str]) -> pa.Table:
        """Rows of the files that stay, that came, and, marked so, that were replaced."""
        schema = reading_schema("files")
        gone = gone | self._earlier_contents(ledger, new_ids)
        leaves = pc.is_in(ledger.column("file_id"), value_set=pa.array(sorted(gone), pa.string()))
        kept = ledger.filter(pc.invert(leaves))
        successors = {old: successor for old, successor in self.removals.items() if successor is not None}
        replaced = [
            {**row, "replaced_by_file_id": successors[row["file_id"]]}
            for row in ledger.to_pylist()
            if row["file_id"] in successors and row["file_id"] not in new_ids
        ]
        tables = [kept.cast(schema), *(table.select(schema.names).cast(schema) for table in added)]
        return pa.concat_tables([*tables, pa.Table.from_pylist(replaced, schema)])

    def _earlier_contents(self, ledger: pa.Table, new_ids: set[str]) -> set[str]:
        """What a forgotten file had replaced, and what that had: forgotten with it, else their rows would name a
        successor that is not there."""
        earlier: set[str] = set()
        latest = {old for old, successor in self.removals.items() if successor is None} - new_ids
        rows = list(zip(*(ledger.column(name).to_pylist() for name in ("file_id", "replaced_by_file_id")), strict=True))
        while latest:
            latest = {file_id for file_id, successor in rows if successor in latest} - earlier - new_ids
            earlier |= latest
        return earlier


def _exchanged(name: str, old: StoredRows, new: list[str], gone: set[str], folder: Path) -> StoredRows:
    """Rows of a table without those of the files in `gone`, and with those in the files `new`."""
    schema = reading_schema(name)
    came = [path for path in new if pq.read_metadata(path).num_rows]
    if not gone:
        rows = StoredRows(schema, (*old.paths, *came))
        is_scattered = len(rows.paths) > MAX_FILES or (len(rows.paths) > 1 and rows.num_rows <= MERGED_ROWS)
        if not is_scattered:
            return rows
    leaving = ", ".join(text_literal(file_id) for file_id in sorted(gone)) or "''"
    sql = f"select * from {StoredRows(schema, old.paths).relation()} where file_id not in ({leaving})"
    sql += f" union all by name select * from {StoredRows(schema, tuple(came)).relation()}"
    with scratch_connection(ComputeLimits("300MB", 2, folder.parent / "spill")) as connection:
        return copied(connection, sql, schema, folder / f"{name}.parquet")


@dataclass
class Batch:
    """Reports in the order of paths, and the changes by benchmark_id."""

    reports: list[UnitReport] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)

    @property
    def has_refusals(self) -> bool:
        return any(report.status in NOT_READ for report in self.reports)

    @property
    def n_rejected(self) -> int:
        return sum(report.n_rejected for report in self.reports)

    def save(self, folder: Path) -> None:
        """Write the manifest beside the readings."""
        content = {
            benchmark_id: {"folders": [str(path) for path in change.folders], "removals": change.removals}
            for benchmark_id, change in self.changes.items()
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")

    def complete(self, raw: Mapping[str, Mapping[str, pa.Table | StoredRows]]) -> None:
        """Final counts and remarks from raw.files and raw.rejections (benchmark_id → key → table) into the reports."""
        files = {benchmark_id: by_file(as_table(tables["raw.files"])) for benchmark_id, tables in raw.items()}
        told = {benchmark_id: told_of_files(tables["raw.rejections"]) for benchmark_id, tables in raw.items()}
        for report in self.reports:
            if report.status != "read" or report.file_id is None:
                continue
            named = [benchmark_id for benchmark_id in report.benchmark_ids if benchmark_id in files]
            report.take_from_tables(
                [row for name in named for row in files[name].get(report.file_id, [])],
                [told[name][report.file_id] for name in named if report.file_id in told[name]],
            )


def load_change(folder: Path, benchmark_id: str) -> Change:
    """The change of one benchmark from a manifest; no change if it is not in it. Raises UsageError without one."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder}: holds no {MANIFEST}; expected the folder that `capeval ingest` wrote")
    entry = json.loads(path.read_text(encoding="utf-8")).get(benchmark_id)
    if entry is None:
        return Change()
    return Change([Path(name) for name in entry["folders"]], dict(entry["removals"]))


def ledger_of(files: pa.Table, committed: pa.Table | None = None) -> list[LedgerRow]:
    """Files that count, from readings.files of any number of benchmarks.

    committed : raw.files, which is written last; a file that is not in it was cut short and has to be read again. It
        also says what other files made of a file: one that contradicts them is refused there, and tried again.
    """
    fates = None
    if committed is not None:
        names = ("benchmark_id", "file_id", "status")
        fates = {tuple(row[:2]): row[2] for row in zip(*(committed.column(n).to_pylist() for n in names), strict=True)}
    found = []
    for row in files.to_pylist():
        key = row["benchmark_id"], row["file_id"]
        if row["replaced_by_file_id"] is not None or (fates is not None and key not in fates):
            continue
        values = {column.name: row.get(column.name) for column in fields(LedgerRow)}
        status = row["status"] if fates is None else fates[key]
        found.append(LedgerRow(**values | {"lies_at": _lies_at(row), "status": status}))  # older releases: no lies_at
    return found


def _lies_at(row: Mapping[str, Any]) -> str:
    return row.get("lies_at") or row["path"]


def ledger_in(lake: Lake) -> list[LedgerRow]:
    """Files that are in a lake and count."""
    if not lake.has_table("readings.files") or not lake.has_table("raw.files"):
        return []
    return ledger_of(lake.read("readings.files"), lake.read("raw.files"))


def check_request(paths: Sequence[Path], request: Request) -> None:
    """Raise UsageError: no such path, no such format."""
    if request.format is not None and request.format not in READERS:
        raise UsageError(f"no format {request.format!r}; expected one of {', '.join(READERS)}")
    check_paths(paths)


def read_batch(
    paths: Sequence[Path],
    request: Request,
    place: Place,
    ledger: Iterable[LedgerRow],
    folder: Path,
    progress: Progress = nothing_said,
) -> Batch:
    """Read all units of the paths into `folder`, each in its own subfolder, in the order of their paths.

    progress: told what is read next, the bytes before it, the bytes of all. Raises UsageError: no such path, no such
    format.
    """
    check_request(paths, request)
    known = list(ledger)
    found = discover(paths, place, request.mapping)
    batch = Batch(reports=[UnitReport(path, status="companion") for path in found.companions])
    sizes = [_size(unit.path) for unit in found.units]
    staged: dict[int, Staged] = {}
    due = list(range(len(sizes)))
    # what a unit brought may leave with a unit read after it that holds the same no longer: then it is read after all
    for attempt in range(len(sizes) + 1):
        for number in due:
            unit = found.units[number]
            progress(f"reading {unit.path.name} ({number + 1}/{len(sizes)})", sum(sizes[:number]), sum(sizes))
            staged[number] = read_unit(unit, request, known, folder / f"unit{number}_{attempt}")
            _take(batch, staged[number], known)
        still_known = set(known)
        due = [number for number, done in staged.items() if not still_known.issuperset(done.relies_on)]
        if not due:
            break
    batch.reports += [done.report for done in staged.values()]
    batch.reports.sort(key=lambda report: report.path)
    return batch


def _size(path: Path) -> int:
    """Bytes of a file or of all files of a folder; 0 of what has gone meanwhile, which reading it will tell."""
    try:
        return sum(member.stat().st_size for member in path.rglob("*")) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def _take(batch: Batch, staged: Staged, known: list[LedgerRow]) -> None:
    """Add a unit's readings to the changes, and its rows to what the next units find known (a twin is unchanged)."""
    report = staged.report
    for benchmark_id, folder in staged.folders.items():
        batch.changes.setdefault(benchmark_id, Change()).folders.append(folder)
        known += ledger_of(pq.read_table(folder / "files.parquet"))
    for row in staged.replaces:
        successor = report.file_id if row.file_id != report.file_id else None
        batch.changes.setdefault(row.benchmark_id, Change()).removals[row.file_id] = successor
        if row in known:
            known.remove(row)


def forget(paths: Sequence[Path], place: Place, ledger: Iterable[LedgerRow]) -> Batch:
    """Take the files at or below the paths out of every benchmark. Raises UsageError for a path no file came from."""
    batch = Batch()
    rows = list(ledger)
    for path in paths:
        named = place.lies_at(path)
        mine = [row for row in rows if row.lies_at == named or _is_below(row.lies_at, named)]
        if not mine:
            raise UsageError(f"{path}: no file in the lake came from there; `capeval sql` lists raw.files")
        for row in mine:
            batch.changes.setdefault(row.benchmark_id, Change()).removals[row.file_id] = None
        for file_id in sorted({row.file_id for row in mine}):
            of_file = [row for row in mine if row.file_id == file_id]
            ids = sorted({row.benchmark_id for row in of_file})
            report = UnitReport(of_file[0].path, of_file[0].format, file_id, ids, status="forgotten")
            batch.reports.append(report)
    batch.reports.sort(key=lambda report: report.path)
    return batch


def _is_below(lies_at: str, folder: str) -> bool:
    """Whether a file lies in a folder; the data folder is called `.`, what is outside of it has an absolute path."""
    return not lies_at.startswith("/") if folder == "." else lies_at.startswith(f"{folder.rstrip('/')}/")


def json_list(reports: Iterable[UnitReport]) -> list[dict[str, Any]]:
    """What `capeval ingest --json` prints."""
    return [report.as_json() for report in reports]
