"""Three shapes of SWE-bench results: what is solved, what is not, and what nobody can know."""

import json

import pytest

from capeval_pipeline.formats import READERS, swebench
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace

RESULTS = {"no_generation": ["a-1"], "no_logs": ["a-2"], "resolved": ["a-3", "a-3"]}


def cells(found) -> list[tuple]:
    return [(row["item"], row["status"], row["score"], row["outcome"]) for row in found.generations]


def report(**changes) -> dict:
    lists = ("completed", "incomplete", "empty_patch", "submitted", "resolved", "unresolved", "error")
    return {"total_instances": 4, "submitted_instances": 3, **{f"{name}_ids": [] for name in lists},
            "schema_version": 2} | changes  # fmt: skip


def test_half_a_surrogate_pair_in_a_name_is_kept_as_its_escape(tmp_path):
    """Found by fuzzing: the name of a list of a report becomes the word for its verdict."""
    text = json.dumps(report(submitted_ids=["a"])).replace("submitted_ids", "subm\\ud800_ids")
    found = read_whole(swebench, write(tmp_path / "elm.run.json", text))
    assert cells(found) == [("a", "unscored", None, "subm\\ud800")]
    text = json.dumps(report(error_ids=[None])).replace("error_ids", "err\\udcefr_ids")
    assert read_whole(swebench, write(tmp_path / "elm.run.json", text)).locations() == ["key err\\udcefr_ids"]


def test_lists_of_what_was_resolved_need_the_list_of_all(tmp_path):
    path = write(tmp_path / "agent/results/results.json", json.dumps(RESULTS))
    assert swebench.matches(path) == 1.0
    with pytest.raises(FileRefused) as caught:
        read_whole(swebench, path, model="agent")
    assert caught.value.reason == "instances_needed"
    assert "instances: FILE" in str(caught.value)
    listed = write(tmp_path / "all.txt", "a-1\na-2\n\na-3\na-4\n")
    found = read_whole(swebench, path, model="agent", instances=listed)
    assert cells(found) == [
        ("a-1", "error", None, "no_generation"),
        ("a-2", "error", None, "no_logs"),
        ("a-3", "ok", 1.0, "resolved"),
        ("a-4", "ok", 0.0, "unresolved"),
    ]
    short = write(tmp_path / "short.txt", "a-1\na-2\n")
    found = read_whole(swebench, path, model="agent", instances=short)
    assert (found.n_read, found.reasons(), found.locations()) == (3, {"item_unknown": 1}, ["key a-3"])


def test_the_instances_of_benchmark_yml_and_the_name_of_the_submission_are_used(tmp_path):
    folder = tmp_path / "inbox/swe"
    write(folder / "benchmark.yml", "instances: all.txt\n")
    write(folder / "all.txt", "a-1\na-2\na-3\n")
    write(folder / "run1/results/results.json", json.dumps(RESULTS))
    write(folder / "run1/metadata.yaml", "info:\n  name: Agent  One\n  site: x\n")
    write(folder / "run2/results.json", json.dumps(RESULTS | {"resolved": []}))
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([folder])
    assert {report.path.rpartition("/")[2]: report.status for report in batch.reports} == {
        "all.txt": "companion", "benchmark.yml": "companion", "metadata.yaml": "companion", "results.json": "read",
    }  # fmt: skip
    rows = workspace.rows("raw.generations")
    assert sorted({row["model_id"] for row in rows}) == ["Agent One", "run2"]
    assert [row["score"] for row in rows if row["item_id"] == "a-3"] in ([1.0, 0.0], [0.0, 1.0])
    assert workspace.ingest([folder]).changes == {}
    named = [folder / "run1/metadata.yaml", folder / "run1/results/results.json"]
    assert {report.status for report in workspace.ingest(named).reports} == {"companion", "unchanged"}


