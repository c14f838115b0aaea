"""The records of a data file as a mapping file sees them: values under paths, partners of a join, members of a list.

What a mapping may say is checked in mapping_file.py; which files it is for and what becomes of its fields stand in
mapping.py.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from capeval_pipeline.counting import counted
from capeval_pipeline.formats.cells import NUMBER, as_time
from capeval_pipeline.formats.json_text import read_json_document
from capeval_pipeline.formats.mapping_file import EACH, JOIN, MappingFile, Source, cell
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import CHUNK_RECORDS, Limits
from capeval_pipeline.formats.refusals import FileRefused, listed, message, refusal, shown
from capeval_pipeline.formats.rows import MEMBER, is_inside, is_json_lines, json_lines, json_members
from capeval_pipeline.formats.tabular import Batch, Fault, TableLayout, batches, table_layout

_ABSENT = object()


def join_path(path: Path, mapping: MappingFile) -> Path:
    """The file to join: beside the data, else beside the mapping. Raises FileRefused mapping_invalid."""
    assert mapping.join_file is not None
    for folder in (path.parent, mapping.path.parent):
        target = folder / mapping.join_file
        if is_inside(target, folder):
            return target
    found = f"names no file beside the data: {shown(mapping.join_file)}"
    raise refusal(path, "mapping_invalid", found, "a file to join", where="key join.file")


def value_at(record: Any, path: str) -> Any:
    """Value under a path with dots; a key that itself has dots is tried first. _ABSENT if no such key is there."""
    if record is None:
        return None
    if isinstance(record, list):
        head, _, tail = path.partition(".")
        if not head.isdecimal() or len(head) > 9 or int(head) >= len(record):
            return _ABSENT
        return value_at(record[int(head)], tail) if tail else record[int(head)]
    if not isinstance(record, dict):
        return _ABSENT
    if path in record:
        return record[path]
    position = path.rfind(".")
    while position > 0:
        if path[:position] in record:
            found = value_at(record[path[:position]], path[position + 1 :])
            if found is not _ABSENT:
                return found
        position = path.rfind(".", 0, position)
    return _ABSENT


def paths_in(record: Any, prefix: str = "", depth: int = 3) -> list[str]:
    """Paths of a record's values, for people to choose from."""
    if not isinstance(record, dict) or depth == 0 or not record:
        return [prefix.removesuffix(".")] if prefix else []
    return [path for key, value in record.items() for path in paths_in(value, f"{prefix}{key}.", depth - 1)]


