"""Puts pages on disk: a reader of the folder sees the old page or the new one, never half of one."""

import hashlib
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.index import page_name, render_index
from capeval_pipeline.reporting.page import GENERATOR, render_page, render_studies
from capeval_pipeline.reporting.queries import ask

if TYPE_CHECKING:
    import duckdb

INDEX = "index.html"
STUDIES_PAGE = "synthetic-worlds.html"


def report_code() -> str:
    """Hash of the code that makes pages: a change in it makes all of them stale."""
    folder = Path(__file__).resolve().parent
    sources = sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".css", ".js"})
    digest = hashlib.sha256(version("plotly").encode())
    for path in sources:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def write_text(path: Path, text: str) -> None:
    """Write a whole file and put it in place at once; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name[:200]}-{os.getpid()}.writing")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_pages(
    connection: "duckdb.DuckDBPyConnection",
    folder: Path,
    benchmark_ids: Iterable[str],
    progress: Progress = nothing_said,
) -> list[Path]:
    """Write reports of some benchmarks, the studies and the index; pages of benchmarks that are gone are removed."""
    written, chosen = [], list(benchmark_ids)
    for place, benchmark_id in enumerate(chosen):
        progress(f"report of {benchmark_id}", place, len(chosen))
        path = folder / page_name(benchmark_id)
        write_text(path, render_page(connection, benchmark_id))
        written.append(path)
    studies = render_studies(connection)
    if studies:
        write_text(folder / STUDIES_PAGE, studies)
        written.append(folder / STUDIES_PAGE)
    write_text(folder / INDEX, render_index(connection, STUDIES_PAGE if studies else ""))
    known = {page_name(row["benchmark_id"]) for row in ask(connection, queries.BENCHMARKS).rows}
    for path in folder.glob("*.html"):
        if path.name not in {*known, INDEX, *([STUDIES_PAGE] if studies else [])} and _is_ours(path):
            path.unlink()
    return [*written, folder / INDEX]


def _is_ours(path: Path) -> bool:
    """Whether capeval wrote the page; another file in the folder is left alone."""
    with path.open(encoding="utf-8", errors="replace") as handle:
        return f'content="{GENERATOR}"' in handle.read(2000)