def test_details_have_a_cost_an_instance(tmp_path):
    details = {
        "a-1": {"cost": 0.5, "api_calls": 9, "resolved": True},
        "a-2": {"cost": 0.25, "api_calls": 3, "resolved": False},
        "a-3": {"cost": None, "api_calls": 0, "resolved": None}, "a-4": {"resolved": "maybe"}, "a-5": 7,
    }  # fmt: skip
    path = write(tmp_path / "per_instance_details.json", json.dumps(details, indent=1))
    assert swebench.matches(path) == 1.0
    found = read_whole(swebench, path, folder="agent")
    assert [(row["item"], row["status"], row["score"], row["cost_reported_usd"]) for row in found.generations] == [
        ("a-1", "ok", 1.0, 0.5), ("a-2", "ok", 0.0, 0.25), ("a-3", "unscored", None, None),
        ("a-4", "invalid", None, None),
    ]  # fmt: skip
    assert found.reasons() == {"score_not_numeric": 1, "bad_row": 1}
    assert found.accounted() == set(range(5))


def test_a_report_tells_error_from_failure_and_ignores_what_is_no_instance(tmp_path):
    text = report(
        submitted_ids=["a-1", "a-2", "a-3"], completed_ids=["a-1", "a-2"], resolved_ids=["a-1"], unresolved_ids=["a-2"],
        error_ids=["a-3"], unremoved_images=["sweb.eval.x86"],
    )  # fmt: skip
    path = write(tmp_path / "lab__agent-4.1.run7.json", json.dumps(text, indent=4))
    assert max(READERS, key=lambda name: READERS[name].matches(path)) == "swebench"
    found = read_whole(swebench, path)
    assert cells(found) == [
        ("a-1", "ok", 1.0, "resolved"), ("a-2", "ok", 0.0, "unresolved"), ("a-3", "error", None, "error"),
    ]  # fmt: skip
    assert {row["model"] for row in found.generations} == {"lab/agent-4.1"}
    assert found.reasons("warning") == {"coverage": 1}
    assert found.facts.claimed_items == 4


def test_a_contradiction_is_used_neither_way(tmp_path):
    text = report(total_instances=1, resolved_ids=["a-1"], error_ids=["a-1"], empty_patch_ids=[None])
    found = read_whole(swebench, write(tmp_path / "m.r.json", json.dumps(text)))
    assert cells(found) == [("a-1", "invalid", None, "resolved, error")]
    assert found.reasons() == {"conflicting_duplicate": 1, "key_missing": 1}
    assert found.n_read == 2


def test_a_report_of_a_later_schema_is_refused(tmp_path):
    path = write(tmp_path / "m.r.json", json.dumps(report(schema_version=3)))
    with pytest.raises(FileRefused) as caught:
        read_whole(swebench, path)
    assert caught.value.reason == "version_too_new"


def test_results_in_the_folder_of_the_benchmark_name_no_model(tmp_path):
    write(tmp_path / "inbox/swe/per_instance_details.json", '{"a-1": {"cost": 1, "api_calls": 1, "resolved": true}}')
    report_ = MemoryWorkspace(tmp_path).ingest([tmp_path / "inbox/swe"]).reports[0]
    assert (report_.format, report_.status, report_.rejections[0].reason) == ("swebench", "refused", "model_unknown")


def test_the_list_of_instances_of_benchmark_yml_serves_all_shapes(tmp_path):
    folder = tmp_path / "runs"
    details = {"a-1": {"cost": 1, "api_calls": 1, "resolved": True}}
    write(folder / "benchmark.yml", "name: bugs\ninstances: all.txt\n")
    write(folder / "all.txt", "a-1\na-2\na-3\na-4\na-5\n")
    write(folder / "elm" / "results.json", json.dumps(RESULTS))
    write(folder / "oak" / "per_instance_details.json", json.dumps(details))
    write(folder / "fir.run.json", json.dumps(report(resolved_ids=["a-1"], total_instances=1)))
    workspace = MemoryWorkspace(tmp_path / "data")
    batch = workspace.ingest([folder])
    told = {report.path.rpartition("runs/")[2]: report for report in batch.reports if report.status != "companion"}
    told_of = "file: 1 instances; expected 5 as the list of instances says. The rest is not run."
    assert {name: (one.n_kept, [warning.message for warning in one.warnings]) for name, one in told.items()} == {
        "elm/results.json": (5, []),
        "oak/per_instance_details.json": (1, [f"per_instance_details.json: {told_of}"]),
        "fir.run.json": (1, [f"fir.run.json: {told_of}"]),
    }
    assert {row["claimed_items"] for row in workspace.rows("raw.files")} == {5}