class Records:
    """The records of a data file as batches of mapped fields."""

    def __init__(self, path: Path, mapping: MappingFile, limits: Limits) -> None:
        self.path, self.mapping, self.limits = path, mapping, limits
        self.layout = None if mapping.kind == "json" else table_layout(path)
        self.is_json = self.layout is None or (self.layout.kind == "jsonl" and not is_json_lines(path))
        kind = "json" if self.is_json else self.layout.kind if self.layout is not None else ""
        declared = {"tsv": "csv"}.get(mapping.kind or kind, mapping.kind or kind)
        if declared != kind:
            raise refusal(
                path, "mapping_invalid", f"is {kind}", f"{mapping.kind} as the mapping says", where="key format"
            )
        self.place_format = MEMBER if self.is_json or self.layout is None else self.layout.place_format
        self.own_paths = {at: key for at, key in mapping.paths.items() if not self._is_joined(at)}
        if mapping.each is not None:
            self.own_paths.setdefault(mapping.each, "each")
        self.unseen = dict(self.own_paths)
        self.known: list[str] = []
        self.partners = self._load_partners() if mapping.join_file is not None else {}
        self._check_columns()

    def _is_joined(self, path: str) -> bool:
        return self.mapping.join_file is not None and path.startswith(JOIN)

    def _check_columns(self) -> None:
        """CSV and Parquet say at once which columns they have; a column that is used must be there once."""
        if self.layout is None or self.is_json or self.layout.kind == "jsonl":
            return
        for path, key in self._stored_paths().items():
            top = _column_of(path, self.layout)
            if top is None:
                raise self._no_column(path, key, list(self.layout.columns))
            if self.layout.columns.count(top) > 1:
                found, where = f"column {shown(top)} is there twice", f"column {top}"
                raise refusal(self.path, "duplicate_column", found, "each column once", "Rename one.", where=where)

    def _no_column(self, path: str, key: str, known: Sequence[str], file: str = "") -> FileRefused:
        near = get_close_matches(path.removeprefix(JOIN), known, 1, 0.5)
        advice = f"Did you mean {near[0]}?" if near else ""
        names = listed(known, 110)
        of = f" of {file}" if file else ""
        return refusal(
            self.path, "mapping_invalid", f"no column {shown(path)} among those{of}: {names}",
            "a column that is there", advice, where=f"key {key}",
        )  # fmt: skip

    def _rows(self) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
        records = _rows_of(self.path, self.layout, self.is_json, self.mapping, list(self._stored_paths()), self.limits)
        yield from records if self.mapping.each is None else self._members(records, self.mapping.each)

    def _stored_paths(self) -> dict[str, str]:
        """Own paths of the file itself, not of the members that `each` makes records of."""
        is_split = self.mapping.each is not None
        return {at: key for at, key in self.own_paths.items() if not (is_split and at.startswith(EACH))}

    def _members(
        self, records: Iterator[tuple[int, dict[str, Any] | Fault]], each: str
    ) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
        """Every member of the object or list at `each` beside what surrounds it; places are those of the whole."""
        known: dict[str, None] = {}
        is_there = False
        for place, record in records:
            if isinstance(record, Fault):
                yield place, record
                continue
            found = value_at(record, each)
            is_there = is_there or found is not _ABSENT
            if not is_there:
                known.update(dict.fromkeys((*record, *paths_in(record))))
            members = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
            if not members:
                said = "is not there" if found is _ABSENT else f"is {shown(found)}"
                text = message(self.path.name, self.place_format.format(place), f"{each} {said}", "its members")
                yield place, Fault(place, "bad_row", text)
            for key, value in members:
                yield place, {**record, EACH[:-1]: {"key": key, "value": value}}
        if known and not is_there:
            raise self._no_column(each, "each", list(known))

    def _load_partners(self) -> dict[str, dict[str, Any]]:
        """Values at the paths that are joined, by the key there. Raises FileRefused mapping_invalid."""
        file = join_path(self.path, self.mapping)
        wanted = {path.removeprefix(JOIN): key for path, key in self.mapping.paths.items() if self._is_joined(path)}
        on = self.mapping.join_on[1]
        unseen = {**wanted, on: "join.on"}
        layout = table_layout(file)
        is_json = layout is None or (layout.kind == "jsonl" and not is_json_lines(file))
        if layout is not None and layout.kind != "jsonl":
            for path, key in unseen.items():
                if _column_of(path, layout) is None:
                    raise self._no_column(path, key, list(layout.columns), file.name)
        partners: dict[str, dict[str, Any]] = {}
        known: dict[str, None] = {}
        for _, record in _rows_of(file, layout, is_json, None, list(unseen), self.limits):
            if isinstance(record, Fault):  # its partners will be told to be missing
                continue
            if unseen:
                known.update(dict.fromkeys(paths_in(record)))
                unseen = {path: key for path, key in unseen.items() if value_at(record, path) is _ABSENT}
            name = cell(None if (found := value_at(record, on)) is _ABSENT else found)
            if name is None:
                continue
            values = {path: None if (at := value_at(record, path)) is _ABSENT else at for path in wanted}
            if partners.setdefault(name, values) != values:
                found = f"{file.name} has {shown(name)} twice with other values"
                raise refusal(self.path, "mapping_invalid", found, "one record a key", where="key join.on")
        for path, key in unseen.items():
            raise self._no_column(path, key, list(known), file.name)
        return partners

    def _row(self, place: int, record: dict[str, Any]) -> dict[str, str | None] | Fault | None:
        """Fields of a record; None if `where` leaves it out, a Fault if it has no partner."""
        mapping = self.mapping
        if self.unseen:
            self.known = list(dict.fromkeys([*self.known, *paths_in(record)]))
            self.unseen = {path: key for path, key in self.unseen.items() if value_at(record, path) is _ABSENT}
        for path, allowed in mapping.where.items():
            if not self._is_joined(path) and not _is_allowed(value_at(record, path), allowed):
                return None
        partner: dict[str, Any] = {}
        if mapping.join_file is not None:
            at = value_at(record, mapping.join_on[0])
            name = cell(None if at is _ABSENT else at)
            if name is None or name not in self.partners:
                where = self.place_format.format(place)
                text = message(
                    self.path.name, where, f"{mapping.join_on[0]} is {shown(name)}", f"a record of {mapping.join_file}"
                )
                return Fault(place, "join_missing", text)
            partner = self.partners[name]
        for path, allowed in mapping.where.items():
            if self._is_joined(path) and not _is_allowed(partner[path.removeprefix(JOIN)], allowed):
                return None

        def value(path: str) -> str | None:
            if self._is_joined(path):
                return cell(partner[path.removeprefix(JOIN)])
            found = value_at(record, path)
            return None if found is _ABSENT else cell(found)

        row = {name: _mapped(name, source, value) for name, source in mapping.fields.items()}
        if mapping.rank_by is not None:
            row["generation"] = value(mapping.rank_by)
        return row

    def _ranks(self) -> dict[int, int]:
        """Number of a record → generation: rank of `rank_by` among the records of one item and model, numbers before
        times before texts. Equal values are one generation: a repeated line is a repetition and no new answer."""
        groups: dict[tuple[str | None, str | None], list[tuple[str, int]]] = {}
        for number, (place, record) in enumerate(self._rows()):
            row = None if isinstance(record, Fault) else self._row(place, record)
            if isinstance(row, dict) and row["generation"] is not None:
                item = row.get("item_id") or row.get("item_text") or row.get("prompt")
                groups.setdefault((item, row.get("model")), []).append((row["generation"], number))
        texts = {text for members in groups.values() for text, _ in members}
        keys: dict[str, Any] = {text: text for text in texts}
        if all(NUMBER.fullmatch(text) for text in texts):
            keys = {text: float(text) for text in texts}
        elif all(as_time(text) is not None for text in texts):
            keys = {text: as_time(text) for text in texts}
        ranks: dict[int, int] = {}
        for members in groups.values():
            order = {value: rank for rank, value in enumerate(sorted({keys[text] for text, _ in members}))}
            ranks |= {number: order[keys[text]] for text, number in members}
        return ranks

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Mapped fields, batch by batch. Raises FileRefused mapping_invalid at the end for a path nothing had."""
        ranks = self._ranks() if self.mapping.rank_by is not None else {}
        rows: list[dict[str, str | None]] = []
        places: list[int] = []
        faults: list[Fault] = []
        n_good = n_bad = n_left_out = 0
        is_json = self.is_json or self.layout is None or self.layout.kind == "jsonl"
        for number, (place, record) in enumerate(self._rows()):
            if isinstance(record, Fault):
                faults.append(record)
                n_bad += 1
                if is_json and n_bad >= self.limits.n_bad_rows and n_bad > n_good:
                    found = f"{n_bad} of {counted(n_good + n_bad, 'row')} broken"
                    expected = f"fewer than {self.limits.n_bad_rows} (setting `limits.n_bad_rows`) or under half"
                    fault = refusal(self.path, "too_many_bad_rows", found, expected)
                    fault.n_read = n_good + n_bad
                    raise fault
                continue
            n_good += 1
            row = self._row(place, record)
            if row is None:
                n_left_out += 1
            elif isinstance(row, Fault):
                faults.append(row)
            elif self.mapping.rank_by is not None and row["generation"] is None:
                where = self.place_format.format(place)
                text = message(self.path.name, where, f"{self.mapping.rank_by} is empty", "a value to rank by")
                faults.append(Fault(place, "generation_bad", text))
            else:
                if self.mapping.rank_by is not None:
                    row["generation"] = str(ranks[number])
                rows.append(row)
                places.append(place)
            if len(places) + len(faults) >= CHUNK_RECORDS:
                yield _batch(names, rows, places, faults)
                rows, places, faults = [], [], []
        if n_good and self.unseen:
            path, key = next(iter(self.unseen.items()))
            raise self._no_column(path, key, self.known)
        if n_good and n_left_out == n_good:
            found = f"leaves out everything: {counted(n_good, 'record')}"
            raise refusal(self.path, "mapping_invalid", found, "a record that it keeps", where="key where")
        yield _batch(names, rows, places, faults)


def _batch(names: Sequence[str], rows: list[dict[str, str | None]], places: list[int], faults: list[Fault]) -> Batch:
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    return Batch(columns, pa.array(places, pa.int64()), tuple(faults))


def _is_allowed(value: Any, allowed: frozenset[str | None]) -> bool:
    text = None if value is _ABSENT else cell(value)
    return text in allowed or (text is not None and text.lower() in ("true", "false") and text.lower() in allowed)


def _mapped(name: str, source: Source, value: Any) -> str | None:
    """Text of a field."""
    if source.path is None:
        return source.constant
    text: str | None = value(source.path)
    if source.values is None:
        return text
    if text in source.values:
        return source.values[text]
    if text is not None and text.lower() in ("true", "false") and text.lower() in source.values:
        return source.values[text.lower()]
    # a grade 0 that a map of 1 and 2 does not list would else be read as the score 0; other fields are checked anyway
    return f"{text} (not in the map)" if name == "score" and text is not None else text


def _column_of(path: str, layout: TableLayout) -> str | None:
    """The column in which a path begins; in CSV it is the whole path."""
    if path in layout.columns:
        return path
    if layout.kind != "parquet":
        return None
    parts = path.split(".")
    heads = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((head for head in heads if head in layout.columns), None)


def _rows_of(
    path: Path, layout: TableLayout | None, is_json: bool, mapping: MappingFile | None, paths: list[str], limits: Limits
) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    """Place and record of everything in a file, whichever way it is written."""
    is_document = is_json or layout is None
    is_split = mapping is not None and mapping.each is not None and mapping.records is None
    if is_document and is_split and head_of(path).text.lstrip()[:1] == "{":
        yield 0, read_json_document(path, limits)  # one object whose members are the records
        return
    if is_json or layout is None:
        yield from json_members(path, limits, None if mapping is None else mapping.records)
    elif layout.kind == "jsonl":
        yield from json_lines(path, limits)
    else:
        wanted = list(dict.fromkeys(top for at in paths if (top := _column_of(at, layout)) is not None))
        for batch in batches(path, layout, wanted, limits):
            yield from ((fault.place, fault) for fault in batch.faults)
            columns = [column.to_pylist() for column in batch.columns.values()]
            for place, values in zip(batch.places.to_pylist(), zip(*columns, strict=True), strict=True):
                yield place, dict(zip(batch.columns, values, strict=True))
