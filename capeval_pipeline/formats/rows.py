"""Records one by one: JSON records of a file with their places, and the rows that a reader makes of them.

For formats whose records are nested or few. Tables of millions of rows go column by column (tabular.py, long.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from capeval_pipeline.counting import counted
from capeval_pipeline.formats import cells
from capeval_pipeline.formats.json_stream import json_pieces
from capeval_pipeline.formats.json_text import JsonFault, parse_json
from capeval_pipeline.formats.json_values import storable
from capeval_pipeline.formats.opening import head_of, numbered_lines, open_inflated, utf8_blocks
from capeval_pipeline.formats.protocol import (
    CHUNK_RECORDS,
    GENERATION_ROWS,
    ITEM_ROWS,
    JUDGMENT_ROWS,
    METRIC_ROWS,
    Chunk,
    Limits,
    Note,
    ReadOptions,
    chunk_of,
    rejection_rows,
    rows_of,
)
from capeval_pipeline.formats.refusals import message, refusal, shown
from capeval_pipeline.formats.tabular import Fault

LINE, MEMBER = "line {}", "samples[{}]"
COMMON_FOLDERS = frozenset(
    ["results", "result", "output", "outputs", "eval", "evals", "evaluation", "data", "logs", "samples", "runs",
     "predictions", "humaneval", "mbpp", "evalplus_results", "bigcodebench", "livecodebench"]
)  # fmt: skip
"""Names of files and folders that name no model."""


def is_json_lines(path: Path) -> bool:
    """Whether a JSON file has a record a line, and not one array or object that spans them all."""
    text = head_of(path).text.lstrip()
    if text[:1] != "{":
        return False
    try:
        parse_json(text.partition("\n")[0])
    except JsonFault as fault:
        return fault.reason == "nesting_too_deep" or ".jsonl" in path.name.lower()
    return ".json" not in path.name.lower() or ".jsonl" in path.name.lower() or len(text.strip().split("\n")) > 1


def json_lines(path: Path, limits: Limits) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """Line number and record of every line that is not blank; a Fault where a line is no object."""
    with open_inflated(path, limits) as stream:
        for place, line in numbered_lines(utf8_blocks(stream, path), limits.line_bytes):
            where = f"line {place}"
            if line is None:
                found, expected = f"longer than {limits.line_bytes} bytes", "at most the setting `limits.line_bytes`"
                yield place, Fault(place, "line_too_long", message(path.name, where, found, expected))
            elif not line.isspace():
                try:
                    record = parse_json(line.decode(), depth=limits.json_depth)
                except UnicodeDecodeError as error:
                    found = f"byte 0x{line[error.start]:02x} is not UTF-8"
                    text = message(path.name, where, found, "UTF-8", "Save as UTF-8.")
                    yield place, Fault(place, "bad_encoding", text)
                except JsonFault as fault:
                    text = message(path.name, where, str(fault), "one JSON object a line")
                    yield place, Fault(place, fault.reason, text)
                else:
                    yield place, _record(path, place, where, record)


def json_members(
    path: Path, limits: Limits, records: str | None = None
) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """Position from 0 and record of every member of a JSON array; `records` is the key that holds it in an object."""
    keys = tuple(records.split(".")) if records else ()
    expected = f"a list under {records}" if records else "a list of records"
    place = 0
    is_list = False
    for piece in json_pieces(path, limits, keys):
        if piece.is_element:
            is_list = True
            yield place, _record(path, place, MEMBER.format(place), piece.value)
            place += 1
        elif piece.keys == keys:
            raise refusal(path, "bad_json", f"is {shown(piece.value)}", expected)
    if not is_list and keys:
        raise refusal(path, "bad_json", "has no such list, or an empty one", expected)


def _record(path: Path, place: int, where: str, record: Any) -> dict[str, Any] | Fault:
    if not isinstance(record, dict):
        return Fault(place, "bad_row", message(path.name, where, f"is {shown(record)}", "an object"))
    if not _is_text(record):
        return Fault(
            place, "bad_json", message(path.name, where, "half of a surrogate pair", "text", "Write it again.")
        )
    return record


def _is_text(value: Any) -> bool:
    """Whether all texts of a record can be stored: a lone surrogate escape is no text."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, dict):
        return all(_is_text(key) and _is_text(member) for key, member in value.items())
    return all(map(_is_text, value)) if isinstance(value, list) else True


