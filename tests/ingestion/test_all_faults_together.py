"""Faulty files of the command's tests together: read again, in another order, or after what they contradict."""

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.ingestion.reading import Request
from tests.cli.test_ingest_codes import CASES, folder_of
from tests.formats.reading import write
from tests.ingestion.test_between_files import HEADER, snapshot
from tests.ingestion.test_hostile import check_grains
from tests.ingestion.workspaces import MemoryWorkspace


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("faults") / "cases"
    for case, (files, _, _) in CASES.items():
        folder = root / folder_of(case)
        folder.mkdir(parents=True)
        if callable(files):
            files(folder)
        else:
            for name, content in files.items():
                write(folder / name, content)
    return sorted(root.iterdir())[::3]


def folders_of(files: pa.Table) -> set[str]:
    return {Path(path).parent.as_posix() for path in files.column("path").to_pylist()}


@pytest.mark.slow
def test_faulty_files_are_the_same_a_second_time_and_in_another_order(folders, tmp_path):
    forward, backward = MemoryWorkspace(tmp_path / "forward"), MemoryWorkspace(tmp_path / "backward")
    first = forward.ingest(folders)
    assert len(forward.raw) > 15
    told = snapshot(forward)
    again = forward.ingest(folders)
    assert {report.status for report in again.reports} <= {"unchanged", "companion", "refused"}
    assert not again.changes and snapshot(forward) == told
    for folder in reversed(folders):
        backward.ingest([folder])
    # of two files with the same bytes that speak of one benchmark the ledger names the one that came first
    shared = [name for name, tables in forward.raw.items() if len(folders_of(tables["raw.files"])) > 1]
    assert len(shared) <= 1
    assert {key: rows for key, rows in snapshot(backward).items() if key.split()[0] not in shared} == {
        key: rows for key, rows in told.items() if key.split()[0] not in shared
    }
    check_grains(forward)
    assert sum(report.n_read for report in first.reports) == sum(report.n_read for report in again.reports) > 20


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("policy", ["reject", "newest", "generations"])
def test_a_contradiction_ends_the_same_whichever_file_came_first(tmp_path, order, policy):
    told = []
    for number, sequence in enumerate([order, order[::-1]]):
        workspace = MemoryWorkspace(tmp_path / str(number))
        folder = workspace.data / "inbox" / "b"
        write(folder / "benchmark.yml", f"on_conflict: {policy}\n")
        paths = [write(folder / f"{name}.csv", HEADER + f"q1,elm,{name}\nq2,elm,1\n") for name in (0, 1)]
        for path, day in zip(paths, (1, 2), strict=True):
            os.utime(path, (86400 * day, 86400 * day))
        for place in sequence:
            workspace.ingest([paths[place]])
        told.append(snapshot(workspace))
    assert told[0] == told[1]


TWINS = {
    "with a byte-order mark": lambda text: b"\xef\xbb\xbf" + text,
    "in UTF-16": lambda text: text.decode().encode("utf-16"),
    "with other line ends": lambda text: text.replace(b"\n", b"\r\n"),
    "compressed": gzip.compress,
    "in another order": lambda text: b"".join([HEADER.encode(), *reversed(text.splitlines(keepends=True)[1:])]),
}


@pytest.mark.parametrize("change", TWINS)
def test_a_twin_of_a_file_adds_no_answer_and_its_rows_are_repetitions(tmp_path, change):
    workspace = MemoryWorkspace(tmp_path)
    folder = workspace.data / "inbox" / "b"
    text = HEADER.encode() + b"".join(b"q%d,elm,%d\n" % (i, i % 2) for i in range(20))
    path = write(folder / "a.csv", "")
    path.write_bytes(text)
    workspace.ingest([path], Request())
    before = workspace.rows("raw.generations")
    twin = folder / ("b.csv.gz" if change == "compressed" else "b.csv")
    twin.write_bytes(TWINS[change](text))
    report = workspace.ingest([twin]).reports[0]
    assert (report.n_read, report.n_kept, report.n_rejected) == (20, 0, 0)
    kept = [{key: value for key, value in row.items() if key != "file_id"} for row in workspace.rows("raw.generations")]
    assert kept == [{key: value for key, value in row.items() if key != "file_id"} for row in before]
