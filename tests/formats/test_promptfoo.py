"""Results of promptfoo."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import promptfoo
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write


def result(town: str, provider="fast", score=1, **more) -> dict:
    usage = {"total": 12, "prompt": 10, "completion": 2}
    return {
        "provider": provider if isinstance(provider, dict) else {"id": "http:9", "label": provider},
        "vars": {"town": town}, "response": {"output": "o", "tokenUsage": usage, "cached": False},
        "success": score == 1, "score": score, "namedScores": {"tone": 0.5}, "latencyMs": 250, "cost": 0.001,
        "failureReason": 0, "error": None,
    } | more  # fmt: skip


def lay(folder, results: list | None, **more):
    inner = {"version": 3, "timestamp": "2026-01-02T03:04:05.000Z", "prompts": [{}], "results": results} | more
    return write(folder / "out.json", json.dumps({"evalId": "e1", "results": inner}))


def test_score_success_and_named_scores_are_metrics(tmp_path):
    path = lay(tmp_path, [result("T", score=0.25)])
    assert promptfoo.matches(path) == 1.0
    found = read_whole(promptfoo, path)
    assert {row["metric"]: (row["value"], row["is_main"]) for row in found.metric_values} == {
        "score": (0.25, True), "success": (0.0, False), "namedScores.tone": (0.5, False),
    }  # fmt: skip
    assert [row["prompt"] for row in found.items] == ["T"]
    assert found.facts.created is not None and found.facts.created.year == 2026
    chosen = read_whole(promptfoo, path, metric="namedScores.tone")
    assert [row["score"] for row in chosen.generations] == [0.5]


@pytest.mark.parametrize(
    ("provider", "model"), [({"id": "a", "label": "b"}, "b"), ({"id": "a", "label": ""}, "a"), ({"id": "a"}, "a")]
)
def test_a_provider_is_called_by_its_label_or_else_by_its_id(tmp_path, provider, model):
    assert read_whole(promptfoo, lay(tmp_path, [result("T", provider)])).generations[0]["model"] == model


def test_a_provider_may_be_text(tmp_path):
    found = read_whole(promptfoo, lay(tmp_path, [result("T") | {"provider": "lab:m"}]))
    assert found.generations[0]["model"] == "lab:m"


def test_the_same_vars_again_are_the_next_generation(tmp_path):
    found = read_whole(promptfoo, lay(tmp_path, [result("T"), result("U"), result("T", score=0), result("T", "slow")]))
    assert [(row["model"], row["generation_id"], row["score"]) for row in found.generations] == [
        ("fast", 0, 1), ("fast", 0, 1), ("fast", 1, 0), ("slow", 0, 1),
    ]  # fmt: skip
    assert len(found.items) == 2


@pytest.mark.parametrize(
    ("more", "status", "score"),
    [
        ({"failureReason": 1, "error": "Expected x", "score": 0}, "ok", 0.0),
        ({"failureReason": 2, "error": "refused", "score": 0}, "error", None),
        ({"error": "timeout", "score": 0, "response": None}, "error", None),
        ({"score": None}, "unscored", None),
        ({"score": "good"}, "invalid", None),
        ({"score": 7}, "invalid", None),
    ],
)
def test_a_failed_call_is_no_wrong_answer(tmp_path, more, status, score):
    row = read_whole(promptfoo, lay(tmp_path, [result("T") | more])).generations[0]
    assert (row["status"], row["score"]) == (status, score)


def test_an_answer_from_the_cache_has_no_cost_and_no_time(tmp_path):
    cached = result("T") | {"response": {"output": "o", "cached": True, "tokenUsage": {"total": 9, "cached": 9}},
                            "cost": 0, "latencyMs": 1}  # fmt: skip
    first, second = read_whole(promptfoo, lay(tmp_path, [cached, result("U")])).generations
    names = ("is_cached", "cost_reported_usd", "latency_s", "input_tokens")
    assert [first[name] for name in names] == [True, None, None, None]
    assert [second[name] for name in names] == [False, 0.001, 0.25, 10]


def test_broken_results_are_refused_alone(tmp_path):
    results = [result("T"), 7, result("T") | {"vars": {}}, result("T") | {"provider": None}]
    found = read_whole(promptfoo, lay(tmp_path, results))
    assert found.reasons() == {"bad_row": 1, "key_missing": 2}
    assert found.locations() == ["samples[1]", "samples[2]", "samples[3]"]


@pytest.mark.parametrize(
    ("results", "more", "options", "reason"),
    [
        ([result("T")], {"version": 4}, {}, "version_too_new"),
        (None, {"stats": {"successes": 3}}, {}, "aggregate_only"),
        ([], {"prompts": []}, {}, "header_only"),
        ([result("T")], {}, {"metric": "namedScores.wit"}, "metric_unknown"),
    ],
)
def test_what_the_file_does_not_have_is_refused(tmp_path, results, more, options, reason):
    with pytest.raises(FileRefused) as caught:
        read_whole(promptfoo, lay(tmp_path, results, **more), **options)
    assert caught.value.reason == reason


def test_a_cut_file_is_refused_as_such(tmp_path):
    path = lay(tmp_path, [result("T")])
    path.write_bytes(path.read_bytes()[:-30])
    assert promptfoo.matches(path) == 1.0
    with pytest.raises(FileRefused) as caught:
        read_whole(promptfoo, path)
    assert caught.value.reason == "truncated"


@settings(max_examples=25, deadline=None)
@given(
    asked=st.lists(
        st.tuples(st.sampled_from("TU"), st.sampled_from(["fast", "slow"]), st.sampled_from([0, 0.5, 1, None, 9])),
        min_size=1, max_size=9,
    )
)  # fmt: skip
def test_generations_count_up_within_a_cell(tmp_path_factory, asked):
    found = read_whole(promptfoo, lay(tmp_path_factory.mktemp("out"), [result(*one) for one in asked]))
    assert found.accounted() == set(range(len(asked)))
    assert len(found.generations) == found.n_read == len(asked)
    cells: dict = {}
    for row in found.generations:
        cells.setdefault((row["content_hash"], row["model"]), []).append(row["generation_id"])
    assert all(numbers == list(range(len(numbers))) for numbers in cells.values())
    assert found.reasons()["score_out_of_range"] == sum(score == 9 for _, _, score in asked)
