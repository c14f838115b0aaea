"""LiveCodeBench, EvalPlus and BigCodeBench: several answers an item, each with its own verdict."""

import json

import pytest

from capeval_pipeline.formats import READERS, bigcodebench, evalplus, livecodebench
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def best_reader(path) -> str:
    return max(READERS, key=lambda name: READERS[name].matches(path))


def verdicts(found) -> list[tuple]:
    return [(row["item"], row["generation_id"], row["status"], row["score"]) for row in found.generations]


def refused(reader, path, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read_whole(reader, path, **options)
    return caught.value


# -- LiveCodeBench ----------------------------------------------------------------------------------------------------


def question(name: object, *grades: object, **changes) -> dict:
    return {"question_id": name, "question_content": f"Solve {name}.", "difficulty": "easy", "code_list": [],
            "graded_list": list(grades)} | changes  # fmt: skip


def test_every_grade_is_a_generation_and_only_true_is_solved(tmp_path):
    path = write(
        tmp_path / "x_eval_all.json", json.dumps([question("a", True, False, -2), question("b", None), question("c")])
    )
    assert best_reader(path) == "livecodebench"
    found = read_whole(livecodebench, path, folder="moss")
    assert verdicts(found) == [
        ("a", 0, "ok", 1.0), ("a", 1, "ok", 0.0), ("a", 2, "ok", 0.0), ("b", 0, "ok", 0.0), ("c", 0, "invalid", None),
    ]  # fmt: skip
    assert (found.reasons(), found.locations()) == ({"no_answers": 1}, ["samples[2]"])
    assert found.accounted() == {0, 1, 2}


def test_a_question_twice_is_a_repetition_or_a_conflict_of_both(tmp_path):
    questions = [question("a", True, False), question("b", True), question("a", True, False), question("b", False)]
    write(tmp_path / "inbox/code/moss/x_eval_all.json", json.dumps(questions))
    workspace = MemoryWorkspace(tmp_path)
    report = workspace.ingest([tmp_path / "inbox/code"]).reports[0]
    assert (report.n_read, report.n_kept, report.n_rejected, report.n_duplicate) == (4, 1, 2, 1)
    assert [remark.location for remark in report.rejections] == ["samples[1]", "samples[3]"]
    rows = sorted((row["item_id"], row["generation_id"], row["status"]) for row in workspace.rows("raw.generations"))
    assert rows == [("a", 0, "ok"), ("a", 1, "ok"), ("b", 0, "invalid")]


def test_answers_that_were_not_graded_are_refused(tmp_path):
    questions = [{"question_id": "a", "question_content": "Solve.", "code_list": ["x"]}]
    path = write(tmp_path / "x.json", json.dumps(questions))
    assert livecodebench.matches(path) == 1.0
    assert refused(livecodebench, path, model="moss").reason == "no_scores"
    assert refused(livecodebench, path).reason == "model_unknown"
    assert (
        refused(livecodebench, write(tmp_path / "y.json", json.dumps(questions)[:-20]), model="m").reason == "truncated"
    )


# -- EvalPlus and BigCodeBench ----------------------------------------------------------------------------------------


def test_plus_passes_only_where_base_does_and_what_was_not_tested_is_unscored(tmp_path):
    statuses = [("pass", "pass"), ("fail", "pass"), ("pass", "fail"), ("pass", None), (None, None), ("timeout", "fail")]
    solutions = [{"task_id": "T/1", "solution": "x", "base_status": b, "plus_status": p} for b, p in statuses]
    text = json.dumps({"date": "2026-01-01 10:00", "eval": {"T/1": solutions, "T/2": []}})
    path = write(tmp_path / "moss_eval_results.json", text)
    assert best_reader(path) == "evalplus"
    found = read_whole(evalplus, path)
    assert [row["score"] for row in found.generations] == [1.0, 0.0, 1.0, 1.0, None, 0.0, None]
    assert [row["status"] for row in found.generations][4:] == ["unscored", "ok", "invalid"]
    assert found.generations[5]["outcome"] == "timeout"
    plus = [row["value"] for row in found.metric_values if row["metric"] == "plus"]
    assert plus == [1.0, 0.0, 0.0, None, None, 0.0]
    assert (found.reasons(), found.locations()) == ({"no_answers": 1}, ["key T/2"])
    assert {row["model"] for row in found.generations} == {"moss"}
    assert found.facts.created is not None
    chosen = read_whole(evalplus, path, metric="plus")
    assert [row["score"] for row in chosen.generations][:6] == plus
    assert refused(evalplus, path, metric="pass@1").reason == "metric_unknown"


def test_the_old_layout_has_lists_of_statuses(tmp_path):
    text = {"eval": {"T/1": {"nfiles": 2, "base": [["pass", [1]], ["fail", []]], "plus": [["fail", []], ["fail", []]]},
                     "T/2": {"nfiles": 1, "base": [["pass", None]]}, "T/3": {"nfiles": 0}}}  # fmt: skip
    path = write(tmp_path / "moss/eval_results.json", json.dumps(text))
    assert best_reader(path) == "evalplus"
    found = read_whole(evalplus, path, folder="moss")
    assert verdicts(found) == [
        ("T/1", 0, "ok", 1.0), ("T/1", 1, "ok", 0.0), ("T/2", 0, "ok", 1.0), ("T/3", 0, "invalid", None),
    ]  # fmt: skip
    assert [row["value"] for row in found.metric_values if row["metric"] == "plus"] == [0.0, 0.0, None]


def test_names_of_files_and_folders_that_name_no_model_are_not_taken_for_one(tmp_path):
    text = json.dumps({"eval": {"T/1": [{"task_id": "T/1", "base_status": "pass"}]}})
    path = write(tmp_path / "results/samples_eval_results.json", text)
    assert refused(evalplus, path, folder="results").reason == "model_unknown"
    assert read_whole(evalplus, path, folder="moss").generations[0]["model"] == "moss"


def test_the_same_bytes_in_two_folders_are_two_models(tmp_path):
    text = json.dumps([question("a", True, False)])
    for model in ("moss", "fern"):
        write(tmp_path / f"inbox/code/{model}/x_eval_all.json", text)
    workspace = MemoryWorkspace(tmp_path)
    assert [report.status for report in workspace.ingest([tmp_path / "inbox/code"]).reports] == ["read", "read"]
    assert {row["model_id"] for row in workspace.rows("raw.generations")} == {"fern", "moss"}
    again = workspace.ingest([tmp_path / "inbox/code"])
    assert [report.status for report in again.reports] == ["unchanged", "unchanged"]


def test_bigcodebench_has_one_status_a_solution(tmp_path):
    text = {"eval": {"B/0": [{"task_id": "B/0", "solution": "x", "status": s} for s in ("pass", "fail", None)] + [3],
                     "B/1": "pass"}}  # fmt: skip
    path = write(tmp_path / "moss_eval_results.json", json.dumps(text, indent=2))
    assert best_reader(path) == "bigcodebench"
    found = read_whole(bigcodebench, path)
    assert verdicts(found) == [
        ("B/0", 0, "ok", 1.0), ("B/0", 1, "ok", 0.0), ("B/0", 2, "unscored", None), ("B/0", 3, "unscored", None),
        ("B/1", 0, "invalid", None),
    ]  # fmt: skip
    assert found.reasons() == {"no_answers": 1}
    assert refused(bigcodebench, write(tmp_path / "m_eval_results.json", '{"eval": [1]}')).reason == "bad_json"
