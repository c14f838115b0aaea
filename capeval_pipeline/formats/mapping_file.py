"""What a mapping file says, checked key by key: where the fields of a record stand.

Paths with dots, constants, a value map, a filter, one join. How files are read by it stands in mapping.py.
"""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from capeval_pipeline.formats import long
from capeval_pipeline.formats.cells import json_cell
from capeval_pipeline.formats.refusals import FileRefused, one_line, refusal, shown
from capeval_pipeline.formats.rows import is_inside
from capeval_pipeline.formats.safe_yaml import read_yaml

FILE_NAMES = ("mapping.yml", "mapping.yaml")
KINDS = ("csv", "tsv", "jsonl", "json", "parquet")
SCORE_FIELDS = ("item_id", "model", "score", *long.OPTIONAL)
VOTE_FIELDS = ("item_id", "model_a", "model_b", "winner", "judge", "category", "judge_cost_usd", "prompt", "position")
CONTROL_KEYS = ("format", "files", "records", "each", "join", "where", "score_range", "higher_is_better")
KNOWN_KEYS = tuple(dict.fromkeys((*CONTROL_KEYS, *SCORE_FIELDS, *VOTE_FIELDS)))
JOIN, EACH = "join.", "each."
TEXTS = ("prompt", "item_text")


@dataclass(frozen=True)
class Source:
    """Where a field comes from: a path or a constant, then a value map."""

    path: str | None = None
    constant: str | None = None
    values: Mapping[str | None, str | None] | None = None


@dataclass(frozen=True)
class MappingFile:
    """A checked mapping file. `join_on` are the paths here and there; `where` gives the texts allowed at a path; `each`
    is the path of an object or a list, of which every member is a record of its own."""

    path: Path
    fields: Mapping[str, Source]
    kind: str | None = None
    files: tuple[str, ...] = ("*",)
    records: str | None = None
    each: str | None = None
    join_file: str | None = None
    join_on: tuple[str, str] = ("", "")
    where: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    rank_by: str | None = None
    score_range: tuple[float, float] | None = None
    higher_is_better: bool | None = None

    @property
    def paths(self) -> dict[str, str]:
        """Every path the mapping reads → the key of the mapping that names it."""
        named = {source.path: name for name, source in self.fields.items() if source.path is not None}
        named |= {path: "where" for path in self.where if path not in named}
        if self.rank_by is not None:
            named.setdefault(self.rank_by, "generation")
        if self.join_file is not None:
            named.setdefault(self.join_on[0], "join")
        return named

    @property
    def is_of_votes(self) -> bool:
        return "winner" in self.fields

    def governs(self, path: Path) -> bool:
        """Whether `files` names this file: by its name, or by its path from the mapping's folder if it has a slash."""
        try:
            inside = path.absolute().relative_to(self.path.absolute().parent)
        except ValueError:
            inside = Path(path.name)
        return any(_fits(PurePosixPath(inside.as_posix()), pattern) for pattern in self.files)

    def names(self, path: Path) -> bool:
        """Whether `files` names this file literally."""
        return any(pattern.rpartition("/")[2] == path.name for pattern in self.files)


def _fits(path: PurePosixPath, pattern: str) -> bool:
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.name, pattern)
    parts = PurePosixPath(pattern).parts
    return len(parts) == len(path.parts) and all(map(fnmatch.fnmatchcase, path.parts, parts))


def mapping_beside(path: Path) -> Path | None:
    """The mapping file in the folder of a data file; one that is a link out of that folder does not count."""
    return next((found for name in FILE_NAMES if is_inside(found := path.parent / name)), None)


def load_mapping(path: Path) -> MappingFile:
    """Read and check a mapping file. Raises FileRefused mapping_invalid with the key and the nearest known one."""
    try:
        status = path.stat()
        return _load(path, status.st_size, status.st_mtime_ns)
    except (ValueError, RecursionError, OSError) as error:  # a number of too many digits, a value that holds itself
        raise _invalid(path, f"cannot be followed ({type(error).__name__})", "keys and values") from error


