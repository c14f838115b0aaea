"""Which columns of a wide table are models, in CSV as in Parquet, and what is said of those that are not."""

import io

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import wide
from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.detection import detect
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def written(folder, name: str, content: str):
    """A table as CSV, or the same as Parquet with the types its cells look like."""
    if name.endswith(".csv"):
        return write(folder / name, content)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pc.read_csv(io.BytesIO(content.encode())), folder / name)
    return folder / name


def cells(found) -> list[tuple]:
    return sorted((row["item"], row["model"], row["score"], row["cost_reported_usd"]) for row in found.generations)


def told(found, reason: str) -> str:
    (text,) = [row["message"] for row in found.rejections if row["reason"] == reason]
    return text


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_model_without_costs_is_read_beside_one_with_costs_and_other_numbers_are_named(tmp_path, name):
    path = written(
        tmp_path, name,
        "item_id,lab/m,lab/n,lab/n|total_cost,lab/n|model_response,n_tokens,note,oracle_model_to_route_to\n"
        "q1,1,0,0.002,yes,120,odd,lab/m\nq2,0,1,0.003,no,95,even,lab/n\n",
    )  # fmt: skip
    found = read_whole(wide, path)
    assert cells(found) == [
        ("q1", "lab/m", 1.0, None), ("q1", "lab/n", 0.0, 0.002),
        ("q2", "lab/m", 0.0, None), ("q2", "lab/n", 1.0, 0.003),
    ]  # fmt: skip
    assert "columns not used: n_tokens, note;" in told(found, "extra_columns")


def test_a_declared_range_decides_what_a_score_without_costs_may_be(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,lab/m,lab/n,lab/n|total_cost\nq1,70,80,0.1\nq2,90,20,0.1\n")
    assert {row["model"] for row in read_whole(wide, path).generations} == {"lab/n"}
    found = read_whole(wide, path, score_range=(0.0, 100.0))
    assert {row["model"] for row in found.generations} == {"lab/m", "lab/n"}


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("index", ["Unnamed: 0", "__index_level_0__"])
def test_the_index_of_a_data_frame_is_no_model(tmp_path, name, index):
    path = written(tmp_path, name, f"{index},item_id,elm\n0,q1,1\n1,q2,0\n")
    assert {row["model"] for row in read_whole(wide, path).generations} == {"elm"}


def test_a_column_of_words_is_named_where_it_is_left_out(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,elm,oak,empty\nq1,1,C,\nq2,0,I,\n")
    found = read_whole(wide, path)
    assert {row["model"] for row in found.generations} == {"elm"}
    assert "columns not used: oak;" in told(found, "extra_columns")


def test_all_faults_of_a_table_are_told_at_once(tmp_path):
    path = write(tmp_path / "a.csv", "item_id,gpt-4,GPT_4,m\nq1,1,1,1\nq1,0,0,1\nMean,0.5,0.5,1\n")
    with pytest.raises(FileRefused) as caught:
        read_whole(wide, path)
    faults = [caught.value, *caught.value.also]
    assert [fault.reason for fault in faults] == ["look_alike_columns", "summary_row", "duplicate_item"]
    write(path, "item_id,gpt-4,GPT_4,m,m\nq1,1,1,1,1\n")
    with pytest.raises(FileRefused) as caught:
        read_whole(wide, path)
    assert [fault.reason for fault in (caught.value, *caught.value.also)] == ["duplicate_column", "look_alike_columns"]


def test_each_of_several_faults_stands_in_the_table_of_rejections(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    write(tmp_path / "inbox" / "b" / "a.csv", "item_id,gpt-4,GPT_4\nq1,1,1\nTotal,1,1\n")
    (report,) = workspace.ingest([tmp_path / "inbox"]).reports
    assert [(remark.location, remark.reason) for remark in report.rejections] == [
        ("column gpt-4", "look_alike_columns"), ("line 3", "summary_row"),
    ]  # fmt: skip
    assert (report.n_read, report.n_kept, report.n_rejected) == (0, 0, 0)
    assert sorted(row["reason"] for row in workspace.rows("raw.rejections")) == ["look_alike_columns", "summary_row"]


def test_numbers_of_any_arrow_type_are_scores_of_a_model_without_costs(tmp_path):
    table = pa.table({
        "item_id": ["q1", "q2"], "dear": [1.0, 0.0], "dear|total_cost": [0.1, 0.2],
        "flags": [True, False], "small": pa.array([1, 0], pa.int8()), "words": pa.array(["1", "0"]).dictionary_encode(),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    models = {row["model"] for row in read_whole(wide, tmp_path / "a.parquet").generations}
    assert models == {"dear", "flags", "small", "words"}


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize(
    ("header", "skeleton"),
    [
        ("question_id,model,correct", "{item_id: question_id, model: model, score: correct}"),
        ("id,Model Name,solved", "model: "),
        ("id,is_correct", "{item_id: id, model: …, score: is_correct}"),
        ("id,model_a,model_b,position", "model_a: model_a, model_b: model_b"),
    ],
)
def test_a_table_whose_rows_name_their_models_is_no_wide_one(tmp_path, name, header, skeleton):
    """Else its scores would be those of a model called `correct`, and equal ones of two models repetitions."""
    names = ["elm", "oak"][: header.count(",") - 1]
    content = header + "\n" + "".join(",".join([f"q{n}", *names, str(n % 2)]) + "\n" for n in range(4))
    path = written(tmp_path, name, content)
    with pytest.raises(FileRefused) as caught:
        detect(path)
    assert (caught.value.reason, skeleton in str(caught.value)) == ("unknown_format", True), str(caught.value)
