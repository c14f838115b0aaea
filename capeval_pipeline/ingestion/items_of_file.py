"""Items as one file names them: numbered, and written as they come with the first text, category and vector of each."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capeval_pipeline.formats.cells import encoded, plain
from capeval_pipeline.ingestion.numbering import ItemNumbers
from capeval_pipeline.storage.connections import ComputeLimits, scratch_connection, text_literal
from capeval_pipeline.storage.tables.readings import READ_ITEMS

_SAID = ("prompt", "category", "embedding")
_ROWS = pa.schema([pa.field(column.name, column.type) for column in READ_ITEMS.columns])


class ItemsOfFile:
    """Numbers and rows of a file's items. What is said of an item more than once is read and not kept."""

    def __init__(self, folder: Path, benchmark_id: str, file_id: str) -> None:
        self._folder = folder
        self._shared = {"benchmark_id": benchmark_id, "file_id": file_id}
        self._numbers = ItemNumbers()
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._told = np.zeros(1024, np.uint8)

    def add(self, rows: pa.Table) -> None:
        """Rows that say what items are (ITEM_ROWS); what names no item, by id or by content, says nothing."""
        rows = rows.filter(pc.or_(rows.column("item").is_valid(), rows.column("content_hash").is_valid()))
        if not rows.num_rows:
            return
        numbers, new = self._numbered(rows)
        said = np.zeros(rows.num_rows, np.uint8)
        for bit, name in enumerate(_SAID):
            said |= rows.column(name).is_valid().to_numpy().astype(np.uint8) << bit
        left = np.arange(rows.num_rows)
        is_first_time = np.isin(numbers, new)
        while len(left):
            _, first = np.unique(numbers[left], return_index=True)
            chosen = np.sort(left[first])
            is_new = is_first_time[chosen]
            self._write("first", rows, numbers, chosen[is_new])
            self._write("later", rows, numbers, chosen[~is_new & ((said & ~self._told[numbers])[chosen] > 0)])
            self._told[numbers[chosen]] |= said[chosen]
            is_first_time[:] = False
            left = left[(said & ~self._told[numbers])[left] > 0]

    def numbers_of(self, rows: pa.Table) -> np.ndarray:
        """Number of each row's item; items nothing was said of yet become rows of their own."""
        numbers, new = self._numbered(rows)
        if len(new):
            _, first = np.unique(numbers, return_index=True)
            chosen = np.sort(first[np.isin(numbers[first], new)])
            self._write("first", rows.select(["item", "content_hash"]), numbers, chosen)
        return numbers

    def _numbered(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Number of each row's item, new ones numbered in the order they come, and the new numbers."""
        items, hashes = encoded(rows.column("item")), encoded(rows.column("content_hash"))
        item_codes, hash_codes = (_codes(array, len(array.dictionary)) for array in (items, hashes))
        pairs = item_codes * (len(hashes.dictionary) + 1) + hash_codes
        unique, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        order = np.argsort(first)
        at = pa.array(first[order])
        names = [array.take(at).dictionary_decode().cast(pa.string()) for array in (items, hashes)]
        found, is_new = self._numbers.number(*names)
        numbers = np.empty(len(unique), np.int64)
        numbers[order] = found
        if len(self._numbers) > len(self._told):
            grown = max(len(self._numbers), 2 * len(self._told)) - len(self._told)
            self._told = np.concatenate([self._told, np.zeros(grown, np.uint8)])
        return numbers[inverse], found[is_new]

    def _write(self, name: str, rows: pa.Table, numbers: np.ndarray, chosen: np.ndarray) -> None:
        if not len(chosen):
            return
        at = pa.array(chosen)
        columns: list[pa.Array] = []
        for field in _ROWS:
            source = {"declared_id": "item"}.get(field.name, field.name)
            if field.name in self._shared:
                columns.append(pa.repeat(self._shared[field.name], len(chosen)))
            elif field.name == "item_number":
                columns.append(pa.array(numbers[chosen]))
            elif source in rows.column_names:
                columns.append(plain(rows.column(source).take(at)).cast(field.type))
            else:
                columns.append(pa.nulls(len(chosen), field.type))
        if name not in self._writers:
            self._writers[name] = pq.ParquetWriter(self._path(name), _ROWS, compression="zstd", compression_level=1)
        self._writers[name].write_table(pa.table(columns, schema=_ROWS))

    def _path(self, name: str) -> Path:
        return self._folder / f"items-{name}.parquet"

    def close(self, path: Path, limits: ComputeLimits) -> None:
        """Write readings.items of the file."""
        self._numbers.close()
        for writer in self._writers.values():
            writer.close()
        if "first" not in self._writers:
            pq.write_table(_ROWS.empty_table(), path)
        elif "later" not in self._writers:
            self._path("first").replace(path)
        else:
            self._join(path, limits)

    def _join(self, path: Path, limits: ComputeLimits) -> None:
        """What was said of items first, with what was said later of those that lacked it."""
        first, later = (text_literal(str(self._path(name))) for name in ("first", "later"))
        said = ", ".join(f"any_value({name}) as {name}" for name in _SAID)
        columns = ", ".join(
            f"coalesce(first_said.{field.name}, later_said.{field.name}) as {field.name}"
            if field.name in _SAID
            else f"first_said.{field.name}"
            for field in _ROWS
        )
        with scratch_connection(limits) as connection:
            connection.execute(
                f"""copy (
                    select {columns} from read_parquet({first}) as first_said
                    left join (
                        select item_number, {said} from read_parquet({later}) group by item_number
                    ) as later_said using (item_number)
                ) to {text_literal(str(path))} (format parquet, compression zstd)"""
            )


def _codes(array: pa.DictionaryArray, missing: int) -> np.ndarray:
    """Codes of a dictionary array as int64, NULL as `missing`."""
    return array.indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