@lru_cache(maxsize=64)
def _load(path: Path, _size: int, _mtime_ns: int) -> MappingFile:
    """A folder of thousands of files asks for its mapping as often."""
    content = read_yaml(path, "mapping_invalid")
    if not isinstance(content, dict):
        raise _invalid(path, f"holds {shown(content)}", "keys and values")
    for key in content:
        if key not in KNOWN_KEYS:
            near = get_close_matches(str(key), KNOWN_KEYS, 1, 0.5)
            advice = f"Did you mean {near[0]}?" if near else ""
            expected = "a known key" if near else f"one of {', '.join(KNOWN_KEYS)}"
            raise _invalid(path, "unknown key", expected, advice, key)
    given = {key: value for key, value in content.items() if value is not None}
    is_of_votes = "winner" in given or "model_a" in given
    needed = ("item_id", "model_a", "model_b", "winner") if is_of_votes else ("item_id", "score")
    # without an id an item is known by its text
    has_text = any(key in given for key in TEXTS)
    missing = [key for key in needed if key not in given and not (key == "item_id" and has_text)]
    if missing:
        expected = f"item_id (or prompt), {'model_a, model_b, winner' if is_of_votes else 'model, score'}"
        raise _invalid(path, f"does not map {', '.join(missing)}", expected)
    foreign = [key for key in given if key not in (*CONTROL_KEYS, *(VOTE_FIELDS if is_of_votes else SCORE_FIELDS))]
    if foreign:
        raise _invalid(path, "does not go together with winner", "fields of votes, or of scores", key=foreign[0])
    kind = given.get("format")
    if kind is not None and kind not in KINDS:
        raise _invalid(path, f"is {shown(kind)}", f"one of {', '.join(KINDS)}", key="format")
    fields = {
        name: _source(path, name, given[name])
        for name in dict.fromkeys((*SCORE_FIELDS, *VOTE_FIELDS))
        if name in given and not (name == "generation" and _is_rank(given[name]))
    }
    if kind not in (None, "json") and given.get("records") is not None:
        raise _invalid(path, f"is for one JSON document, and the format is {kind}", "no records", key="records")
    flag = given.get("higher_is_better")
    if flag is not None and not isinstance(flag, bool):
        raise _invalid(path, f"is {shown(flag)}", "true or false", key="higher_is_better")
    join_file, join_on = _join(path, given.get("join"))
    made = MappingFile(
        path=path,
        fields=fields,
        kind=kind,
        files=_texts(path, "files", given.get("files", "*")),
        records=None if given.get("records") is None else _path(path, "records", given["records"]),
        each=None if given.get("each") is None else _path(path, "each", given["each"]),
        join_file=join_file,
        join_on=join_on,
        where=_where(path, given.get("where")),
        rank_by=_path(path, "generation.rank_by", given["generation"]["rank_by"])
        if _is_rank(given.get("generation"))
        else None,
        score_range=_score_range(path, given.get("score_range")),
        higher_is_better=flag,
    )
    if join_file is None and (name := next((key for at, key in made.paths.items() if at.startswith(JOIN)), None)):
        raise _invalid(path, "a path begins with join., but nothing is joined", "join: {file, on}", key=name)
    if made.each is None and (name := next((key for at, key in made.paths.items() if at.startswith(EACH)), None)):
        raise _invalid(path, "a path begins with each., but there is no each", "each: path", key=name)
    return made


def _invalid(path: Path, found: str, expected: str, advice: str = "", key: object = None) -> FileRefused:
    where = "file" if key is None else f"key {one_line(str(key), 60)}"
    return refusal(path, "mapping_invalid", found, expected, advice, where=where)


def _is_rank(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"rank_by"}


def _path(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _invalid(path, f"is {shown(value)}", "the path of a field, such as a.b", key=key)
    return value.strip()


def _texts(path: Path, key: str, value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise _invalid(path, f"is {shown(value)}", "a text or a list of texts", key=key)
    return tuple(text.strip() for text in texts)


def _source(path: Path, key: str, value: Any) -> Source:
    if not isinstance(value, dict):
        return Source(path=_path(path, key, value))
    if set(value) == {"value"} and not isinstance(value["value"], dict | list):
        return Source(constant=cell(value["value"]))
    if "from" not in value or not set(value) <= {"from", "map"}:
        expected = "a path, {from: path, map: {…}} or {value: constant}"
        raise _invalid(path, f"is {shown(value)}", expected, key=key)
    values = value.get("map")
    if values is not None and (
        not isinstance(values, dict) or any(isinstance(side, dict | list) for side in values.values())
    ):
        raise _invalid(path, f"is {shown(values)}", "value: new value", key=f"{key}.map")
    read = None if values is None else {cell(old): cell(new) for old, new in values.items()}
    return Source(path=_path(path, key, value["from"]), values=read)


def _join(path: Path, value: Any) -> tuple[str | None, tuple[str, str]]:
    if value is None:
        return None, ("", "")
    if isinstance(value, dict):
        value = {"on" if key is True else key: inner for key, inner in value.items()}  # YAML 1.1 reads `on` as true
    if not isinstance(value, dict) or set(value) != {"file", "on"}:
        raise _invalid(path, f"is {shown(value)}", "{file: name, on: [path here, path there]}", key="join")
    name = _path(path, "join.file", value["file"])
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise _invalid(path, f"is {shown(name)}", "a file beside the data or below", key="join.file")
    both = _texts(path, "join.on", value["on"])
    if len(both) > 2:
        raise _invalid(path, f"is {shown(value['on'])}", "one path here and one there", key="join.on")
    return name, (both[0], both[-1])


def _where(path: Path, value: Any) -> dict[str, frozenset[str | None]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(path, f"is {shown(value)}", "path: value or list of values", key="where")
    allowed = {}
    for name, texts in value.items():
        listed = texts if isinstance(texts, list) else [texts]
        if not listed or any(isinstance(text, dict | list) for text in listed):
            raise _invalid(path, f"is {shown(texts)}", "a value or a list of values", key=f"where.{name}")
        allowed[_path(path, "where", name)] = frozenset(cell(text) for text in listed)
    return allowed


def _score_range(path: Path, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2
    is_numeric = is_pair and all(
        side is None or (isinstance(side, int | float) and not isinstance(side, bool) and abs(side) < 1e300)
        for side in value
    )
    low = float("-inf") if is_numeric and value[0] is None else float(value[0]) if is_numeric else 0.0
    high = float("inf") if is_numeric and value[1] is None else float(value[1]) if is_numeric else 0.0
    if not low < high:
        raise _invalid(path, f"is {shown(value)}", "[low, high] with low < high", key="score_range")
    return low, high


def cell(value: Any) -> str | None:
    """A value of JSON, YAML or Parquet as text; the empty text is none."""
    if value is None or isinstance(value, str | bool | int | float | list | dict):
        return json_cell(value) or None
    return str(value)
