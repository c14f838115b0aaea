"""What one file says of one benchmark, while it is read: rows in temporary Parquet, items and models numbered.

Inside a file the same key twice is a repetition if the values agree, a conflict if not: never a mean, never the last.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.formats.cells import encoded, plain
from capeval_pipeline.formats.common import message
from capeval_pipeline.formats.protocol import Chunk, Note
from capeval_pipeline.ingestion.discovery import Unit
from capeval_pipeline.ingestion.identity import model_id_of
from capeval_pipeline.storage.connections import ComputeLimits, memory_connection, text_literal
from capeval_pipeline.storage.tables.contract import Table
from capeval_pipeline.storage.tables.readings import (
    READ_FILES,
    READ_GENERATIONS,
    READ_ITEMS,
    READ_JUDGMENTS,
    READ_METRIC_VALUES,
    READ_MODELS,
    READ_REJECTIONS,
)

PART_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        READ_FILES, READ_ITEMS, READ_MODELS, READ_GENERATIONS, READ_JUDGMENTS, READ_METRIC_VALUES, READ_REJECTIONS,
    )
}  # fmt: skip
MEMORY_LIMIT = "1GB"
_KEYS = {
    "generations": ("item_number", "model_number", "generation_id"),
    "metric_values": ("item_number", "model_number", "generation_id", "metric"),
    "judgments": ("item_number", "model_a_number", "model_b_number", "judge_id", "position", "draw"),
}
_VALUES = {
    "generations": "status || ' ' || coalesce(score::varchar, '')",
    "metric_values": "coalesce(value::varchar, '')",
    "judgments": "outcome::varchar",
}


class Part:
    """Rows of one file for one benchmark. Add chunks, settle, then finish; the folder then holds the readings."""

    def __init__(
        self,
        benchmark_id: str,
        folder: Path,
        file_id: str,
        unit: Unit,
        model_settings: Mapping[str, Mapping[str, Any]],
        canonical_names: Mapping[str, str],
    ) -> None:
        self.benchmark_id, self.folder, self.file_id, self.unit = benchmark_id, folder, file_id, unit
        self.model_settings, self.canonical_names = model_settings, canonical_names
        self.notes: list[Note] = []
        self.n_kept = self.n_rejected = self.n_duplicate = 0
        self._items: dict[tuple[str | None, str | None], int] = {}
        self._item_rows: list[pa.Table] = []
        self._model_numbers: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._records: dict[str, list[np.ndarray]] = {name: [] for name in _KEYS}
        self._repeated: dict[str, np.ndarray] = {}
        folder.mkdir(parents=True, exist_ok=True)

    # -- adding ---------------------------------------------------------------------------------------------------

    def add(self, chunk: Chunk) -> None:
        """Number the rows of a chunk and write them."""
        if chunk.items.num_rows:
            numbers = self._item_numbers(chunk.items)
            self._item_rows.append(chunk.items.append_column("item_number", pa.array(numbers)))
        for name in ("generations", "metric_values"):
            rows: pa.Table = getattr(chunk, name)
            if rows.num_rows:
                added = {
                    "item_number": self._item_numbers(rows),
                    "model_number": self._models_of(rows.column("model")),
                }
                self._write(name, rows, added, chunk.place_format)
        if chunk.judgments.num_rows:
            rows = chunk.judgments
            added = {
                "item_number": self._item_numbers(rows),
                "model_a_number": self._models_of(rows.column("model_a")),
                "model_b_number": self._models_of(rows.column("model_b")),
            }
            renamed = rows.rename_columns(["judge_id" if name == "judge" else name for name in rows.column_names])
            self._write("judgments", renamed, added, chunk.place_format)
        if chunk.rejections.num_rows:
            columns = [chunk.rejections.column(name).to_pylist() for name in (
                "record", "severity", "location", "reason", "message",
            )]  # fmt: skip
            self.note(list(zip(*columns, strict=True)))

    def note(self, notes: list[Note]) -> None:
        """Add rejections, repetitions and warnings."""
        self.notes += notes

    def _item_numbers(self, rows: pa.Table) -> np.ndarray:
        """Number of each row's item (declared id and content), new ones numbered in the order they come."""
        items, hashes = encoded(rows.column("item")), encoded(rows.column("content_hash"))
        item_names = [*items.dictionary.to_pylist(), None]
        hash_names = [*hashes.dictionary.to_pylist(), None]
        item_codes = _codes(items, len(item_names) - 1)
        hash_codes = _codes(hashes, len(hash_names) - 1)
        pairs = item_codes * len(hash_names) + hash_codes
        unique, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        numbers = np.empty(len(unique), np.int64)
        for position in np.argsort(first):
            item, content = divmod(int(unique[position]), len(hash_names))
            key = (item_names[item], hash_names[content])
            numbers[position] = self._items.setdefault(key, len(self._items))
        return numbers[inverse]

    def _models_of(self, column: pa.ChunkedArray) -> np.ndarray:
        """Number of each row's model; spellings of one model share a number."""
        names = encoded(column)
        numbers = []
        for raw in names.dictionary.to_pylist():
            if raw not in self._names:
                model_id = model_id_of(raw, self.model_settings.get(raw, {}), self.canonical_names)
                self._names[raw] = self._model_numbers.setdefault(model_id, len(self._model_numbers))
            numbers.append(self._names[raw])
        return np.array(numbers, np.int64)[_codes(names, 0)]

    def _write(self, name: str, rows: pa.Table, added: Mapping[str, np.ndarray], place_format: str) -> None:
        columns, contract = [], PART_TABLES[name]
        n_rows = rows.num_rows
        for column in contract.columns:
            if column.name in added:
                array = pa.array(added[column.name], column.type)
            elif column.name in ("benchmark_id", "file_id", "place_format"):
                value = {"benchmark_id": self.benchmark_id, "file_id": self.file_id, "place_format": place_format}
                array = pa.repeat(pa.scalar(value[column.name], column.type), n_rows)
            else:
                array = plain(rows.column(column.name)).cast(column.type)
            columns.append(array)
        # a draw that is not given is numbered later, so it may still be NULL here
        schema = pa.schema([pa.field(column.name, column.type) for column in contract.columns])
        if name not in self._writers:
            self._writers[name] = pq.ParquetWriter(self._path(name), schema, compression="zstd", compression_level=1)
        self._writers[name].write_table(pa.table(columns, schema=schema))
        self._records[name].append(np.unique(rows.column("record").to_numpy()) if name == "metric_values" else
                                   rows.column("record").to_numpy())  # fmt: skip

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    # -- settling -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Find repeated keys, keep one row of each, refuse contradictions, and count the records."""
        for writer in self._writers.values():
            writer.close()
        written = set(self._writers)
        self._writers = {}
        if "judgments" in written:
            self._number_draws()
        rejected = {record for record, severity, *_ in self.notes if severity == "rejected" and record is not None}
        repeated: dict[str, list[int]] = {}
        for name in ("generations", "judgments", "metric_values"):
            if name in written:
                repeated[name] = self._settle_table(name, rejected)
        self._count(repeated)

    def _number_draws(self) -> None:
        """Draws that the format leaves open: the vote's running number among equal item, models, judge and position."""
        source, target = text_literal(str(self._path("judgments"))), self.folder / "numbered.parquet"
        key = "item_number, model_a_number, model_b_number, judge_id, position"
        with memory_connection(ComputeLimits(MEMORY_LIMIT, 2, self.folder / "spill")) as connection:
            connection.execute(
                f"""copy (
                    select * replace (
                        coalesce(draw, row_number() over (partition by {key} order by record) - 1)::bigint as draw
                    )
                    from read_parquet({source})
                    order by record
                ) to {text_literal(str(target))} (format parquet, compression zstd)"""
            )
        target.replace(self._path("judgments"))

    def _settle_table(self, name: str, rejected: set[int]) -> list[int]:
        """Keep one row a key; returns the records of the rows that went (one entry a row)."""
        path, key = text_literal(str(self._path(name))), ", ".join(_KEYS[name])
        with memory_connection(ComputeLimits(MEMORY_LIMIT, 2, self.folder / "spill")) as connection:
            connection.execute(
                f"create table repeated as select {key} from read_parquet({path}) group by all having count(*) > 1"
            )
            if connection.execute("select count(*) from repeated").fetchall() == [(0,)]:
                return []
            same = " and ".join(f"rows.{column} is not distinct from repeated.{column}" for column in _KEYS[name])
            connection.execute(
                f"""create table fates as
                select
                    rows.*,
                    {_VALUES[name]} as said,
                    replace(place_format, '{{}}', coalesce(place::varchar, '')) as location,
                    row_number() over by_key as rank,
                    first(location) over by_key as first_location,
                    min(said) over (partition by {key}) <> max(said) over (partition by {key}) as is_conflict,
                    min(said) over (partition by {key}) as one_value,
                    max(said) over (partition by {key}) as other_value
                from read_parquet({path}) as rows
                semi join repeated on {same}
                window by_key as (partition by {key} order by record rows unbounded preceding)"""
            )
            gone = self._tell_fates(connection, name, rejected)
            self._rewrite(connection, name, same)
            return gone

    def _tell_fates(self, connection: Any, name: str, rejected: set[int]) -> list[int]:
        file = Path(self.unit.shown_path).name
        found = connection.execute(
            """select record, location, first_location, rank, is_conflict, one_value, other_value
            from fates order by record"""
        ).fetchall()
        gone = []
        conflicts = {record for record, *_, is_conflict, _, _ in found if is_conflict}
        for record, location, first_location, rank, is_conflict, one_value, other_value in found:
            if is_conflict and (name != "metric_values" or not self._has_generation(record)):
                if record not in rejected:
                    found = (
                        f"the same key has {one_value.strip()} and {other_value.strip()} (first at {first_location})"
                    )
                    text = message(file, location, found, "one value", "Neither is used.")
                    self.notes.append((record, "rejected", location, "conflicting_duplicate", text))
                    rejected.add(record)
            elif rank > 1:
                gone.append(record)
                if record not in rejected and record not in conflicts and name != "metric_values":
                    text = message(file, location, f"repeats {first_location}", "each key once")
                    self.notes.append((record, "duplicate", location, "duplicate", text))
        return gone

    def _has_generation(self, record: int) -> bool:
        if not hasattr(self, "_generation_records"):
            parts = self._records["generations"]
            self._generation_records = set(np.concatenate(parts).tolist()) if parts else set()
        return record in self._generation_records

    def _rewrite(self, connection: Any, name: str, same: str) -> None:
        """One row a key again: the first, without a verdict where the rows contradict each other."""
        path, target = text_literal(str(self._path(name))), self.folder / "settled.parquet"
        columns = ", ".join(PART_TABLES[name].column_names)
        survivor = {
            "generations": """* replace (
                if(is_conflict, 'invalid', status) as status, if(is_conflict, null, score) as score
            )""",
            "metric_values": "* replace (if(is_conflict, null, value) as value)",
            "judgments": "*",
        }[name]
        condition = "rank = 1 and not is_conflict" if name == "judgments" else "rank = 1"
        connection.execute(
            f"""copy (
                select {columns} from read_parquet({path}) as rows anti join repeated on {same}
                union all by name
                select {columns} from (select {survivor} from fates where {condition})
                order by record
            ) to {text_literal(str(target))} (format parquet, compression zstd)"""
        )
        target.replace(self._path(name))

    # -- counting -------------------------------------------------------------------------------------------------

    def records(self) -> np.ndarray:
        """Records of this part: those with rows and those that were refused before they had any."""
        with_rows = [array for arrays in self._records.values() for array in arrays]
        noted = [record for record, severity, *_ in self.notes if record is not None and severity != "warning"]
        return np.unique(np.concatenate([*with_rows, np.array(noted, np.int64)]))

    def _count(self, repeated: Mapping[str, list[int]]) -> None:
        """Each record once: rejected, else duplicate if all its verdict rows are repetitions, else kept.

        Metric rows speak for a record only where it has no other row (a line of another filter).
        """
        rejected = {record for record, severity, *_ in self.notes if severity == "rejected" and record is not None}
        duplicate = {record for record, severity, *_ in self.notes if severity == "duplicate" and record is not None}
        everything = self.records()
        verdicts = [array for name in ("generations", "judgments") for array in self._records[name]]
        with_verdict, n_rows = np.unique(np.concatenate([*verdicts, np.zeros(0, np.int64)]), return_counts=True)
        gone = np.array([*repeated.get("generations", []), *repeated.get("judgments", [])], np.int64)
        gone_records, n_gone = np.unique(gone, return_counts=True)
        positions = np.searchsorted(with_verdict, gone_records)
        duplicate |= set(gone_records[n_gone == n_rows[positions]].tolist())
        if repeated.get("metric_values"):
            duplicate |= self._metric_only_duplicates(repeated["metric_values"], set(with_verdict.tolist()))
        duplicate -= rejected
        self.n_rejected = len(rejected)
        self.n_duplicate = len(duplicate)
        self.n_kept = len(everything) - self.n_rejected - self.n_duplicate

    def _metric_only_duplicates(self, gone: list[int], with_verdict: set[int]) -> set[int]:
        """Records without a verdict row all of whose metric rows are repetitions."""
        remaining = set(pq.read_table(self._path("metric_values"), columns=["record"]).column("record").to_pylist())
        return {record for record in gone if record not in with_verdict and record not in remaining}

    # -- finishing ------------------------------------------------------------------------------------------------

    def finish(self, ledger_row: dict[str, Any]) -> None:
        """Write the small tables: items, models, rejections and the ledger row."""
        self._save("items", self._items_table())
        by_number = {number: model_id for model_id, number in self._model_numbers.items()}
        models = [
            {
                "model_number": number,
                "raw_name": raw,
                "model_id": by_number[number],
                "settings": json.dumps(self.model_settings.get(raw, {}), sort_keys=True, default=str),
            }
            for raw, number in self._names.items()
        ]
        self._save("models", models)
        self._save("rejections", grouped_notes(self.notes))
        self._save("files", [ledger_row])
        for name in _KEYS:
            if not self._path(name).exists():
                self._save(name, [])

    def _save(self, name: str, rows: list[dict[str, Any]] | pa.Table) -> None:
        contract = PART_TABLES[name]
        if isinstance(rows, list):
            filled = [{"benchmark_id": self.benchmark_id, "file_id": self.file_id, **row} for row in rows]
            rows = pa.Table.from_pylist(filled, contract.arrow_schema)
        pq.write_table(rows, self._path(name), compression="zstd")

    def _items_table(self) -> pa.Table:
        """One row an item: the first text, category and vector the file gives it."""
        contract = PART_TABLES["items"]
        keys = list(self._items)
        numbered = pa.table(
            {
                "item_number": pa.array(range(len(keys)), pa.int64()),
                "declared_id": pa.array([item for item, _ in keys], pa.string()),
                "content_hash": pa.array([content for _, content in keys], pa.string()),
            }
        )
        columns = ["item_number", "prompt", "category", "embedding"]
        said = pa.concat_tables(
            [rows.select(columns).cast(_SAID) for rows in self._item_rows] or [_SAID.empty_table()]
        ).append_column("place", pa.array(range(sum(rows.num_rows for rows in self._item_rows)), pa.int64()))
        with memory_connection(ComputeLimits(MEMORY_LIMIT, 1)) as connection:
            connection.register("numbered", numbered)
            connection.register("said", said)
            firsts = ", ".join(
                f"first({name} order by place) filter ({name} is not null) as {name}"
                for name in ("prompt", "category", "embedding")
            )
            found = connection.sql(
                f"""with firsts as (select item_number, {firsts} from said group by item_number)
                select
                    {text_literal(self.benchmark_id)} as benchmark_id, {text_literal(self.file_id)} as file_id,
                    numbered.*, firsts.prompt, firsts.category, firsts.embedding
                from numbered left join firsts using (item_number) order by item_number"""
            ).to_arrow_table()
        return found.select(contract.column_names).cast(contract.arrow_schema)


_SAID = pa.schema(
    [
        ("item_number", pa.int64()),
        ("prompt", pa.string()),
        ("category", pa.string()),
        ("embedding", pa.list_(pa.float64())),
    ]
)


def _codes(array: pa.DictionaryArray, missing: int) -> np.ndarray:
    """Codes of a dictionary array as int64, NULL as `missing`."""
    return array.indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)


def grouped_notes(notes: list[Note]) -> list[dict[str, Any]]:
    """Notes as rows of the rejections: one a location and reason, the further ones counted in the message."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    counts: dict[tuple[str, str], int] = {}
    for _, severity, location, reason, text in notes:
        key = (location, reason)
        counts[key] = counts.get(key, 0) + 1
        rows.setdefault(key, {"location": location, "severity": severity, "reason": reason, "message": text})
    for key, count in counts.items():
        if count > 1:
            rows[key]["message"] = f"{rows[key]['message'][:270]} (and {count - 1} more)"
    return list(rows.values())
