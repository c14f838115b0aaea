"""Files become raw tables: what each file said is kept beside what all files of a benchmark say together."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval_pipeline.ingestion.doubts import CHECKS
from capeval_pipeline.orchestration.stages import CheckOutcome, Part, StageResult, stage_asset

if TYPE_CHECKING:
    import pyarrow as pa

    from capeval_pipeline.ingestion.batch import Change
    from capeval_pipeline.storage.stored_rows import StoredRows

READING_KEYS = (
    "readings.items", "readings.models", "readings.generations", "readings.judgments", "readings.metric_values",
    "readings.rejections",
)  # fmt: skip
RAW_KEYS = (
    "raw.benchmarks", "raw.items", "raw.models", "raw.generations", "raw.judgments", "raw.metric_values",
    "raw.rejections",
)  # fmt: skip
LEDGERS = ("readings.files", "raw.files")
"""Written last: a run that stops before them leaves files that the next ingest reads again."""


@stage_asset(
    stage="ingest",
    tables=[*READING_KEYS, *RAW_KEYS, *LEDGERS],
    inputs=[],
    always_runs=True,
    run_fields={"staged": "Folder with readings that `capeval ingest` staged; empty reads the benchmark's inbox."},
    check_names=CHECKS,
    warning_checks=[name for names in CHECKS.values() for name in names],
)
def ingest(part: Part, settings: Any) -> StageResult:
    """Result files of one benchmark: which were read, what they said, and the one table they make together.

    Files disagree, repeat each other and come again; the rules between them are applied to all readings at once, so
    the tables do not depend on the order in which files came. read = kept + rejected + duplicate for every file.
    """
    from capeval_pipeline.ingestion.batch import Change, load_change
    from capeval_pipeline.storage.conformity import empty
    from capeval_pipeline.storage.older_parts import check_files
    from capeval_pipeline.storage.stored_rows import StoredRows
    from capeval_pipeline.storage.tables import TABLES

    scratch = _scratch_folder(part)
    try:
        lake = part.workspace.lake
        stored = {
            key.partition(".")[2]: lake.stored(key, empty(TABLES[key]).schema, part.benchmark_id)
            for key in (*READING_KEYS, "readings.files")
        }
        ledger = stored["files"].table()
        staged = part.run_config.get("staged")
        if staged:
            change = load_change(Path(staged), part.benchmark_id)
        elif part.run_config.get("rebuild"):
            change = Change()  # the tables again, from what was read
        else:
            change = _inbox_change(part, ledger, scratch / "staged")
        for key in READING_KEYS:
            name = key.partition(".")[2]
            if set(ledger.column("file_id").to_pylist()) <= set(change.removals):
                stored[name] = StoredRows(stored[name].schema)  # nothing stays, so a lost file does no harm
            else:
                check_files(TABLES[key], stored[name].paths, lake.uri(key))
        return _outcome(part, change.applied_to(stored, scratch / "readings"), scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _scratch_folder(part: Part) -> Path:
    """A folder of one's own beside the lake, so that its files can become the lake's without a copy.

    Steps hold their benchmark's lock, so folders that others left for it are those of processes that were killed.
    """
    from capeval_pipeline.storage.lake import benchmark_key

    folder = part.workspace.settings.temporary
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"resolved-{benchmark_key(part.benchmark_id)}."
    for left in folder.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder))


def _outcome(part: Part, readings: Mapping[str, StoredRows], scratch: Path) -> StageResult:
    """Readings and the raw tables they make, as rows in files: two million answers would be 500 MB as columns."""
    from capeval_pipeline.ingestion.doubts import findings
    from capeval_pipeline.ingestion.resolution import check_ledger, resolve
    from capeval_pipeline.storage.stored_rows import StoredRows

    raw = resolve(readings, scratch / "raw", part.workspace.limits(n_threads=2))
    files = raw["raw.files"]
    assert not isinstance(files, StoredRows)  # the ledger is small
    check_ledger(files)
    numbers = {
        name: sum(int(value or 0) for value in files.column(name).to_pylist())
        for name in ("n_read", "n_kept", "n_rejected", "n_duplicate")
    }
    found = findings(raw, minimum_coverage=part.workspace.settings.minimum_coverage)
    checks = [CheckOutcome(entry.table, entry.check, entry.is_well, entry.sentence) for entry in found]
    return StageResult(
        tables={f"readings.{name}": rows for name, rows in readings.items()} | raw,
        numbers={"n_files": files.num_rows, **numbers},
        checks=checks,
        scratch=scratch,
    )


def _inbox_change(part: Part, files: pa.Table, folder: Path) -> Change:
    """What is new in the benchmark's own folder of the inbox; no change where there is none.

    Files there that belong to another benchmark (by their benchmark.yml or version) are read by `capeval ingest`.
    """
    from capeval_pipeline.formats.protocol import Limits
    from capeval_pipeline.ingestion.batch import Change, ledger_of, read_batch
    from capeval_pipeline.ingestion.discovery import Place
    from capeval_pipeline.ingestion.reading import Request

    settings = part.workspace.settings
    name = part.benchmark.get("name") or part.benchmark_id.rpartition("@")[0] or part.benchmark_id
    inbox = settings.inbox / name
    if inbox.parent != settings.inbox or name == ".." or not inbox.is_dir():  # a name may be `..` or `../x`
        return Change()
    place = Place(settings.root, settings.inbox)
    limits = Limits(**settings.limits.model_dump())
    batch = read_batch([inbox], Request(limits=limits), place, ledger_of(files, part.arrow("raw.files")), folder)
    return batch.changes.get(part.benchmark_id, Change())
