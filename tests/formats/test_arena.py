"""Tables of votes: labels, columns of 0 and 1, left and right, and what names an item."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import arena
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def outcomes(found) -> list[float]:
    return [row["outcome"] for row in found.judgments]


def test_labels_are_seen_from_model_a_and_other_words_are_refused(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "question_id,model_a,model_b,winner\n1,elm,oak,model_a\n2,elm,oak,model_b\n3,elm,oak,tie\n4,elm,oak,both_bad\n"
        "5,elm,oak,tie (bothbad)\n6,elm,oak,\n7,elm,oak,elm\n8,elm,elm,tie\n9,,oak,tie\n",
    )
    assert arena.matches(path) == 0.8
    found = read_whole(arena, path)
    assert outcomes(found) == [1.0, 0.0, 0.5, 0.5, 0.5]
    assert found.reasons() == {"no_verdict": 1, "unknown_label": 1, "self_comparison": 1, "key_missing": 1}
    assert found.locations() == ["line 7", "line 8", "line 9", "line 10"]
    assert found.accounted() == set(range(9))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_three_columns_of_zero_and_one_say_who_won(tmp_path, name):
    columns = {"id": [1, 2, 3], "prompt": ["One?", "Two?", "Three?"], "model_a": ["elm"] * 3, "model_b": ["oak"] * 3,
               "winner_model_a": [1, 0, 1], "winner_model_b": [0, 0, 1], "winner_tie": [0, 1, 0]}  # fmt: skip
    table = pa.table(columns)
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name)
    elif name == "a.csv":
        rows = [",".join(map(str, row.values())) for row in table.to_pylist()]
        write(tmp_path / name, "\n".join([",".join(columns), *rows]))
    else:
        import json

        write(tmp_path / name, "\n".join(json.dumps(row) for row in table.to_pylist()))
    assert arena.matches(tmp_path / name) == 0.8
    found = read_whole(arena, tmp_path / name)
    assert outcomes(found) == [1.0, 0.5]
    assert found.reasons() == {"unknown_label": 1}
    assert "winner is 'model_a and model_b'" in found.rejections[0]["message"]
    assert [(row["item"], row["prompt"]) for row in found.items] == [("1", "One?"), ("2", "Two?")]


def test_numbered_prompts_name_items_and_the_id_only_counts(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "id,prompt,worker,winner,left,right\n0,8,w1,left,elm,oak\n0,8,w2,right,elm,oak\n1,8,w1,tie,elm,ash\n",
    )
    found = read_whole(arena, path)
    assert [(row["item"], row["judge"], row["outcome"]) for row in found.judgments] == [
        ("8", "w1", 1.0),
        ("8", "w2", 0.0),
        ("8", "w1", 0.5),
    ]


def test_votes_that_nothing_tells_apart_are_draws_and_a_repeated_vote_of_one_judge_is_a_repetition(tmp_path):
    rows = "elm,oak,model_a\n"
    workspace = MemoryWorkspace(tmp_path)
    anonymous = write(tmp_path / "inbox/x/a.csv", "prompt,model_a,model_b,winner\n" + f"Why?,{rows}" * 2)
    report = workspace.ingest([anonymous]).reports[0]
    assert (report.n_kept, report.n_duplicate) == (2, 0)
    judged = write(tmp_path / "inbox/y/a.csv", "prompt,judge,model_a,model_b,winner\n" + f"Why?,jay,{rows}" * 2)
    report = workspace.ingest([judged]).reports[0]
    assert (report.n_kept, report.n_duplicate) == (1, 1)


def test_a_table_whose_winners_are_names_is_none_of_this_format(tmp_path):
    path = write(
        tmp_path / "a.csv", "question_id,model_a,model_b,winner\n1,elm,oak,elm\n2,elm,oak,tie\n3,elm,oak,oak\n"
    )
    assert arena.matches(path) == 0.0


def test_a_table_without_votes_is_refused_and_so_is_a_column_given_twice(tmp_path):
    with pytest.raises(FileRefused) as caught:
        read_whole(arena, write(tmp_path / "a.csv", "question_id,model_a,winner\n1,elm,model_a\n"))
    assert caught.value.reason == "columns_missing"
    with pytest.raises(FileRefused) as caught:
        read_whole(arena, write(tmp_path / "b.csv", "id,model_a,model_b,winner,winner\n1,elm,oak,tie,tie\n"))
    assert caught.value.reason == "duplicate_column"


def test_published_crowd_votes_are_all_kept(shared, tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    report = workspace.ingest([shared / "data/raw_samples/pairwise/llmfao_first1500.csv"]).reports[0]
    assert (report.format, report.n_read, report.n_kept) == ("arena", 1500, 1500)
    rows = workspace.rows("raw.judgments")
    assert (len(rows), sum(row["outcome"] == 1.0 for row in rows), sum(row["outcome"] == 0.5 for row in rows)) == (
        1500, 583, 380,
    )  # fmt: skip
    assert len(workspace.rows("raw.items")) == 3
