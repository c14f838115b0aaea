"""Long, wide and canonical tables: good files, broken files, any bytes at all."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import READERS, canonical, long, wide
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write


def refused(reader, path, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read_whole(reader, path, **options)
    return caught.value


def test_long_needs_its_columns_and_never_takes_score_for_a_model(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,score\nq1,1\n")
    assert refused(long, path).reason == "columns_missing"
    assert read_whole(long, path, model="elm").generations[0]["model"] == "elm"


def test_long_takes_csv_tsv_jsonl_and_parquet_alike(tmp_path):
    table = pa.table({"item_id": ["q1", "q2"], "model": ["a", "a"], "score": [1.0, 0.5], "latency_s": [0.1, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    write(tmp_path / "a.csv", "item_id,model,score,latency_s\nq1,a,1.0,0.1\nq2,a,0.5,\n")
    write(tmp_path / "a.tsv", "item_id\tmodel\tscore\tlatency_s\nq1\ta\t1\t0.1\nq2\ta\t0.5\t\n")
    write(
        tmp_path / "a.jsonl",
        '{"item_id": "q1", "model": "a", "score": 1, "latency_s": 0.1}\n{"item_id":"q2","model":"a","score":0.5}\n',
    )
    wanted = [("q1", "a", 1.0, 0.1), ("q2", "a", 0.5, None)]
    for name in ("a.parquet", "a.csv", "a.tsv", "a.jsonl"):
        rows = read_whole(long, tmp_path / name).generations
        assert [(row["item"], row["model"], row["score"], row["latency_s"]) for row in rows] == wanted, name


def test_status_words_win_over_scores_and_unknown_ones_are_refused(tmp_path):
    path = write(
        tmp_path / "a.csv", "item_id,model,score,status\nq1,a,0,error\nq2,a,1,ok\nq3,a,1,fine\nq4,a,,unscored\n"
    )
    found = read_whole(long, path)
    assert [(row["status"], row["score"]) for row in found.generations] == [
        ("error", None),
        ("ok", 1.0),
        ("invalid", None),
        ("unscored", None),
    ]
    assert found.reasons() == {"status_unknown": 1}
    assert found.locations() == ["line 4"]


def test_rows_of_other_metrics_are_values_and_no_generations(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,model,metric,score\nq1,a,acc,1\nq1,a,length,212\n")
    found = read_whole(long, path)
    assert [(row["metric"], row["score"]) for row in found.generations] == [("acc", 1.0)]
    assert found.reasons("warning") == {"metric_defaulted": 1}
    assert read_whole(long, path, metric="length", score_range=(0, 300)).reasons("warning") == {}
    assert [(row["metric"], row["value"], row["is_main"]) for row in found.metric_values] == [
        ("acc", 1.0, True),
        ("length", 212.0, False),
    ]
    chosen = read_whole(long, path, metric="length", score_range=(0.0, 1000.0))
    assert [row["score"] for row in chosen.generations] == [212.0]


def test_no_text_drops_prompts_and_keeps_their_hashes(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,model,score,prompt\nq1,a,1,Name a river.\n")
    item = read_whole(long, path, keep_text=False).items[0]
    assert item["prompt"] is None
    assert item["content_hash"] == read_whole(long, path).items[0]["content_hash"]


def test_more_than_one_chunk_counts_and_places_on(tmp_path):
    n_rows = 150_000
    lines = [f"q{number},a,{number % 2}" for number in range(n_rows)]
    lines[140_000] = "q140000,a,maybe"
    found = read_whole(long, write(tmp_path / "a.csv", "item_id,model,score\n" + "\n".join(lines)))
    assert (found.n_read, found.n_chunks) == (n_rows, 3)
    assert found.locations() == ["line 140002"]
    assert found.accounted() == set(range(n_rows))


def test_a_file_of_broken_rows_is_given_up(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,model,score\n" + "x\n" * 50 + "q,a,1\n")
    fault = refused(long, path, limits=Limits(n_bad_rows=20))
    assert fault.reason == "too_many_bad_rows"
    assert fault.n_read == 51


def test_an_open_quote_at_the_end_means_the_file_is_cut(tmp_path):
    path = write(tmp_path / "a.csv", 'item_id,model,score,prompt\nq1,a,1,"Name a\nq2,a,0,river\n')
    assert refused(long, path).reason == "truncated"


def test_a_cut_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"item_id": ["q"], "model": ["a"], "score": [1.0]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    path = write(tmp_path / "b.parquet", whole[:-30])
    reader = max(READERS.values(), key=lambda reader: reader.matches(path))
    assert refused(reader, path).reason in ("truncated", "columns_missing")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("item_id,a,a\nq,1,1\n", "duplicate_column"),
        ("item_id,lab/m-1,lab__m_1\nq,1,1\n", "look_alike_columns"),
        ("item_id,a,b\nq,1,1\nq,0,1\n", "duplicate_item"),
        ("item_id,a,b\nq,1,1\nAverage,1,1\n", "summary_row"),
        ("a,b\n1,0\n0,1\n", "columns_missing"),
    ],
)
def test_wide_refuses_what_would_be_a_guess(tmp_path, content, reason):
    assert refused(wide, write(tmp_path / "a.csv", content)).reason == reason


@pytest.mark.parametrize(
    ("cell", "value"),
    [("0,5", 0.5), ("85%", 0.85), ("yes", 1.0), ("No", 0.0), ("TRUE", 1.0), ("1.0", 1.0), ("12,5 %", 0.125)],
)
def test_wide_cells_may_have_decimal_commas_percent_and_words(tmp_path, cell, value):
    path = write(tmp_path / "a.csv", f"item_id;elm\nq1;{cell}\n")
    assert [row["score"] for row in read_whole(wide, path).generations] == [value]


def test_wide_leaves_missing_cells_out_and_keeps_a_written_zero(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,elm\nq1,0\nq2,\nq3,-\nq4,#DIV/0!\nq5,n/a\nq6,2\n")
    found = read_whole(wide, path)
    assert [(row["item"], row["status"]) for row in found.generations] == [("q1", "ok"), ("q6", "invalid")]
    assert found.locations() == ["line 7, column elm"]
    assert found.n_read == 2


def test_routerbench_columns_name_models_and_costs(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "sample_id,prompt,eval_name,lab/m,lab/m|model_response,lab/m|total_cost,oracle_model_to_route_to\n"
        "s1,\"['Name a river.', 'Now.']\",geo,1.0,Rhine,0.002,lab/m\n",
    )
    assert wide.matches(path) == 0.8
    found = read_whole(wide, path)
    assert [(row["model"], row["score"], row["cost_reported_usd"]) for row in found.generations] == [
        ("lab/m", 1.0, 0.002)
    ]
    assert (found.items[0]["prompt"], found.items[0]["category"]) == ("Name a river.\nNow.", "geo")


def test_a_model_without_costs_beside_one_with_costs_is_a_model(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,lab/m,lab/n,lab/n|total_cost,note\nq1,1,0,0.002,odd\nq2,,1,0.003,even\n")
    found = [(row["item"], row["model"], row["cost_reported_usd"]) for row in read_whole(wide, path).generations]
    assert found == [("q1", "lab/m", None), ("q1", "lab/n", 0.002), ("q2", "lab/n", 0.003)]


def test_canonical_reads_three_kinds_of_files_alike(tmp_path):
    items = pa.table({"item_id": ["q1", "q2"], "prompt": ["One?", None], "embedding": [[0.5, 1.0], None]})
    pq.write_table(items, write(tmp_path / "d/items.parquet", b""))
    write(tmp_path / "d/results.jsonl", '{"model": "a", "item_id": "q1", "generation": 1, "score": 0.5}\n')
    write(tmp_path / "d/pairs.csv", "item_id,model_a,model_b,winner\nq1,a,b,tie\nq2,a,a,a\nq2,a,b,\nq2,a,,b\n")
    write(tmp_path / "d/truth.json", "{}")
    assert canonical.matches(tmp_path / "d") == 1.0
    found = read_whole(canonical, tmp_path / "d")
    assert found.n_read == 5
    assert found.items[0]["embedding"] == [0.5, 1.0]
    assert found.generations[0]["content_hash"] == found.items[0]["content_hash"]
    assert [row["outcome"] for row in found.judgments] == [0.5]
    assert found.reasons() == {"self_comparison": 1, "no_verdict": 1, "key_missing": 1}


def test_canonical_refuses_one_id_with_two_texts(tmp_path):
    write(tmp_path / "d/items.csv", "item_id,prompt\nq1,One?\nq1,Two?\n")
    write(tmp_path / "d/results.csv", "model,item_id,score\na,q1,1\n")
    assert refused(canonical, tmp_path / "d").reason == "duplicate_item"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"]))
def test_any_bytes_are_read_or_refused_and_never_a_traceback(tmp_path, content, suffix):
    path = write(tmp_path / f"a{suffix}", content)
    for reader in READERS.values():
        assert 0.0 <= reader.matches(path) <= 1.0
        _read_or_refused(reader, path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.text(alphabet='q1a,;"\n\r\t{}[]:.0-%\u2028é', max_size=120), kind=st.sampled_from([".csv", ".jsonl"]))
def test_any_rows_under_a_good_header_account_for_every_record(tmp_path, rows, kind):
    header = "item_id,model,score,generation\n" if kind == ".csv" else '{"item_id": "q", "model": "m", "score": 1}\n'
    path = write(tmp_path / f"b{kind}", header + rows)
    try:
        found = read_whole(long, path)
    except FileRefused:
        return
    assert found.accounted() == set(range(found.n_read))


def _read_or_refused(reader, path) -> None:
    try:
        found = read_whole(reader, path)
    except FileRefused:
        return
    assert found.accounted() == set(range(found.n_read))


def test_pairs_of_a_canonical_folder_may_say_which_answer_was_shown_first(tmp_path):
    rows = "q1,elm,oak,a,0\nq1,elm,oak,b,1\nq2,elm,oak,tie,\nq3,elm,oak,a,2\n"
    write(tmp_path / "c/pairs.csv", "item_id,model_a,model_b,winner,position\n" + rows)
    found = read_whole(canonical, tmp_path / "c")
    assert [row["position"] for row in found.judgments] == [0, 1, None, None]
