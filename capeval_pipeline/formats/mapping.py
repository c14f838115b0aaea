"""`mapping`: any table or JSON records that a mapping file explains: mapping.yml beside them, or --mapping.

A mapping says under which path each field of a long table stands: paths, constants, a value map, a filter, one join,
and one list or object whose members are the records.
It holds no expressions and no code; its keys are checked in mapping_file.py. What comes out is read by the rules of
long tables, or of votes.
"""

from dataclasses import replace
from pathlib import Path

from capeval_pipeline.formats import long, votes
from capeval_pipeline.formats.mapped_records import Records, join_path
from capeval_pipeline.formats.mapping_file import load_mapping, mapping_beside
from capeval_pipeline.formats.protocol import FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import MESSAGE_CHARACTERS, FileRefused, one_line, refusal
from capeval_pipeline.formats.tabular import TableLayout

KEYS: frozenset[str] = frozenset()
"""No file is like a mapping by its keys; any may be read by one."""


def matches(path: Path) -> float:
    """1 if a mapping file beside it names this file, 0.65 if it governs it by a pattern or is broken, else 0.

    So a broad pattern never takes a file whose own format is known, and a name does.
    """
    beside = None if path.is_dir() else mapping_beside(path)
    if beside is None:
        return 0.0
    try:
        mapping = load_mapping(beside)
    except FileRefused:
        return 0.65
    if not mapping.governs(path):
        return 0.0
    return 1.0 if mapping.names(path) else 0.65


def companions(path: Path, given: Path | None = None) -> tuple[Path, ...]:
    """The mapping file that governs a data file, and the file it joins. `given` was named by a person."""
    file = given or mapping_beside(path)
    if file is None or path.is_dir():
        return ()
    try:
        mapping = load_mapping(file)
        if not mapping.governs(path):
            return ()
        return (file, *((join_path(path, mapping),) if mapping.join_file is not None else ()))
    except FileRefused:
        return (file,)


def is_joined(path: Path, given: Path | None = None) -> bool:
    """Whether a mapping (`given`, else the one beside) joins this file to others: it is then not read by itself."""
    beside = given or mapping_beside(path)
    if beside is None:
        return False
    try:
        mapping = load_mapping(beside)
    except FileRefused:
        return False
    return mapping.join_file is not None and (path.parent / mapping.join_file).absolute() == path.absolute()


class _MappedLayout(TableLayout):
    """Layout of the fields a mapping makes; places are those of the file they come from."""

    place = "line {}"

    @property
    def place_format(self) -> str:
        return self.place


def read(path: Path, options: ReadOptions) -> Reading:
    """Read a file by its mapping. Raises FileRefused: mapping_invalid, duplicate_column, truncated …"""
    file = options.mapping or mapping_beside(path)
    if file is None:
        raise refusal(path, "mapping_invalid", "no mapping.yml beside it", "a mapping", "Write one, or give --mapping.")
    try:
        mapping = load_mapping(file)
    except FileRefused as fault:
        # the message says all of it already: the mapping, the key, what was found and what is expected
        text = one_line(f"{path.name}: {fault}", MESSAGE_CHARACTERS)
        raise FileRefused("mapping_invalid", fault.location, text) from fault
    if "model" not in mapping.fields and not mapping.is_of_votes and not options.model:
        raise refusal(path, "mapping_invalid", f"{file.name} maps no model", "model", "Map it, or give --model.")
    source = Records(path, mapping, options.limits)
    names = tuple(mapping.fields) + (("generation",) if mapping.rank_by is not None else ())
    layout = _MappedLayout("jsonl", names)
    object.__setattr__(layout, "place", source.place_format)
    stream = source.batches(names)
    options = replace(options, score_range=options.score_range or mapping.score_range)
    if mapping.is_of_votes:
        rows = votes.Votes(path, options, source.place_format, votes.WORDS | votes.SHORT_WORDS, has_names=True)
        facts = FileFacts(format="mapping")
        return Reading(facts, rows.chunks(stream))
    present = {name: name for name in names}
    made = long.read_batches(path, layout, options, present, stream, format_name="mapping")
    facts = replace(made.facts, score_range=mapping.score_range, higher_is_better=mapping.higher_is_better)
    return Reading(facts, made.chunks)
