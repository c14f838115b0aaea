"""Costs, tokens and times that are none are unknown, and said so with place and value."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import arena, canonical, long, wide
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def told(found) -> dict[str, str]:
    return {row["location"]: row["message"] for row in found.rejections if row["reason"] == "amount_unusable"}


@pytest.mark.parametrize(
    ("column", "cell"),
    [("cost_usd", "$0.50"), ("cost_usd", "0,5"), ("cost_usd", "inf"), ("cost_usd", "true"), ("latency_s", "1.2 s"),
     ("judge_cost_usd", "free"), ("input_tokens", "1_024"), ("output_tokens", "2.5"), ("cached_tokens", "-1"),
     ("reasoning_tokens", "many"), ("created_at", "yesterday")],
)  # fmt: skip
def test_a_cell_that_is_no_amount_is_named_with_its_place(tmp_path, column, cell):
    path = write(tmp_path / "a.csv", f'item_id,model,score,{column}\nq1,elm,1,\nq2,elm,1,"{cell}"\nq3,elm,0,"{cell}"\n')
    found = read_whole(long, path)
    assert [row["status"] for row in found.generations] == ["ok"] * 3
    (place, message), *others = told(found).items()
    assert (place, others) == (f"column {column}", [])
    assert f"'{cell}' at line 3 is no amount, nor 1 other cell" in message


@pytest.mark.parametrize("cell", ["", "NaN", "n/a", "-", "0", "0.0", "1e-3"])
def test_nothing_and_numbers_are_not_told(tmp_path, cell):
    path = write(tmp_path / "a.csv", f"item_id,model,score,cost_usd,latency_s\nq1,elm,1,{cell},{cell}\n")
    assert told(read_whole(long, path)) == {}


def test_amounts_through_several_blocks_give_one_warning_a_column(tmp_path):
    n_rows = 70_000  # more than a chunk
    costs = pa.array(["0.1"] * (n_rows - 2) + ["dear", "dearer"])
    table = pa.table({"item_id": pa.array(map(str, range(n_rows))), "model": ["elm"] * n_rows, "score": [1.0] * n_rows,
                      "cost_usd": costs})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    found = read_whole(long, tmp_path / "a.parquet")
    assert found.n_chunks == 3
    assert "'dear' at row 69999 is no amount, nor 1 other cell" in told(found)["column cost_usd"]


def test_costs_of_wide_tables_votes_and_pairs_are_told_alike(tmp_path):
    path = write(tmp_path / "wide.csv", "item_id,elm,elm|total_cost\nq1,1,0.1\nq2,0,1 cent\n")
    assert "'1 cent' at line 3" in told(read_whole(wide, path))["column elm|total_cost"]
    path = write(tmp_path / "votes.csv", "id,model_a,model_b,winner,judge_cost_usd\nq1,elm,oak,tie,a lot\n")
    assert "'a lot' at line 2" in told(read_whole(arena, path))["column judge_cost_usd"]
    path = write(tmp_path / "c" / "pairs.csv", "item_id,model_a,model_b,winner,judge_cost_usd\nq1,elm,oak,a,a lot\n")
    assert "'a lot' at" in next(iter(told(read_whole(canonical, path.parent)).values()))


def test_it_is_a_warning_that_keeps_the_records(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    write(tmp_path / "inbox" / "b" / "a.csv", "item_id,model,score,cost_usd\nq1,elm,1,$1\n")
    (report,) = workspace.ingest([tmp_path / "inbox"]).reports
    assert (report.n_read, report.n_kept, report.n_rejected) == (1, 1, 0)
    assert [(remark.location, remark.reason) for remark in report.warnings] == [("column cost_usd", "amount_unusable")]
    (row,) = workspace.rows("raw.generations")
    assert (row["cost_usd"], row["cost_source"]) == (None, "unknown")