class RowCollector:
    """Rows of the records of one file, numbered as they come; `chunk` gives them out and begins anew.

    place_format : how the place of a record is written: LINE or MEMBER.
    score_range : scores outside are refused.
    """

    def __init__(
        self, path: Path, options: ReadOptions, place_format: str, score_range: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self.path, self.options, self.place_format = path, options, place_format
        self.score_range = options.score_range or score_range
        self.n_records = 0
        self.known_items: set[tuple[str | None, ...]] = set()
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("items", "generations", "judgments", "metric_values")
        }
        self._notes: list[Note] = []
        self._n_read = 0

    @property
    def is_full(self) -> bool:
        return self._n_read >= CHUNK_RECORDS

    def end_record(self) -> None:
        """Close the record whose rows were added."""
        self.n_records += 1
        self._n_read += 1

    def note(
        self, place: object, reason: str, found: str, expected: str, advice: str = "", where: str | None = None
    ) -> None:
        """Refuse the verdict of the current record, whose rows, if any, stay visible as invalid.

        where : how its place is told, if it has a better name than the number of its place.
        """
        where = self.place_format.format(place) if where is None else where
        text = message(self.path.name, where, found, expected, advice)
        self._notes.append((self.n_records, "rejected", where, reason, text))

    def refuse(self, place: object, reason: str, found: str, expected: str, advice: str = "") -> None:
        """Refuse a record that has no rows, and close it."""
        self.note(place, reason, found, expected, advice)
        self.end_record()

    def refuse_fault(self, fault: Fault) -> None:
        """Refuse a record that could not be read, and close it."""
        where = self.place_format.format(fault.place)
        self._notes.append((self.n_records, "rejected", where, fault.reason, fault.message))
        self.end_record()

    def repeat(self, place: object, counted: object) -> None:
        """Close a record that another one, `counted`, says again and stands for."""
        where = self.place_format.format(place)
        found = f"is told again at {self.place_format.format(counted)}"
        text = message(self.path.name, where, found, "each record once")
        self._notes.append((self.n_records, "duplicate", where, "duplicate", text))
        self.end_record()

    def warn(self, reason: str, found: str, expected: str, advice: str = "", where: str = "file") -> None:
        """Say something of the file that refuses nothing."""
        self._notes.append((None, "warning", where, reason, message(self.path.name, where, found, expected, advice)))

    def add_item(
        self,
        item: str | None,
        content_hash: str | None = None,
        prompt: str | None = None,
        category: str | None = None,
        benchmark: str | None = None,
    ) -> None:
        """Say what an item is; only the first time counts."""
        if (benchmark, item, content_hash) not in self.known_items:
            self.known_items.add((benchmark, item, content_hash))
            said = {"item": item, "content_hash": content_hash, "category": category, "benchmark": benchmark}
            self._rows["items"].append({**said, "prompt": prompt if self.options.keep_text else None})

    def add_generation(self, place: int, **columns: Any) -> None:
        """Add a row to the current record, columns as in GENERATION_ROWS."""
        self._rows["generations"].append({"record": self.n_records, "place": place, **columns})

    def add_score(self, place: int, given: Any, code: int, value: float, **columns: Any) -> None:
        """Add a generation with a verdict code of cells.py; a verdict that cannot be used is told and refused."""
        low, high = self.score_range
        if code == cells.OK and not low <= value <= high:
            code = cells.OUT_OF_RANGE
        status = {cells.OK: "ok", cells.UNSCORED: "unscored"}.get(code, "invalid")
        self.add_generation(place, status=status, score=value if code == cells.OK else None, **columns)
        if code > cells.UNSCORED:
            reason = cells.REASON[code]
            advice = "Declare score_range in benchmark.yml." if reason == "score_out_of_range" else ""
            self.note(place, reason, f"score is {shown(given)}", f"a number from {low:g} to {high:g}", advice)

    def add_metric(self, place: int, **columns: Any) -> None:
        """Add a metric value to the current record, columns as in METRIC_ROWS."""
        self._rows["metric_values"].append({"record": self.n_records, "place": place, **columns})

    def add_judgment(self, place: int, **columns: Any) -> None:
        """Add a judgment to the current record, columns as in JUDGMENT_ROWS."""
        self._rows["judgments"].append({"record": self.n_records, "place": place, **columns})

    def chunk(self) -> Chunk:
        """What was collected since the last chunk."""
        made = chunk_of(
            n_read=self._n_read,
            place_format=self.place_format,
            items=_table(ITEM_ROWS, self._rows["items"]),
            generations=_table(GENERATION_ROWS, self._rows["generations"]),
            judgments=_table(JUDGMENT_ROWS, self._rows["judgments"]),
            metric_values=_table(METRIC_ROWS, self._rows["metric_values"]),
            rejections=rejection_rows(self._notes),
        )
        self._clear()
        return made


def _table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    names = {name for row in rows for name in row}
    unknown = sorted(names - set(schema.names))
    if unknown:  # a reader's slip, which would else lose the column without a word
        raise TypeError(f"rows have no column {unknown[0]!r}; there are {', '.join(schema.names)}")
    return rows_of(schema, {name: [row.get(name) for row in rows] for name in sorted(names)}, len(rows))


def model_named(path: Path, options: ReadOptions, *names: str | None) -> str:
    """The model of a file: asked for, else the first of `names`, else its folder. Raises FileRefused model_unknown."""
    candidates = [name for name in (*names, options.folder) if name and name.strip().lower() not in COMMON_FOLDERS]
    if options.model or candidates:
        return options.model or candidates[0]
    found, expected = "neither the file nor its folder names the model", "a model"
    advice = "Put it into a folder named after the model, or give --model, or model in benchmark.yml."
    raise refusal(path, "model_unknown", found, expected, advice)


def is_inside(path: Path, folder: Path | None = None) -> bool:
    """Whether a path is a regular file that lies, links followed, in `folder` (else its own) or below."""
    try:
        return path.is_file() and path.resolve().is_relative_to((folder or path.parent).resolve())
    except (OSError, RuntimeError):
        return False


def as_key(value: Any) -> str | None:
    """A JSON value as a key: whole numbers without a point; null, NaN, the empty text, lists and objects are none."""
    if value is None or isinstance(value, list | dict | bool):
        return None
    text = cells.json_cell(value)
    return storable(text) if text else None


class OrderFlips:
    """Counts the pairs whose verdict depends on which answer was shown first."""

    def __init__(self) -> None:
        self.n_pairs = self.n_flips = 0
        self.example = ""

    def add(self, place: object, item: str, outcomes: list[float | None]) -> None:
        """Outcomes of one pair in both orders, seen from the same model."""
        self.n_pairs += 1
        if outcomes[0] != outcomes[1]:
            self.n_flips += 1
            self.example = self.example or f"{item}, place {place}"

    def tell(self, rows: RowCollector) -> None:
        """Warn once a file."""
        if self.n_flips:
            pairs = counted(self.n_pairs, "pair")
            found = f"{self.n_flips} of {pairs} with another verdict in the other order ({self.example})"
            rows.warn("order_dependent", found, "the same verdict in both orders", "Both rows are kept.")
