"""Which format a unit has: the most confident reader, or a refusal that says what was seen and what comes nearest."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

from capeval_pipeline.counting import counted
from capeval_pipeline.formats import READERS, lm_eval, wide
from capeval_pipeline.formats.archive import is_zip, member_names
from capeval_pipeline.formats.json_text import JsonFault, is_cut_json, parse_json
from capeval_pipeline.formats.mapping_file import load_mapping, mapping_beside
from capeval_pipeline.formats.mapping_skeleton import skeleton
from capeval_pipeline.formats.opening import Head, head_of
from capeval_pipeline.formats.refusals import FileRefused, listed, message, one_line, refusal, shown
from capeval_pipeline.formats.tabular import (
    PARQUET_MAGIC,
    TABLE_SUFFIXES,
    TableLayout,
    csv_layout,
    file_suffix,
    table_layout,
)
from capeval_pipeline.ingestion.discovery import PICKLE_START, pickle_refused

UNDECIDED = 0.1
AGGREGATE_BELOW = 0.4
MODEL_COLUMNS = frozenset({"model", "models", "model_name", "model_id", "name", "system", "llm"})
TOTAL_COLUMNS = frozenset(
    {"score", "accuracy", "acc", "rating", "elo", "win_rate", "mean", "average", "overall", "total"}
)
ITEM_COLUMNS = wide.ID_NAMES | set(wide.PROMPT_NAMES)
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
TEXT_SUFFIXES = (*(suffix for suffix in TABLE_SUFFIXES if suffix != ".parquet"), ".json")
DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb")
DATABASE_STARTS = ((0, b"SQLite format 3\0"), (8, b"DUCK"))
"""Where in a database its mark stands, and the mark."""
PACKED_STARTS = {
    b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!\x1a": "RAR",
}  # fmt: skip
"""First bytes of what is packed in a way that is not read."""
TAR_MARK = (257, b"ustar")
_HTML = re.compile(r"<(!doctype html|html)\b", re.IGNORECASE)
_TOTALS_IN_HTML = re.compile(r"<h1>\s*metrics\s*</h1>", re.IGNORECASE)
"""Heading of the totals in the report that simple-evals writes."""
ARCHIVES = (".zip", ".eval", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".xz", ".7z")
N_NEAREST = 3
CLOSING = {"{": "}", "[": "]"}
SHOWN_END = 16


def detect(path: Path, wanted: str | None = None, mapping_file: Path | None = None) -> str:
    """Name of the reader for a file or folder; `wanted` (from --format) skips the detection, `mapping_file` is one
    that a person named and that may be for other files.

    Raises FileRefused: unknown_format, ambiguous_format, aggregate_only.
    """
    if wanted is not None:
        if path.is_dir() and wanted != "canonical":
            advice = "Give the files in it, or leave --format out."
            raise refusal(path, "unknown_format", "is a folder of the canonical format", f"a {wanted} file", advice)
        return wanted
    confidences = {name: reader.matches(path) for name, reader in READERS.items()}
    ranked = sorted(confidences, key=lambda name: -confidences[name])
    best = ranked[0]
    if confidences[best] < AGGREGATE_BELOW and not path.is_dir() and (fault := _totals(path)) is not None:
        raise fault
    if confidences[best] == 0:
        raise unknown_format(path, mapping_file)
    rivals = [
        name for name in ranked[1:] if confidences[name] >= confidences[best] - UNDECIDED and confidences[name] > 0
    ]
    is_table_pair = {best, *rivals} <= {
        "long",
        "wide",
    }  # asked in this order: a long table is never meant as a wide one
    if rivals and not is_table_pair:
        names = ", ".join([best, *rivals])
        raise refusal(
            path, "ambiguous_format", f"reads as {names}", "one format", f"Say --format {best} or --format {rivals[0]}."
        )
    return best


def _totals(path: Path) -> FileRefused | None:
    """Refusal of totals without items: a board with one row a model, or the results file of a run."""
    advice = "Export the samples."
    if lm_eval.is_results_file(path):
        return refusal(path, "aggregate_only", "totals of a run without its samples", "one record an item", advice)
    text = head_of(path).text
    if _HTML.match(text.lstrip()) and _TOTALS_IN_HTML.search(text):
        return refusal(path, "aggregate_only", "an HTML report of totals", "one record an item", advice)
    layout = table_layout(path)
    if layout is None:
        return None
    names = {name.strip().lower().replace(" ", "_") for name in layout.columns}
    if names & MODEL_COLUMNS and names & TOTAL_COLUMNS and not names & ITEM_COLUMNS:
        found = f"one row a model ({listed(layout.columns, 80)})"
        return refusal(path, "aggregate_only", found, "one record an item", advice)
    return None


def unknown_format(path: Path, mapping_file: Path | None = None) -> FileRefused:
    """Refusal that shows the first keys, columns or bytes of a file and names the three nearest formats, or what else
    keeps it from being read."""
    if path.is_dir():
        found, advice = "is a folder whose files are no whole of a known format", "Give the files in it one by one."
        return refusal(path, "unknown_format", found, "items, results and pairs, or a HELM run", advice)
    suffix = path.suffix.lower()
    head = head_of(path)
    if (fault := _damaged_text(path, head)) is not None:
        return fault
    layout = table_layout(path)
    if layout is not None and layout.kind == "parquet" and not layout.columns:
        advice = "Copy or export it again."
        return refusal(path, "truncated", "begins as Parquet and ends without its footer", "a whole file", advice)
    if suffix in SPREADSHEETS:
        return refusal(path, "unknown_format", "is a spreadsheet", "text or Parquet", "Export the sheet as CSV.")
    if suffix in DATABASES or any(head.start[at:].startswith(mark) for at, mark in DATABASE_STARTS):
        return refusal(
            path, "unknown_format", "is a database", "text or Parquet", "Export the table as CSV or Parquet."
        )
    if (fault := _packed(path, head)) is not None:
        return fault
    if _HTML.match(head.text.lstrip()):
        return refusal(path, "unknown_format", "is HTML", "text or Parquet", "Export the results, not a page of them.")
    if is_zip(head.start):
        return _unknown_archive(path)
    if (end := _unfinished_end(path, head)) is not None:
        found = f"is JSON that ends in {shown(end)}, inside an unfinished value"
        return refusal(path, "truncated", found, "a whole file", "Copy it again.")
    seen, keys = _seen(path)
    nearest = nearest_formats(keys)
    found = one_line(f"holds {seen}", 80)
    advice = f"Nearest: {', '.join(nearest)}; {_next_step(path, head, mapping_file)}"
    text = message(path.name, "file", found, "a known format", advice)
    return FileRefused("unknown_format", "file", text)


def _packed(path: Path, head: Head) -> FileRefused | None:
    """Refusal of what is packed in a way that is not read."""
    tool = next((tool for mark, tool in PACKED_STARTS.items() if head.start.startswith(mark)), None)
    if tool is not None:
        return refusal(path, "codec_missing", f"is packed with {tool}", "gzip, zstd or nothing", "Unpack it.")
    at, mark = TAR_MARK
    if head.start[at:].startswith(mark):
        return refusal(path, "unknown_format", "is a tar archive", "results", "Unpack it and give the folder.")
    return None


def _next_step(path: Path, head: Head, mapping_file: Path | None) -> str:
    """What makes a file readable: the pattern of a mapping that is for other files, another name, or a mapping."""
    mapping = mapping_file or mapping_beside(path)
    if mapping is not None:
        with suppress(FileRefused):
            return f"{mapping.name} is for {shown(', '.join(load_mapping(mapping).files))}"
    if table_layout(path) is None and _table_by_another_name(head) is not None:
        return "a table in text is called .csv, .tsv or .txt"
    return f"or mapping.yml: {skeleton(path)}"


def _table_by_another_name(head: Head) -> TableLayout | None:
    """Layout of a table in text whose name does not say that it is one."""
    text = head.text.lstrip()
    layout = csv_layout(text) if head.is_text and text[:1] not in ("{", "[", "<") else None
    is_table = layout is not None and len(layout.columns) > 1 and any(len(row) > 1 for row in layout.sample)
    return layout if is_table else None


def _unknown_archive(path: Path) -> FileRefused:
    """Refusal of a zip archive of no format; archives in it are not opened."""
    names = member_names(path)
    nested = next((name for name in names if name.lower().endswith(ARCHIVES)), None)
    if nested is not None:
        found = f"holds an archive ({shown(nested)})"
        expected = "results; an archive in an archive is not opened"
        return refusal(path, "archive_limit", found, expected, "Unpack it and give the folder.")
    found = f"holds a zip archive of {counted(len(names), 'file')}" + (
        f", the first {shown(names[0])}" if names else ""
    )
    return refusal(path, "unknown_format", found, "an Inspect log (.eval)", "Unpack it and give the folder.")


def _damaged_text(path: Path, head: Head) -> FileRefused | None:
    """Refusal of text that only its encoding or its line ends keep from being read."""
    if not path.is_file():
        return None
    if head.is_whole and not head.text.strip():
        return refusal(path, "empty_file", "holds nothing but blanks", "results", "Copy or export it again.")
    if PICKLE_START.match(head.start):
        return pickle_refused(path)
    if b"\0" in head.start and file_suffix(path) in TEXT_SUFFIXES and not head.start.startswith(PARQUET_MAGIC):
        place = head.start.index(b"\0")
        expected = "UTF-8, or UTF-16 with its byte-order mark"
        return refusal(path, "bad_encoding", f"byte 0x00 at byte {place}", expected, "Save as UTF-8.")
    if head.is_text and (fault := _too_deep(path, head)) is not None:
        return fault
    if head.is_text and "\n" not in head.text and "\r" in head.text.strip():
        return refusal(
            path, "unknown_format", "lines end in \\r alone", "\\n or \\r\\n", "Save it with those line ends."
        )
    return None


def _too_deep(path: Path, head: Head) -> FileRefused | None:
    """Refusal of JSON that is nested more deeply than anything is read."""
    if head.text.lstrip()[:1] not in CLOSING:
        return None
    try:
        parse_json(head.text)
    except JsonFault as fault:
        if fault.reason == "nesting_too_deep":
            return refusal(path, fault.reason, str(fault), "at most the setting `limits.json_depth`")
    return None


def _unfinished_end(path: Path, head: Head) -> str | None:
    """Last characters of a file that begins as one JSON document and does not end as one; None for any other."""
    closing = CLOSING.get(head.text.lstrip()[:1])
    if closing is None or table_layout(path) is not None or not is_cut_json(head.text):
        return None
    if head.is_whole:
        return head.text.rstrip()[-SHOWN_END:]
    with path.open("rb") as file:
        if file.read(len(head.start)) != head.start:  # compressed: its end is not at hand
            return None
        file.seek(-SHOWN_END, os.SEEK_END)
        end = file.read().decode(errors="replace").rstrip()
    return None if end.endswith(closing) else end


def nearest_formats(keys: set[str]) -> list[str]:
    """The three formats whose keys are most like these, nearest first."""
    folded = {key.strip().lower() for key in keys}

    def likeness(name: str) -> float:
        known = READERS[name].KEYS
        return len(folded & known) / max(len(folded | known), 1)

    return sorted(READERS, key=lambda name: (-likeness(name), list(READERS).index(name)))[:N_NEAREST]


def _seen(path: Path) -> tuple[str, set[str]]:
    """What is in a file, in words, and the keys or columns in it."""
    head = head_of(path)
    layout = table_layout(path) or _table_by_another_name(head)
    if layout is not None and layout.columns:
        word = "keys" if layout.kind == "jsonl" else "columns"
        return f"{word} {listed(layout.columns, 100)}", set(layout.columns)
    text = head.text.lstrip()
    if head.is_text and text[:1] in ("{", "["):
        keys = _json_keys(text)
        return f"JSON with keys {listed(keys, 100)}" if keys else "JSON without keys", set(keys)
    if head.is_text:
        return f"text that begins {shown(text[:60])}", set()
    return f"bytes that begin {head.start[:12].hex(' ')}", set()


def _json_keys(text: str) -> list[str]:
    """Keys at the beginning of a JSON document, whole or cut."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        decoder = json.JSONDecoder()
        keys: list[str] = []
        position = 0
        while len(keys) < 20 and (position := text.find('"', position)) >= 0:
            try:
                name, end = decoder.raw_decode(text, position)
            except (ValueError, RecursionError):
                break
            if isinstance(name, str) and text[end : end + 10].lstrip().startswith(":"):
                keys.append(name)
            position = end
        return list(dict.fromkeys(keys))
    record = value[0] if isinstance(value, list) and value else value
    return list(record) if isinstance(record, dict) else []
