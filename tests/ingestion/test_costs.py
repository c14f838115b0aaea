"""Costs from tokens and prices: which price holds on which day, and what is told where none does."""

from pathlib import Path

import pytest

from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.benchmark_file import load_prices
from capeval_pipeline.ingestion.costs import FIRST_DAY, LAST_DAY, UNKNOWN_DAY, stretches
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

DATED = """\
elm:
  - {input: 1, output: 10, to: 2026-01-31}
  - {input: 2, output: 20, from: 2026-02-01, to: 2026-02-28}
  - {input: 3, output: 30, from: 2026-04-01}
oak: {input: 1, output: 1}
"""
HEADER = "item_id,model,score,input_tokens,output_tokens,created_at\n"


def costs(workspace: MemoryWorkspace) -> dict[str, tuple]:
    return {
        row["item_id"]: (row["cost_usd"], row["cost_source"], row["price_date"])
        for row in workspace.rows("raw.generations")
    }


@pytest.fixture
def workspace(tmp_path) -> MemoryWorkspace:
    write(tmp_path / "runs/benchmark.yml", "prices: prices.yml\n")
    write(tmp_path / "runs/prices.yml", DATED)
    return MemoryWorkspace(tmp_path / "data")


def test_each_row_is_priced_by_the_day_of_its_answer(tmp_path, workspace):
    rows = [
        ("a", "elm", "2026-01-31T23:59:59Z"),
        ("b", "elm", "2026-02-01T00:00:00Z"),
        ("c", "elm", "2026-02-01T01:00:00+02:00"),  # still January in UTC
        ("d", "elm", "2026-03-15"),  # no price holds
        ("e", "elm", "2031-01-01"),
        ("f", "elm", ""),  # the file's own time is the latest of its rows: 2031
        ("g", "oak", "1999-01-01"),
    ]
    text = HEADER + "".join(f"{item},{model},1,100,10,{time}\n" for item, model, time in rows)
    report = workspace.ingest([write(tmp_path / "runs/a.csv", text)]).reports[0]
    # 100 input tokens and 10 output tokens at 1 and 10 dollars a million: 200 / 1e6
    assert costs(workspace) == {
        "a": (pytest.approx(200e-6), "recomputed", None),
        "b": (pytest.approx(400e-6), "recomputed", "2026-02-01"),
        "c": (pytest.approx(200e-6), "recomputed", None),
        "d": (None, "unknown", None),
        "e": (pytest.approx(600e-6), "recomputed", "2026-04-01"),
        "f": (pytest.approx(600e-6), "recomputed", "2026-04-01"),
        "g": (pytest.approx(110e-6), "recomputed", None),
    }
    assert [(remark.reason, remark.location) for remark in report.warnings] == [("price_missing", "key elm")]
    assert "1 row has tokens but no price on its day (such as item d)" in report.warnings[0].message


def test_where_no_day_is_known_the_price_that_still_holds_counts(tmp_path, workspace):
    workspace.ingest(
        [write(tmp_path / "runs/a.csv", "item_id,model,score,input_tokens,output_tokens\na,elm,1,100,10\n")]
    )
    assert costs(workspace) == {"a": (pytest.approx(600e-6), "recomputed", "2026-04-01")}


def test_a_new_price_list_prices_the_same_answers_anew(tmp_path, workspace):
    path = write(tmp_path / "runs/a.csv", HEADER + "a,elm,1,100,10,2026-01-01\n")
    workspace.ingest([path])
    write(tmp_path / "runs/prices.yml", "elm: {input: 5, output: 50}\n")
    assert workspace.ingest([path]).reports[0].status == "read"
    assert costs(workspace) == {"a": (pytest.approx(1000e-6), "recomputed", None)}


def test_stretches_cover_all_days_once_and_the_price_that_began_last_counts():
    entries = [{"input": 1}, {"input": 2, "from": "1970-01-11", "to": "1970-01-31"}, {"input": 3, "from": "1970-01-21"}]
    found = [(first, last, price and price["input"]) for first, last, price in stretches(entries)]
    assert found == [(UNKNOWN_DAY, UNKNOWN_DAY, 3), (FIRST_DAY, 9, 1), (10, 19, 2), (20, LAST_DAY, 3)]
    assert stretches([]) == [(UNKNOWN_DAY, UNKNOWN_DAY, None), (FIRST_DAY, LAST_DAY, None)]
    gone = [
        (first, last, price and price["input"]) for first, last, price in stretches([{"input": 1, "to": "1970-01-01"}])
    ]
    assert gone == [(UNKNOWN_DAY, UNKNOWN_DAY, 1), (FIRST_DAY, 0, 1), (1, LAST_DAY, None)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("elm: {input: 1, from: soon}\n", "a day such as 2026-01-31"),
        ("elm: {input: 1, from: 20260131}\n", "a day such as"),
        ("elm: {input: 1, from: 2026-02-01, to: 2026-01-01}\n", "a first and a last day in order"),
        ("elm: {input: 1, form: 2026-02-01}\n", "Did you mean from?"),
    ],
)
def test_a_day_that_is_none_is_refused(tmp_path, text, told):
    with pytest.raises(FileRefused, match=told) as caught:
        load_prices(write(tmp_path / "prices.yml", text))
    assert caught.value.reason == "config_invalid"


def test_the_price_table_of_the_documentation_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs/mapping.md").read_text(encoding="utf-8")
    text = page.partition("## Prices")[2].partition("```text\n")[2].partition("```")[0]
    prices = load_prices(write(tmp_path / "prices.yml", text))
    assert [sorted(entry) for entry in prices["lab/m8"]] == [["input", "output", "to"], ["from", "input", "output"]]
    assert prices["lab/m7"][0]["cache_read"] == 0.03


def test_tokens_without_a_price_of_their_kind_are_told(tmp_path):
    """Cached tokens at no known price make the cost unknown; a table with a price for the others looked complete."""
    folder = tmp_path / "inbox" / "b"
    write(folder / "benchmark.yml", "prices: prices.yml\n")
    write(folder / "prices.yml", "elm: {input: 1, output: 2}\n")
    write(
        folder / "a.csv",
        "item_id,model,score,input_tokens,output_tokens,cached_tokens\nq1,elm,1,5,5,7\nq2,elm,1,5,5,\n",
    )
    workspace = MemoryWorkspace(tmp_path)
    (report,) = [report for report in workspace.ingest([folder]).reports if report.status == "read"]
    assert [row["cost_source"] for row in workspace.rows("raw.generations")] == ["unknown", "recomputed"]
    (warning,) = report.warnings
    assert (warning.reason, "1 row has" in warning.message, "item q1" in warning.message) == (
        "price_missing",
        True,
        True,
    )
