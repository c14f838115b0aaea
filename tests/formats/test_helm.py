"""Run folders of HELM."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import helm
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def stat(name: str, mean: float | None) -> dict:
    counted = {"count": 0, "sum": 0} if mean is None else {"count": 1, "sum": mean, "mean": mean}
    return {"name": {"name": name, "split": "test"}, **counted}


def instance(id_: str, trial: int = 0, perturbation: str | None = None, **stats) -> dict:
    made = {"instance_id": id_, "train_trial_index": trial, "stats": [stat(name, mean) for name, mean in stats.items()]}
    return made | ({"perturbation": {"name": perturbation}} if perturbation else {})


def request(id_: str, trial: int = 0, perturbation: str | None = None, **result) -> dict:
    asked = {"input": {"text": f"What is {id_}?"}, "references": [{"output": {"text": "x"}}, {"output": {"text": "y"}}],
             "id": id_}  # fmt: skip
    asked |= {"perturbation": {"name": perturbation}} if perturbation else {}
    return {"instance": asked, "train_trial_index": trial,
            "result": {"success": True, "completions": [{"text": "x"}]} | result}  # fmt: skip


def lay(folder, stats: list, requests: list | None = None, **spec):
    run = folder / "riddle:model=lab_m"
    asked = [request(one["instance_id"], one["train_trial_index"], one.get("perturbation", {}).get("name"))
             for one in stats if isinstance(one, dict)] if requests is None else requests  # fmt: skip
    write(run / helm.STATS, json.dumps(stats))
    write(run / helm.STATE, json.dumps({"request_states": asked}))
    write(run / helm.SPEC, json.dumps({"name": "riddle:subject=logic,model=lab_m",
                                       "adapter_spec": {"model": "lab/m", "temperature": 0.0}} | spec))  # fmt: skip
    return run


def refused(path, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read_whole(helm, path, **options)
    return caught.value


def test_a_run_folder_is_one_unit_and_its_files_are_none(tmp_path):
    run = lay(tmp_path, [instance("id1", exact_match=1)])
    assert helm.matches(run) == 1.0
    assert [helm.matches(path) for path in run.iterdir()] == [0.0, 0.0, 0.0]
    assert [path.name for path in helm.members(run)] == [helm.SPEC, helm.STATE, helm.STATS]
    write(run / "stats.json", "[]")
    batch = MemoryWorkspace(tmp_path).ingest([tmp_path])
    assert [(report.path, report.format) for report in batch.reports] == [("riddle:model=lab_m", "helm")]


def test_the_run_without_its_model_is_the_benchmark(tmp_path):
    facts = read_whole(helm, lay(tmp_path, [instance("id1", exact_match=1)])).facts
    assert facts.benchmark == "riddle:subject=logic"
    assert facts.model_settings == {"lab/m": {"temperature": 0.0}}


def test_counts_and_times_are_no_scores(tmp_path):
    stats = {"num_prompt_tokens": 20, "num_output_tokens": 3, "inference_runtime": 0.5, "finish_reason_stop": 1,
             "training_co2_cost": 1, "exact_match": 1, "f1_score": 0.5}  # fmt: skip
    found = read_whole(helm, lay(tmp_path, [instance("id1", **stats)]))
    row = found.generations[0]
    assert (row["input_tokens"], row["output_tokens"], row["latency_s"]) == (20, 3, 0.5)
    assert {row["metric"]: row["is_main"] for row in found.metric_values} == {"exact_match": True, "f1_score": False}
    assert found.reasons("warning") == {"metric_defaulted": 1}


def test_a_chosen_metric_is_not_announced(tmp_path):
    run = lay(tmp_path, [instance("id1", exact_match=1, f1_score=0.5)])
    found = read_whole(helm, run, metric="f1_score")
    assert [row["score"] for row in found.generations] == [0.5]
    assert found.reasons("warning") == {}


def test_trials_are_generations_and_perturbed_copies_items(tmp_path):
    stats = [instance("id1", 0, exact_match=1), instance("id1", 1, exact_match=0),
             instance("id1", 0, "typos", exact_match=0)]  # fmt: skip
    found = read_whole(helm, lay(tmp_path, stats))
    assert [(row["generation_id"], row["score"]) for row in found.generations] == [(0, 1), (1, 0), (0, 0)]
    assert len({row["content_hash"] for row in found.items}) == len(found.items) == 2


def test_choices_belong_to_the_question_where_they_are_shown(tmp_path):
    run = lay(tmp_path, [instance("id1", exact_match=1)], adapter_spec={"model": "lab/m", "method": "generation"})
    assert read_whole(helm, run).items[0]["prompt"] == "What is id1?"
    joint = {"model": "lab/m", "method": "multiple_choice_joint"}
    run = lay(tmp_path, [instance("id1", exact_match=1)], adapter_spec=joint)
    assert read_whole(helm, run).items[0]["prompt"] == "What is id1?\nx\ny"


def test_a_count_of_0_is_unscored_and_a_failed_call_an_error(tmp_path):
    stats = [instance("id1", exact_match=None), instance("id2", exact_match=0), instance("id3", exact_match=0)]
    asked = [request("id1"), request("id2", success=False, completions=[]), request("id3")]
    found = read_whole(helm, lay(tmp_path, stats, asked))
    assert [(row["status"], row["score"]) for row in found.generations] == [
        ("unscored", None), ("error", None), ("ok", 0.0),
    ]  # fmt: skip


def test_instances_without_a_place_are_refused_alone(tmp_path):
    stats = [instance("id1", exact_match=1), instance("id9", exact_match=1), 7, instance("", exact_match=1),
             instance("id1", -1, exact_match=1), instance("id2", exact_match=5)]  # fmt: skip
    found = read_whole(helm, lay(tmp_path, stats, [request("id1"), request("id2"), request("id3")]))
    assert found.n_read == 6
    assert found.reasons() == {"key_missing": 2, "bad_row": 1, "generation_bad": 1, "score_out_of_range": 1}
    assert found.locations() == [f"samples[{n}]" for n in (1, 2, 3, 4, 5)]
    assert found.reasons("warning")["coverage"] == 1
    assert found.accounted() == set(range(6))


@pytest.mark.parametrize(
    ("stats", "spec", "options", "reason"),
    [
        ([instance("id1", logprob=-1, max_prob=1)], {}, {}, "metric_needed"),
        ([instance("id1", exact_match=1)], {}, {"metric": "bleu"}, "metric_unknown"),
        ([instance("id1", exact_match=1)], {"adapter_spec": {}}, {}, "model_unknown"),
    ],
)
def test_what_a_run_does_not_say_is_refused(tmp_path, stats, spec, options, reason):
    fault = refused(lay(tmp_path, stats, **spec), **options)
    assert fault.reason == reason
    assert reason != "metric_needed" or "logprob, max_prob" in str(fault)


def test_a_run_without_texts_or_cut_is_refused(tmp_path):
    run = lay(tmp_path, [instance("id1", exact_match=1)])
    whole = (run / helm.STATS).read_text()
    (run / helm.STATS).write_text(whole[:-20])
    assert refused(run).reason == "truncated"
    (run / helm.STATS).write_text(whole)
    (run / helm.STATE).unlink()
    assert refused(run).reason == "columns_missing"


@settings(max_examples=20, deadline=None)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["id1", "id2", "gone"]), st.integers(0, 2), st.sampled_from([0, 0.5, 1, 3, None])),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_every_instance_is_kept_or_refused(tmp_path_factory, cells):
    stats = [instance(id_, trial, exact_match=mean) for id_, trial, mean in cells]
    asked = [request(id_, trial) for id_ in ("id1", "id2") for trial in range(3)]
    found = read_whole(helm, lay(tmp_path_factory.mktemp("run"), stats, asked))
    assert found.accounted() == set(range(len(cells)))
    assert found.reasons()["key_missing"] == sum(id_ == "gone" for id_, _, _ in cells)
    assert found.reasons()["score_out_of_range"] == sum(id_ != "gone" and mean == 3 for id_, _, mean in cells)
    assert all((row["score"] is None) != (row["status"] == "ok") for row in found.generations)


def test_a_published_run_has_ten_items(shared, tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([shared / "data" / "raw_samples" / "helm"])
    assert [(report.format, report.n_kept, report.n_rejected) for report in batch.reports] == [("helm", 10, 0)]
    rows = workspace.rows("raw.generations")
    assert len({row["item_id"] for row in rows}) == 10
    assert {row["metric"] for row in rows} == {"exact_match"}
    assert sum(row["score"] for row in rows) / 10 == pytest.approx(0.3)
    assert all(row[name] > 0 for row in rows for name in ("input_tokens", "output_tokens", "latency_s"))
