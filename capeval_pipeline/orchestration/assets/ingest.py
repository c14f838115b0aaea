"""Files become raw tables: what each file said is kept beside what all files of a benchmark say together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval_pipeline.ingestion.doubts import CHECKS, findings
from capeval_pipeline.orchestration.stages import CheckOutcome, Part, StageResult, stage_asset

if TYPE_CHECKING:
    import pyarrow as pa

    from capeval_pipeline.ingestion.batch import Change

READING_KEYS = (
    "readings.items", "readings.models", "readings.generations", "readings.judgments", "readings.metric_values",
    "readings.rejections",
)  # fmt: skip
RAW_KEYS = (
    "raw.benchmarks", "raw.items", "raw.models", "raw.generations", "raw.judgments", "raw.metric_values",
    "raw.rejections",
)  # fmt: skip
MIN_COMPACT_ROWS = 10_000
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
    import tempfile

    from capeval_pipeline.ingestion.batch import load_change
    from capeval_pipeline.ingestion.resolution import check_ledger, resolve

    readings = {key.partition(".")[2]: part.arrow(key) for key in (*READING_KEYS, "readings.files")}
    staged = part.run_config.get("staged")
    if staged:
        readings = load_change(Path(staged), part.benchmark_id).applied_to(readings)
    else:
        part.workspace.settings.temporary.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="inbox-", dir=part.workspace.settings.temporary) as folder:
            readings = _inbox_change(part, readings["files"], Path(folder)).applied_to(readings)
    raw = resolve(readings, part.workspace.limits(n_threads=2))
    check_ledger(raw["raw.files"])
    files = raw["raw.files"]
    numbers = {
        name: sum(value or 0 for value in files.column(name).to_pylist())
        for name in ("n_read", "n_kept", "n_rejected", "n_duplicate")
    }
    tables = {f"readings.{name}": table for name, table in readings.items()} | raw
    compact = {key: _compact(table) for key, table in tables.items()}
    found = findings(raw, minimum_coverage=part.workspace.settings.minimum_coverage)
    checks = [CheckOutcome(entry.table, entry.check, entry.is_well, entry.sentence) for entry in found]
    return StageResult(tables=compact, numbers={"n_files": files.num_rows, **numbers}, checks=checks)


def _compact(table: pa.Table) -> pa.Table:
    """The same rows in a quarter of the memory: unknown columns without values, texts that repeat as codes.

    Two million answers are 500 MB as plain columns, most of it file ids and NULLs, and are held until all tables of
    the benchmark fit their contracts.
    """
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if column.null_count == len(column):
            columns.append(pa.chunked_array([pa.nulls(len(column))]))
        elif pa.types.is_string(column.type) and len(column) > MIN_COMPACT_ROWS:
            columns.append(column.dictionary_encode())
        else:
            columns.append(column)
    return pa.table(columns, names=table.column_names)


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
    if not inbox.is_dir():
        return Change()
    place = Place(settings.root, settings.inbox)
    limits = Limits(**settings.limits.model_dump())
    batch = read_batch([inbox], Request(limits=limits), place, ledger_of(files, part.arrow("raw.files")), folder)
    return batch.changes.get(part.benchmark_id, Change())
