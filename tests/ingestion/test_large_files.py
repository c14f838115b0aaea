"""Large files in bounded memory, and files that change under the reader. The largest sizes are in benchmarks/."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats.protocol import ITEM_ROWS, rows_of
from capeval_pipeline.ingestion import reading, registry
from capeval_pipeline.ingestion.items_of_file import ItemsOfFile
from capeval_pipeline.ingestion.numbering import FEW_KEYS, ItemNumbers, Records
from capeval_pipeline.storage.connections import ComputeLimits
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

INGEST = r"""
import re, sys
from pathlib import Path
from capeval_pipeline.cli import main
sys.argv = ["capeval", "--data", sys.argv[1], "ingest", sys.argv[2], "--json"]
try:
    main()
finally:
    # not ru_maxrss: a process starts with its parent's, here a test run of any size
    print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()).group(1), file=sys.stderr)
"""


def peak_of_ingest(data, path) -> tuple[int, dict]:
    """Peak resident memory in kB of `capeval ingest` of one path, and its report."""
    done = subprocess.run(
        [sys.executable, "-c", INGEST, str(data), str(path)], capture_output=True, text=True, check=True
    )
    return int(done.stderr.strip().splitlines()[-1]), json.loads(done.stdout)[0]


def write_rows(path, n_rows: int, n_keys: int) -> None:
    """JSON lines with texts; of n_keys different cells, so that the others are repetitions."""
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for i in range(n_rows):
            item, model = i % n_keys % 5_000, i % n_keys // 5_000
            file.write(
                f'{{"item_id": "q{item}", "model": "m{model}", "score": {item % 2}, "prompt": "question {item}"}}\n'
            )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("repeated_share", [0.0, 0.9])
def test_memory_hardly_grows_with_the_rows_of_a_file(tmp_path, repeated_share):
    """600,000 rows more cost less than 240 MB (110 to 140 seen); as tuples they take 600.

    Below that many rows the difference says little: DuckDB fills what it is given, sooner or later as the machine has
    it, and 400,000 rows on top of 200,000 were seen to cost 90 and 285 MB.
    """
    peaks = []
    for n_rows in (600_000, 1_200_000):
        path = tmp_path / f"runs{n_rows}" / "scores.jsonl"
        write_rows(path, n_rows, round(n_rows * (1 - repeated_share)))
        peak, report = peak_of_ingest(tmp_path / f"data{n_rows}", path)
        assert report["n_read"] == n_rows
        assert report["n_duplicate"] == round(n_rows * repeated_share)
        assert report["n_kept"] + report["n_duplicate"] == n_rows
        peaks.append(peak)
    assert peaks[1] < 1_000_000
    assert peaks[1] - peaks[0] < 240_000


def test_a_file_that_changes_while_it_is_read_is_refused_and_read_the_next_time(tmp_path, monkeypatch):
    workspace = MemoryWorkspace(tmp_path)
    path = write(tmp_path / "inbox" / "b" / "a.csv", "item_id,model,score\nq1,elm,1\n")
    read_really = reading._read

    def grown(unit, *rest):
        parts = read_really(unit, *rest)
        with path.open("a") as file:
            file.write("q2,elm,0\n")
        return parts

    monkeypatch.setattr(reading, "_read", grown)
    report = workspace.ingest([path]).reports[0]
    assert (report.status, report.n_kept) == ("waiting", 0)
    assert [remark.reason for remark in report.rejections] == ["changed_while_reading"]
    assert workspace.rows("raw.generations") == []
    monkeypatch.setattr(reading, "_read", read_really)
    again = workspace.ingest([path]).reports[0]
    assert (again.status, again.n_kept) == ("read", 2)
    assert [row["status"] for row in workspace.rows("raw.files") if row["replaced_by_file_id"] is None] == ["read"]


@pytest.mark.parametrize("n_keys", [FEW_KEYS, FEW_KEYS + 1], ids=["few", "many"])
def test_items_keep_their_numbers_however_their_keys_come(n_keys, rng):
    ids = [f"q{i}" if i % 5 else None for i in range(n_keys)]
    contents = [f"{i:064x}" if i % 3 or not i % 5 else None for i in range(n_keys)]
    numbers = ItemNumbers()
    first, is_new = numbers.number(pa.array(ids, pa.string()), pa.array(contents, pa.string()))
    assert is_new.all()
    assert first.tolist() == list(range(n_keys))
    for _ in range(3):
        order = rng.permutation(n_keys)
        chosen = order[: n_keys // 2]
        found, is_new = numbers.number(
            pa.array([ids[i] for i in chosen], pa.string()), pa.array([contents[i] for i in chosen], pa.string())
        )
        assert found.tolist() == chosen.tolist()
        assert not is_new.any()
    numbers.close()


def test_an_item_has_the_first_text_and_the_first_category_it_is_given(tmp_path):
    items = ItemsOfFile(tmp_path, "b", "f")
    for names, prompts, categories in (
        (["q1", "q1", "q2"], [None, "one", None], ["x", "y", None]),
        (["q2", "q1", "q2"], ["two", "other", "more"], [None] * 3),
    ):
        items.add(rows_of(ITEM_ROWS, {"item": names, "prompt": prompts, "category": categories}))
    items.numbers_of(pa.table({"item": pa.array(["q3"]), "content_hash": pa.array([None], pa.string())}))
    items.close(tmp_path / "items.parquet", ComputeLimits(spill_folder=tmp_path / "spill"))
    found = sorted(pq.read_table(tmp_path / "items.parquet").to_pylist(), key=lambda row: row["item_number"])
    assert [(row["declared_id"], row["prompt"], row["category"]) for row in found] == [
        ("q1", "one", "x"),
        ("q2", "two", None),
        ("q3", None, None),
    ]


def test_records_are_counted_once_and_a_refusal_counts_before_a_repetition():
    records = Records()
    records.mark(np.array([0, 1, 2, 5_000]), 1)
    records.mark(np.array([1, 2]), 8)
    records.mark(np.array([2, 3]), 4)
    assert records.counts() == (2, 2, 1)
    assert records.having(4).tolist() == [2, 3]


def test_twins_on_overlapping_items_are_found_in_a_sample_where_the_matrix_is_too_large(tmp_path, monkeypatch, rng):
    scores = rng.integers(0, 2, 120)
    cells = [(i, "elm", scores[i]) for i in range(80)] + [(i, "oak", scores[i]) for i in range(40, 120)]
    cells += [(i, "fir", 1 - scores[i] if i == 60 else scores[i]) for i in range(40, 120)]
    cells += [(i, "same", scores[i]) for i in range(80)]
    text = "".join(f"q{i},{model},{score}\n" for i, model, score in cells)

    def twins(name: str) -> set[str]:
        workspace = MemoryWorkspace(tmp_path / name)
        workspace.ingest([write(tmp_path / name / "inbox" / "b" / "a.csv", f"item_id,model,score\n{text}")])
        rows = workspace.rows("raw.rejections")
        return {row["message"].partition(";")[0] for row in rows if row["reason"] == "same_vector"}

    monkeypatch.setattr(registry, "MAX_MATRIX_CELLS", 0)
    monkeypatch.setattr(registry, "MAX_SAMPLED_CELLS", 240)
    assert twins("sampled") == {
        "oak: has the same scores as elm on all shared items",
        "same: has the same scores as elm on all shared items",
    }
    monkeypatch.setattr(registry, "MAX_SAMPLED_CELLS", 0)
    assert twins("hashed") == {"same: has the same scores as elm on all shared items"}


@pytest.mark.parametrize(
    ("before", "now", "has_grown"),
    [
        ([(1, 5, 0)], [(1, 6, 1)], True),
        ([(1, 5, 0), (2, 5, 0)], [(1, 5, 0), (2, 9, 1)], True),
        ([(1, 5, 0)], [(1, 5, 1)], False),  # written anew, not further
        ([(1, 5, 0)], [(2, 6, 1)], False),  # another file
        ([(1, 5, 0), (2, 5, 0)], [(1, 4, 1), (2, 9, 1)], False),
        ([(1, 5, 0)], [], False),  # gone
    ],
)
def test_only_a_file_that_somebody_still_writes_is_waited_for(before, now, has_grown):
    assert reading._has_grown(tuple(before), tuple(now)) == has_grown
