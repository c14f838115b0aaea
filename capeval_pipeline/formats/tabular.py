"""Tables as other tools write them (CSV, TSV, JSON lines, Parquet; each also compressed) as batches of columns.

CSV cells and JSON values come out as text, Parquet columns in their own type. Every record knows the line or row on
which it starts. Nothing is shifted, padded or guessed: a row with more or fewer fields than the header is a fault.
"""

import csv
import io
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capeval_pipeline.counting import counted
from capeval_pipeline.formats.cells import json_cell
from capeval_pipeline.formats.json_text import JsonFault, parse_json
from capeval_pipeline.formats.opening import head_of, is_compressed, numbered_lines, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import CHUNK_BYTES, CHUNK_RECORDS, Limits
from capeval_pipeline.formats.refusals import FileRefused, message, refusal, shown

SEPARATORS = ",\t;|"
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
PARQUET_MAGIC = b"PAR1"
MAX_COLUMNS = 20_000
"""Columns beyond which something is no table of results: a row of commas would cost minutes to look at."""
BATCH_CELLS = 2_000_000
"""Cells after which a batch ends: a cell of one byte in the file may take a hundred while it is read."""
HELD_BYTES = 32 * 1024**2
"""Inflated bytes of a compressed Parquet file, which must be looked into from its end, up to which they are held; more
goes into a temporary file without a name."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What other tools call the folder of rows without a value."""


@dataclass(frozen=True)
class Fault:
    """A record that cannot be read: where it starts, code, and the message."""

    place: int
    reason: str
    message: str


