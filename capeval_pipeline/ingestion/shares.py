"""Names of benchmarks, and the records of a file dealt out to the benchmarks that its rows name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from capeval_pipeline.formats.protocol import Chunk, Note, rejection_rows
from capeval_pipeline.formats.refusals import message, shown

BENCHMARK_CHARACTERS = 200
"""Longest id of a benchmark, version and all."""
USABLE_NAME = f"printable text up to {BENCHMARK_CHARACTERS} characters, no outer blanks, no `...`"


def benchmark_id_of(name: str, version: str | None) -> str:
    """`name@version`, or the name where no version is known."""
    return f"{name}@{version}" if version else name


def is_usable_name(benchmark_id: str) -> bool:
    """Whether a benchmark may be called so: printable text, no outer blanks, of at most BENCHMARK_CHARACTERS.

    Three points in a row separate the ends of a range where partitions are asked for.
    """
    is_clean = benchmark_id.isprintable() and benchmark_id == benchmark_id.strip() and "..." not in benchmark_id
    return is_clean and 0 < len(benchmark_id) <= BENCHMARK_CHARACTERS


def shares(file: str, chunk: Chunk, name: str, version: str | None, *, is_fixed: bool) -> Iterator[tuple[str, Chunk]]:
    """The chunk cut by the benchmark its rows name; rows that name none belong to the file's own benchmark.

    is_fixed : the benchmark was asked for or declared, so what rows say does not count. A row whose benchmark could not
    be called so is refused, and its refusal stands in the file's own benchmark.
    """
    tables = {field: getattr(chunk, field) for field in ("items", "generations", "judgments", "metric_values")}
    own = benchmark_id_of(name, version)
    named = [
        table for table in tables.values()
        if table.num_rows and table.column("benchmark").null_count + table.column("benchmark_version").null_count
        < 2 * table.num_rows
    ]  # fmt: skip
    if is_fixed or not named:
        yield own, chunk
        return
    ids: dict[str, pa.Array] = {}
    for field_, table in tables.items():
        names = pc.fill_null(_trimmed(table.column("benchmark")), name)
        versions = _trimmed(table.column("benchmark_version"))
        if version is not None:
            versions = pc.fill_null(versions, version)
        joined = pc.binary_join_element_wise(names, versions.fill_null(""), "@")
        ids[field_] = pc.if_else(versions.is_valid(), joined, names)
    chunk, tables, ids = _without_unusable(file, chunk, tables, ids, own)
    everything = sorted({value for column in ids.values() for value in pc.unique(column).to_pylist()} | {own})
    for benchmark_id in everything:
        cut = {field_: table.filter(pc.equal(ids[field_], benchmark_id)) for field_, table in tables.items()}
        mine = pc.is_in(chunk.rejections.column("record"), value_set=_records_of(cut))
        if benchmark_id == own:
            mine = pc.or_(mine, pc.invert(pc.is_in(chunk.rejections.column("record"), value_set=_records_of(tables))))
        rejections = chunk.rejections.filter(mine)
        if rejections.num_rows or any(table.num_rows for table in cut.values()):
            yield benchmark_id, replace(chunk, **cut, rejections=rejections)


def _without_unusable(
    file: str, chunk: Chunk, tables: dict[str, pa.Table], ids: dict[str, pa.Array], own: str
) -> tuple[Chunk, dict[str, pa.Table], dict[str, pa.Array]]:
    """Chunk, tables and ids without the rows of benchmarks that cannot be called so; each of their records is refused
    once, unless it was refused before."""
    named = sorted({value for column in ids.values() for value in pc.unique(column).to_pylist()} - {own})
    unusable = pa.array([value for value in named if not is_usable_name(value)], pa.string())
    if not len(unusable):
        return chunk, tables, ids
    told = set(chunk.rejections.column("record").to_pylist())
    notes: list[Note] = []
    kept, kept_ids = {}, {}
    for field_, table in tables.items():
        is_bad = pc.is_in(ids[field_], value_set=unusable)
        if field_ != "items":
            bad = table.filter(is_bad).select(["record", "place"]).to_pylist()
            for row, benchmark_id in zip(bad, ids[field_].filter(is_bad).to_pylist(), strict=True):
                if row["record"] not in told:
                    told.add(row["record"])
                    where = chunk.place_format.format(row["place"])
                    text = message(file, where, f"benchmark is {shown(benchmark_id)}", USABLE_NAME)
                    notes.append((row["record"], "rejected", where, "bad_row", text))
        kept[field_] = table.filter(pc.invert(is_bad))
        kept_ids[field_] = ids[field_].filter(pc.invert(is_bad))
    rejections = pa.concat_tables([chunk.rejections, rejection_rows(notes).cast(chunk.rejections.schema)])
    return replace(chunk, rejections=rejections), kept, kept_ids


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names without outer blanks; nothing but blanks is no name."""
    texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _records_of(tables: Mapping[str, pa.Table]) -> pa.Array:
    """Records that have rows."""
    names = ("generations", "judgments", "metric_values")
    return pa.concat_arrays([pc.unique(tables[name].column("record")) for name in names])
