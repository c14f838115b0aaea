"""Tables read block by block say the same as read whole, and hold no more than a block; folders as columns."""

import gzip
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import long, tabular, wide
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.reading import Request
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace

WORDS = np.array(["1", "0", "0.5", "", "n/a", "maybe", "7"])


def wide_text(rng, n_rows: int) -> str:
    cells = rng.choice(WORDS, (n_rows, 3), p=[0.4, 0.3, 0.1, 0.1, 0.04, 0.03, 0.03])
    lines = [f"q{i},{','.join(row)},{1 if i == 0 else ''}" for i, row in enumerate(cells)]
    lines[5] += ",broken"
    return "item_id,elm,oak,fir,late\n" + "\n".join(lines) + "\n"


def said(found) -> tuple:
    """What a reading says, whatever the numbers of its records."""
    cells = sorted((row["item"], row["model"], row["status"], row["score"], row["place"]) for row in found.generations)
    told = sorted((row["location"], row["reason"], row["message"]) for row in found.rejections)
    return found.n_read, cells, told, [row["item"] for row in found.items]


def test_a_wide_table_in_blocks_says_what_it_says_whole(tmp_path, monkeypatch, rng):
    path = write(tmp_path / "w.csv", wide_text(rng, 200))
    whole = read_whole(wide, path)
    monkeypatch.setattr(tabular, "BATCH_CELLS", 35)
    blocks = read_whole(wide, path)
    assert blocks.n_chunks > 20
    assert said(blocks) == said(whole)
    assert blocks.accounted() == set(range(blocks.n_read))


@pytest.mark.parametrize(
    ("text", "reason", "named"),
    [
        ("q1,1,0\n" * 30 + "q2,1,1\n" * 30 + "q1,1,1\nq2,0,1\n", "duplicate_item", "different rows: q1, q2"),
        ("q1,1,0\n" * 30 + "q2,,\nMean,1,1\n", "summary_row", "'Mean'"),
    ],
)
@pytest.mark.parametrize("n_compared", [2, wide.MAX_COMPARED])
def test_rows_that_make_a_table_doubtful_are_found_across_blocks(
    tmp_path, monkeypatch, text, reason, named, n_compared
):
    monkeypatch.setattr(tabular, "BATCH_CELLS", 35)
    monkeypatch.setattr(wide, "MAX_COMPARED", n_compared)
    path = write(tmp_path / "w.csv", "item_id,elm,oak\n" + text)
    with pytest.raises(FileRefused) as refused:
        read_whole(wide, path)
    assert refused.value.reason == reason
    assert named in str(refused.value)


def test_an_item_may_be_there_again_if_it_says_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "BATCH_CELLS", 6)
    path = write(tmp_path / "w.csv", "item_id,elm,oak\n" + "q1,1,\nq2,0,1\nq1,1,0\nq3,1,1\n,1,1\n,0,0\n" * 3)
    assert read_whole(wide, path).reasons() == {"key_missing": 12}


def test_a_block_of_parquet_is_bounded_by_its_cells(tmp_path, monkeypatch):
    """A column of one value takes nothing in the file and eight bytes a row in memory."""
    monkeypatch.setattr(tabular, "BATCH_CELLS", 10_000)
    columns = {f"m{number}": np.ones(3_000) for number in range(50)}
    pq.write_table(pa.table({"item_id": [f"q{i}" for i in range(3_000)], **columns}), tmp_path / "w.parquet")
    layout = tabular.table_layout(tmp_path / "w.parquet")
    sizes = [batch.n_rows for batch in tabular.batches(tmp_path / "w.parquet", layout, layout.columns, Limits())]
    assert max(sizes) <= 10_000 // 51
    assert sum(sizes) == 3_000


def test_a_compressed_parquet_file_is_not_held(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(tabular, "HELD_BYTES", 100_000)
    pq.write_table(pa.table({"score": rng.random(500_000)}), tmp_path / "plain.parquet")
    packed = write(tmp_path / "packed.parquet", gzip.compress((tmp_path / "plain.parquet").read_bytes(), 1))
    tracemalloc.start()
    with tabular._parquet_source(packed, Limits()) as source:
        _, peak = tracemalloc.get_traced_memory()
        assert pq.ParquetFile(source).metadata.num_rows == 500_000
    tracemalloc.stop()
    assert peak < (tmp_path / "plain.parquet").stat().st_size


def scores(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"item_id": ["q1", "q2"], "score": [1, 0], **columns}), path)


def test_folders_of_key_and_value_are_columns(tmp_path):
    scores(tmp_path / "run" / "model=007" / "part.parquet")
    scores(tmp_path / "run" / "model=lab%2Felm" / "category=hard" / "part.parquet")
    scores(tmp_path / "run" / "model=oak" / "part.parquet", model=["own", "own"])
    write(tmp_path / "run" / "model=fir" / "x=y" / "part.csv", "item_id,score\nq1,0.5\n")
    scores(tmp_path / "run" / "model=__HIVE_DEFAULT_PARTITION__" / "part.parquet")
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([tmp_path / "run"], Request())
    assert [report.status for report in batch.reports] == ["read"] * 5
    found = {(row["model_id"], row["item_id"], row["score"]) for row in workspace.rows("raw.generations")}
    named = {"007", "lab/elm", "own"}
    assert found == {(name, *cell) for name in named for cell in (("q1", 1.0), ("q2", 0.0))} | {("fir", "q1", 0.5)}
    assert {row["benchmark_id"] for row in workspace.rows("raw.generations")} == {"run"}
    assert {row["category"] for row in workspace.rows("raw.items")} == {"hard"}
    assert sum(report.n_rejected for report in batch.reports) == 2
    assert {report.status for report in workspace.ingest([tmp_path / "run"]).reports} == {"unchanged"}


def test_a_folder_is_no_column_of_a_wide_table(tmp_path):
    path = write(tmp_path / "seed=1" / "w.csv", "item_id,elm,oak\nq1,1,0\nq2,0,0.5\n")
    assert {row["model"] for row in read_whole(wide, path).generations} == {"elm", "oak"}


def test_columns_of_folders_come_last_and_only_those_that_are_asked_for(tmp_path):
    path = write(tmp_path / "model=elm" / "l.csv", "item_id,score,extra\nq1,1,x\n")
    layout = tabular.with_folder_columns(path, tabular.table_layout(path), long.KEYS)
    assert layout.columns == ("item_id", "score", "extra", "model")
    batch = next(tabular.batches(path, layout, ("model", "score"), Limits()))
    assert {name: column.to_pylist() for name, column in batch.columns.items()} == {"model": ["elm"], "score": ["1"]}