@dataclass(frozen=True)
class Batch:
    """Records that could be read, column by column, and those that could not; `places` are lines or rows from 1."""

    columns: dict[str, pa.Array | pa.ChunkedArray]
    places: pa.Array
    faults: tuple[Fault, ...]

    @property
    def n_rows(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class TableLayout:
    """How a table is written, from its first 64 kB: kind (csv, jsonl, parquet) and its columns in order.

    said_by_folders : the last columns, which do not stand in the file, each with the value of all rows.
    """

    kind: str
    columns: tuple[str, ...]
    separator: str = ","
    first_line: int = 1
    sample: tuple[tuple[str, ...], ...] = ()
    said_by_folders: tuple[tuple[str, str | None], ...] = ()

    @property
    def place_format(self) -> str:
        return "row {}" if self.kind == "parquet" else "line {}"


def file_suffix(path: Path) -> str:
    """Suffix that names the kind of content, looking through .gz and .zst, in lower case."""
    name = path.name.lower()
    for packed in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def table_layout(path: Path) -> TableLayout | None:
    """Layout of a table, None if the file is none. Told by content; the suffix only decides between text kinds."""
    head = head_of(path)
    if head.start.startswith(PARQUET_MAGIC):
        status = path.stat()
        names = _parquet_columns(path, status.st_size, status.st_mtime_ns)
        return TableLayout("parquet", names) if len(names) <= MAX_COLUMNS else None
    if not head.is_text:
        return None
    text = head.text
    start = text.lstrip()
    if start.startswith("{"):
        return _json_lines_layout(text, head.is_whole)
    if file_suffix(path) not in (".csv", ".tsv", ".txt", "") or start.startswith(("[", "<")):
        return None
    return csv_layout(text)


@lru_cache(maxsize=64)
def _parquet_columns(path: Path, _size: int, _mtime_ns: int) -> tuple[str, ...]:
    """Names of the columns; none of a damaged file, for reading it says how."""
    try:
        with _parquet_source(path, Limits()) as file:
            return tuple(pq.ParquetFile(file).schema_arrow.names)
    except (FileRefused, pa.ArrowException, OSError, ValueError, MemoryError):
        return ()


def with_folder_columns(path: Path, layout: TableLayout, known: Iterable[str]) -> TableLayout:
    """The layout with what the folders right above say as `key=value` of columns in `known` that the file has not."""
    known, own = frozenset(known), {name.strip().lower() for name in layout.columns}
    said: dict[str, str | None] = {}
    for folder in path.absolute().parents:
        key, mark, value = folder.name.partition("=")
        if not mark:
            break
        name = key.strip().lower()
        if name in known and name not in own:
            said.setdefault(name, None if value == NO_VALUE else unquote(value))
    return replace(layout, columns=(*layout.columns, *said), said_by_folders=tuple(said.items()))


def _json_lines_layout(text: str, is_whole: bool) -> TableLayout | None:
    """Columns of the first whole lines; None where not one line is an object of its own (one big document)."""
    names: dict[str, None] = {}
    lines = text.split("\n")
    for line in lines if is_whole or len(lines) == 1 else lines[:-1]:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            names.update(dict.fromkeys(record))
    return TableLayout("jsonl", tuple(names)) if names else None


def csv_layout(text: str) -> TableLayout | None:
    """Layout of a text as CSV, by its first row and what separates most of it; None if it has no row."""
    first_line, separator = 1, ""
    first, _, rest = text.partition("\n")
    named = first.strip().strip('"')
    if named.lower().startswith("sep=") and len(named) <= 5:
        separator, text, first_line = named[4:] or ",", rest, 2
    header = text.partition("\n")[0]
    if not separator:
        counts = {mark: _outside_quotes(header).count(mark) for mark in SEPARATORS}
        separator = max(SEPARATORS, key=lambda mark: counts[mark])
    try:
        rows = csv.reader(io.StringIO(text), delimiter=separator)
        names = next((row for row in rows if row), None)
        sample: list[tuple[str, ...]] = []
        for row in rows:
            if row and len(sample) < 200:
                sample.append(tuple(row))
    except csv.Error:
        if not (names := _first_row(text, separator)):
            return None
        sample = []
    if not names or len(names) > MAX_COLUMNS or not any(name.strip() for name in names):
        return None
    return TableLayout("csv", tuple(names), separator, first_line, tuple(sample[:-1] or sample))


def _first_row(text: str, separator: str) -> list[str] | None:
    try:
        return next(csv.reader(io.StringIO(text), delimiter=separator), None)
    except csv.Error:
        return None


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def repeated_columns(columns: Iterable[str]) -> list[str]:
    """Names that head more than one column, in order."""
    return [name for name, count in Counter(columns).items() if count > 1 and name.strip()]


def batches(path: Path, layout: TableLayout, wanted: Sequence[str], limits: Limits) -> Iterator[Batch]:
    """The columns `wanted` of a table, batch by batch. Raises FileRefused: truncated, too_many_bad_rows, …"""
    if layout.said_by_folders:
        said = dict(layout.said_by_folders)
        inside = replace(layout, columns=layout.columns[: -len(said)], said_by_folders=())
        for batch in batches(path, inside, [name for name in wanted if name not in said], limits):
            added = {
                name: pa.repeat(pa.scalar(said[name], pa.string()), batch.n_rows) for name in wanted if name in said
            }
            yield replace(batch, columns=batch.columns | added)
        return
    if layout.kind == "parquet":
        yield from _parquet_batches(path, wanted, limits)
        return
    rows = _csv_batches if layout.kind == "csv" else _json_lines_batches
    n_good = n_bad = 0
    for batch in rows(path, layout, wanted, limits):
        n_good += batch.n_rows
        n_bad += len(batch.faults)
        if n_bad >= limits.n_bad_rows and n_bad > n_good:
            fault = refusal(
                path,
                "too_many_bad_rows",
                f"{n_bad} of {counted(n_good + n_bad, 'row')} broken; the first: "
                f"{shown(batch.faults[0].message) if batch.faults else ''}",
                f"fewer than {limits.n_bad_rows} (setting `limits.n_bad_rows`) or under half",
            )
            fault.n_read = n_good + n_bad
            raise fault
        yield batch


def _parquet_source(path: Path, limits: Limits) -> IO[bytes]:
    """A Parquet file to seek in; a compressed one is inflated, under the limits."""
    with path.open("rb") as stream:
        packed = is_compressed(stream.read(4))
    if not packed:
        return path.open("rb")
    whole = tempfile.SpooledTemporaryFile(max_size=HELD_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        with open_inflated(path, limits) as inflated:
            while block := inflated.read():
                whole.write(block)
        whole.seek(0)
    except BaseException:
        whole.close()
        raise
    return whole


def _parquet_batches(path: Path, wanted: Sequence[str], limits: Limits) -> Iterator[Batch]:
    place = 1
    try:
        with _parquet_source(path, limits) as source:
            file = pq.ParquetFile(source)
            texts = [
                field.name
                for field in file.schema_arrow
                if field.name in wanted and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
            ]
            if texts:
                file = pq.ParquetFile(source, read_dictionary=texts)
            for records in file.iter_batches(_rows_at_once(file, len(wanted)), columns=list(wanted)):
                records.validate(full=True)  # damaged pages give codes beyond their dictionary, and text that is none
                columns = {name: _as_text_if_bytes(path, name, records.column(name)) for name in wanted}
                places = pa.array(np.arange(place, place + records.num_rows))
                place += records.num_rows
                yield Batch(columns, places, ())
    except (pa.ArrowException, OSError) as error:
        raise refusal(
            path,
            "truncated",
            f"is no whole Parquet file ({error}) after row {place - 1}",
            "a whole file",
            "Copy or export it again.",
        ) from error


def _rows_at_once(file: pq.ParquetFile, n_wanted: int) -> int:
    """Rows of a batch that take no more than CHUNK_BYTES, by what the footer says of all columns together.

    Repeated values take next to nothing in the file, so the number of cells is bounded as well.
    """
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    n_bytes, n_rows = sum(group.total_byte_size for group in groups), sum(group.num_rows for group in groups)
    by_bytes = CHUNK_BYTES * max(n_rows, 1) // max(n_bytes, 1)
    return max(1, min(CHUNK_RECORDS, by_bytes, BATCH_CELLS // max(n_wanted, 1)))


def _as_text_if_bytes(path: Path, name: str, column: pa.Array) -> pa.Array:
    """A column of bytes as text, for older writers mark no text as such; refused if it holds none."""
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_)):
        return column
    try:
        return column.cast(pa.string())
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise refusal(
            path, "bad_encoding", "holds bytes that are no UTF-8 text", "text", "Export it as text.", f"column {name}"
        ) from error


class _Collector:
    """Gathers rows until a batch is full, by number or by the bytes they came from; cells are text or JSON values."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.clear()

    def clear(self) -> None:
        self.rows: list[Sequence[Any]] = []
        self.places: list[int] = []
        self.faults: list[Fault] = []
        self.n_bytes = 0

    @property
    def is_full(self) -> bool:
        n_rows = len(self.places) + len(self.faults)
        return self.n_bytes >= CHUNK_BYTES or n_rows >= CHUNK_RECORDS or n_rows * len(self.names) >= BATCH_CELLS

    def batch(self) -> Batch:
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.names)
        made = Batch(
            {name: _texts(cells) for name, cells in zip(self.names, columns, strict=True)},
            pa.array(self.places, pa.int64()),
            tuple(self.faults),
        )
        self.clear()
        return made


def _texts(cells: Sequence[Any]) -> pa.Array:
    """Cells of a column as text; a column of one kind of value is not looked at value by value."""
    kinds = set(map(type, cells))
    if kinds <= {str, type(None)}:
        return pa.array(cells, pa.string())
    return pa.array(list(map(str if kinds == {int} else json_cell, cells)), pa.string())


def _undecodable(path: Path, place: int, line: bytes, error: UnicodeDecodeError) -> Fault:
    found = f"byte 0x{line[error.start]:02x} is not UTF-8"
    return Fault(place, "bad_encoding", message(path.name, f"line {place}", found, "UTF-8", "Save as UTF-8."))


def _overlong(path: Path, place: int, limits: Limits) -> Fault:
    found, expected = f"longer than {limits.line_bytes} bytes", "at most the setting `limits.line_bytes`"
    return Fault(place, "line_too_long", message(path.name, f"line {place}", found, expected))


def _json_lines_batches(path: Path, layout: TableLayout, wanted: Sequence[str], limits: Limits) -> Iterator[Batch]:
    collector = _Collector(wanted)
    with open_inflated(path, limits) as stream:
        for place, line in numbered_lines(utf8_blocks(stream, path), limits.line_bytes):
            if line is None:
                collector.faults.append(_overlong(path, place, limits))
            elif not line.isspace():
                try:
                    record = parse_json(line.decode(), depth=limits.json_depth)
                    if not isinstance(record, dict):
                        raise JsonFault("bad_row", f"is {shown(record)}, no object")
                    cells = list(map(record.get, wanted))
                    if b"\\u" in line:
                        for cell in map(json_cell, cells):
                            if cell is not None:
                                cell.encode()  # a lone surrogate escape is no text
                    collector.rows.append(cells)
                    collector.places.append(place)
                    collector.n_bytes += len(line)
                except UnicodeDecodeError as error:
                    collector.faults.append(_undecodable(path, place, line, error))
                except UnicodeEncodeError:
                    text = message(path.name, f"line {place}", "half of a surrogate pair", "text", "Write it again.")
                    collector.faults.append(Fault(place, "bad_json", text))
                except JsonFault as fault:
                    text = message(path.name, f"line {place}", str(fault), "one JSON object a line")
                    collector.faults.append(Fault(place, fault.reason, text))
            if collector.is_full:
                yield collector.batch()
    yield collector.batch()


def _csv_batches(path: Path, layout: TableLayout, wanted: Sequence[str], limits: Limits) -> Iterator[Batch]:
    """CSV in strict mode. The line of a record is the one after the last line its predecessor used."""
    csv.field_size_limit(limits.line_bytes)
    n_fields = len(layout.columns)
    first_at = {name: position for position, name in reversed(list(enumerate(layout.columns)))}
    positions = [first_at[name] for name in wanted]
    collector = _Collector(wanted)
    with open_inflated(path, limits) as stream:
        overlong: set[int] = set()

        def texts() -> Iterator[str]:
            for number, line in numbered_lines(utf8_blocks(stream, path), limits.line_bytes):
                if number < layout.first_line:
                    continue
                if line is None:
                    overlong.add(number)
                    yield "\n"
                else:
                    yield line.decode("utf-8", "surrogateescape")

        reader = csv.reader(texts(), delimiter=layout.separator, strict=True)
        is_header_due = True
        while True:
            place = reader.line_num + layout.first_line
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                if str(error) == "unexpected end of data":
                    raise refusal(
                        path,
                        "truncated",
                        f"ends inside the quoted field that begins on line {place}",
                        "a closing quote",
                        "Copy it again.",
                    ) from error
                if is_header_due:
                    raise refusal(path, "bad_row", f"the header cannot be read ({error})", "a row of names") from error
                found = "a line end \\r inside a row" if "new-line" in str(error) else str(error)
                text = message(path.name, f"line {place}", found, "fields quoted in full or not at all")
                collector.faults.append(Fault(place, "bad_row", text))
                continue
            if not row:
                if place in overlong:
                    collector.faults.append(_overlong(path, place, limits))
                continue
            if is_header_due:
                is_header_due = False
                continue
            if len(row) != n_fields:
                found = f"{len(row)} fields, the first {shown(row[0])}"
                text = message(path.name, f"line {place}", found, f"{n_fields} as in the header")
                collector.faults.append(Fault(place, "bad_row", text))
            else:
                cells = [row[position] for position in positions]
                whole = "".join(row)
                try:
                    whole.encode()
                except UnicodeEncodeError:
                    raw = layout.separator.join(row).encode("utf-8", "surrogateescape")
                    collector.faults.append(_first_bad_byte(path, place, raw))
                else:
                    if "\0" in whole:
                        text = message(path.name, f"line {place}", "byte 0x00", "text", "Save as UTF-8.")
                        collector.faults.append(Fault(place, "bad_encoding", text))
                    else:
                        collector.rows.append(cells)
                        collector.places.append(place)
                        collector.n_bytes += len(whole)
            if collector.is_full:
                yield collector.batch()
    yield collector.batch()


def _first_bad_byte(path: Path, place: int, raw: bytes) -> Fault:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return _undecodable(path, place + raw.count(b"\n", 0, error.start), raw, error)
    raise AssertionError("only called for text that is not UTF-8")
