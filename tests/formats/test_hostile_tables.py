"""Tables that are odd on purpose or by accident: every reader says so, and loses nothing of what it can read."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import lm_eval, long, wide
from capeval_pipeline.formats.refusals import FileRefused, message, shown
from capeval_pipeline.formats.tabular import table_layout
from tests.formats.reading import read_whole, write

HEADER = "item_id,model,score\n"


def lines(*records: dict) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_a_first_line_of_json_longer_than_the_head_is_still_a_table(tmp_path):
    text = "x" * 100_000
    records = [{"item_id": f"q{i}", "prompt": text + str(i), "model": "elm", "score": i} for i in range(2)]
    path = write(tmp_path / "a.jsonl", lines(*records))
    assert long.matches(path) == 0.5
    assert [row["score"] for row in read_whole(long, path).generations] == [0.0, 1.0]


def test_a_header_longer_than_the_head_is_read_whole(tmp_path):
    names = [f"some-laboratory/model-{number}" for number in range(4000)]
    row = ",".join("1" if number % 3 else "0" for number in range(4000))
    path = write(tmp_path / "a.csv", f"item_id,{','.join(names)}\nq1,{row}\nq2,{row}\n")
    assert wide.matches(path) == 0.4
    whole = read_whole(wide, path)
    assert (whole.n_read, len(whole.generations), whole.reasons()) == (8000, 8000, {})
    assert whole.generations[-1]["model"] == names[-1]


def test_a_line_of_millions_of_commas_is_no_table(tmp_path):
    path = write(tmp_path / "a.csv", b"a," * 3_000_000)
    assert table_layout(path) is None
    assert wide.matches(path) == long.matches(path) == 0.0


def test_a_key_of_json_lines_that_first_stands_far_down_is_not_lost(tmp_path):
    common = [{"item_id": f"q{i}", "model": "elm", "score": 1} for i in range(3000)]
    late = [
        {"item_id": "e", "model": "elm", "score": None, "status": "error", "cost_usd": 0.5},
        {"item_id": "g", "model": "elm", "score": 0, "generation": 0},
        {"item_id": "g", "model": "elm", "score": 1, "generation": 1},
    ]
    rows = read_whole(long, write(tmp_path / "a.jsonl", lines(*common, *late))).generations
    assert [(row["status"], row["cost_reported_usd"]) for row in rows[-3:-2]] == [("error", 0.5)]
    assert [(row["generation_id"], row["score"]) for row in rows[-2:]] == [(0, 0.0), (1, 1.0)]


def test_thousands_of_refused_cells_are_each_told_with_their_place(tmp_path):
    rows = "".join(f"q{number},{number % 100},50\n" for number in range(20_000))
    whole = read_whole(wide, write(tmp_path / "a.csv", f"item_id,elm,oak\n{rows}"))
    assert whole.n_read == 40_000
    assert whole.reasons() == {"score_out_of_range": 20_000 * 98 // 100 + 20_000}
    assert whole.accounted() == set(range(40_000))
    told = {row["location"]: row["message"] for row in whole.rejections}
    assert "score is '7'" in told["line 9, column elm"]
    assert "score is '50'" in told["line 20001, column oak"]


def test_one_odd_cell_costs_its_row_and_not_the_file(tmp_path):
    number = "9" * 5000
    header = "item_id,model,score,generation,created_at\n"
    rows = f"q1,elm,1,0,0001-01-01T00:00:00+14:00\nq2,elm,1,{number},x\nq3,  ,1,0,\nq\0,elm,1,0,\nq5,elm,{number},0,\n"
    # the NUL stands behind the head, or the file would be taken for no text at all
    good = "".join(f"g{i},elm,1,0,2026-01-01\n" for i in range(4000))
    whole = read_whole(long, write(tmp_path / "a.csv", header + good + rows))
    assert whole.reasons() == {"generation_bad": 1, "key_missing": 1, "bad_encoding": 1, "score_not_finite": 1}
    assert whole.n_read == 4005
    assert [row["item"] for row in whole.generations][-3:] == ["g3999", "q1", "q5"]


def test_nested_columns_of_parquet_are_json_text_and_bytes_are_text(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {
        "item_id": pa.array([{"n": 1}, {"n": 2}]),
        "model": pa.array([b"elm", b"oak"]),
        "prompt": pa.array([["a"], ["b"]]),
        "score": pa.array([b"1", b"0"]),
    }
    pq.write_table(pa.table(columns), path)
    whole = read_whole(long, path)
    assert [(row["item"], row["model"], row["score"]) for row in whole.generations] == [
        ('{"n": 1}', "elm", 1.0),
        ('{"n": 2}', "oak", 0.0),
    ]
    assert {row["prompt"] for row in whole.items} == {'["a"]', '["b"]'}


def test_bytes_of_parquet_that_are_no_text_refuse_the_column_by_name(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"item_id": [b"\xff"], "model": ["elm"], "score": [1.0]}), path)
    with pytest.raises(FileRefused, match="column item_id") as caught:
        read_whole(long, path)
    assert caught.value.reason == "bad_encoding"


def test_a_point_in_time_that_no_calendar_has_is_unknown(tmp_path):
    path = tmp_path / "a.parquet"
    created = pa.array([2**62], pa.timestamp("us"))
    pq.write_table(pa.table({"item_id": ["q"], "model": ["elm"], "score": [1.0], "created_at": created}), path)
    assert read_whole(long, path).facts.created is None


def test_a_metric_that_no_row_has_is_refused_with_those_there_are(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,model,score,metric\nq1,elm,1,acc\nq1,elm,7,length\n")
    with pytest.raises(FileRefused, match="one of acc, length") as caught:
        read_whole(long, path, metric="accuracy")
    assert caught.value.reason == "metric_unknown"
    assert caught.value.n_read == 2


def test_messages_are_cut_where_names_are_long_so_that_the_advice_is_still_there():
    text = message("x" * 255, "column " + "y" * 500, "is odd", "a number", "Do this.")
    assert len(text) <= 300
    assert text.endswith("is odd; expected a number. Do this.")
    assert "\n" not in message("a\nb\x1b[31m\udcff.csv", "file", "is odd", "a number")


def test_a_value_that_is_small_in_a_file_and_huge_in_print_is_cut_early():
    value: list = ["x"] * 9
    for _ in range(30):  # 9**31 texts if printed
        value = [value] * 9
    assert len(shown(value)) <= 60
    assert len(shown(16**6000)) <= 60
    assert len(shown("x" * 10**6)) <= 60


def test_damaged_pages_of_parquet_are_a_damaged_file_and_not_a_crash(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"item_id": [f"q{i}" for i in range(40)], "model": ["elm", "oak"] * 20, "score": [1.0] * 40}
    pq.write_table(pa.table(columns), path, compression="none")
    whole = path.read_bytes()
    reasons = set()
    for place in range(4, 700, 7):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            assert read_whole(long, path).n_read == 40
        except FileRefused as fault:
            reasons.add(fault.reason)
    assert "truncated" in reasons
    assert reasons <= {"truncated", "bad_encoding", "columns_missing"}


def test_half_of_a_surrogate_pair_costs_a_sample_its_row_and_no_more(tmp_path):
    stamp = "2025-01-01T00-00-00.000001"
    sample = {
        "doc_id": 0,
        "doc": {"question": "why"},
        "resps": [["\ud800"]],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1,
    }
    odd = {**sample, "doc": {"question": "\ud800"}}
    path = write(tmp_path / f"samples_arc_{stamp}.jsonl", lines(sample, odd))
    results = {"results": {"arc": {"acc,none": 1}}, "model_name": "elm", "versions": {"arc": {"a": 1}}}
    write(tmp_path / f"results_{stamp}.json", json.dumps({**results, "group_subtasks": {"g": [["arc"]]}}))
    whole = read_whole(lm_eval, path)
    assert (len(whole.generations), whole.reasons()) == (1, {"bad_json": 1})
    assert whole.facts.version is None
