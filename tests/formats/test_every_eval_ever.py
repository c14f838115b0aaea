"""Instance-level lines of Every Eval Ever."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import every_eval_ever
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def line(id_: str, score=1.0, correct=True, **more) -> dict:
    return {
        "schema_version": "0.3.0", "evaluation_id": "ev", "model_id": "lab/m", "evaluation_name": "sums",
        "sample_id": id_, "input": {"raw": f"What is {id_}?", "reference": ["x"]},
        "evaluation": {"score": score, "is_correct": correct}, "error": None,
    } | more  # fmt: skip


def lay(folder, lines: list):
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    return write(folder / "u1_samples.jsonl", text)


def test_an_item_is_known_by_its_text_or_else_by_its_id(tmp_path):
    path = lay(tmp_path, [line("1"), line("2", input={"reference": []}), line("3", input={"raw": "Q", "choices": "x"})])
    assert every_eval_ever.matches(path) == 1.0
    found = read_whole(every_eval_ever, path)
    assert [(row["item"], row["prompt"]) for row in found.items] == [(None, "What is 1?"), ("2", None), (None, "Q")]
    assert found.facts.benchmark == "sums"
    assert found.facts.tool_version == "0.3"


def test_choices_belong_to_the_question(tmp_path):
    path = lay(tmp_path, [line("1", input={"raw": "Which?", "choices": [one, "z"]}) for one in "xy"])
    assert len({row["content_hash"] for row in read_whole(every_eval_ever, path).items}) == 2


@pytest.mark.parametrize(
    ("score", "correct", "status", "expected"),
    [
        (0.0, None, "unscored", None),
        (0.0, False, "ok", 0.0),
        (0.4, None, "ok", 0.4),
        (None, None, "unscored", None),
        (float("nan"), True, "unscored", None),
        ("good", True, "invalid", None),
        (2.0, True, "invalid", None),
    ],
)
def test_a_zero_is_a_verdict_only_beside_is_correct(tmp_path, score, correct, status, expected):
    row = read_whole(every_eval_ever, lay(tmp_path, [line("1", score, correct)])).generations[0]
    assert (row["status"], row["score"]) == (status, expected)


def test_an_error_is_no_wrong_answer(tmp_path):
    found = read_whole(every_eval_ever, lay(tmp_path, [line("1", 0.0, False, error="timeout")]))
    assert [(row["status"], row["score"]) for row in found.generations] == [("error", None)]
    assert found.metric_values == []


def test_tokens_and_time_are_read(tmp_path):
    usage = {"input_tokens": 9, "output_tokens": 4, "reasoning_tokens": 3, "input_tokens_cache_read": 2}
    path = lay(tmp_path, [line("1", token_usage=usage, performance={"latency_ms": 250})])
    row = read_whole(every_eval_ever, path).generations[0]
    names = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [row[name] for name in names] == [9, 4, 3, 2, None]
    assert row["latency_s"] == 0.25


def test_is_correct_may_be_the_score(tmp_path):
    path = lay(tmp_path, [line("1", 0.3, True), line("2", 0.9, False)])
    found = read_whole(every_eval_ever, path, metric="is_correct")
    assert [row["score"] for row in found.generations] == [1.0, 0.0]


def test_lines_of_two_evaluations_are_two_benchmarks(tmp_path):
    path = lay(tmp_path, [line("1"), line("1", evaluation_name="rivers", score=0.0, correct=False)])
    batch = (workspace := MemoryWorkspace(tmp_path)).ingest([path])
    assert [(report.n_kept, report.benchmark_ids) for report in batch.reports] == [(2, ["rivers", "sums"])]
    scores = {name: [row["score"] for row in tables["raw.generations"].to_pylist()]
              for name, tables in workspace.raw.items()}  # fmt: skip
    assert scores == {"sums": [1.0], "rivers": [0.0]}
    assert all(len(tables["raw.items"]) == 1 for tables in workspace.raw.values())


def test_broken_lines_are_refused_alone(tmp_path):
    lines = [line("1"), '{"schema_version"', "[1]", line("2", model_id=""), line("", input={})]
    found = read_whole(every_eval_ever, lay(tmp_path, lines))
    assert found.reasons() == {"bad_json": 1, "bad_row": 1, "key_missing": 2}
    assert found.locations() == ["line 2", "line 3", "line 4", "line 5"]
    assert len(found.generations) == 1


@pytest.mark.parametrize(
    ("more", "options", "reason"),
    [({"schema_version": "0.4.0"}, {}, "version_too_new"), ({}, {"metric": "bleu"}, "metric_unknown")],
)
def test_what_the_schema_does_not_have_is_refused(tmp_path, more, options, reason):
    with pytest.raises(FileRefused) as caught:
        read_whole(every_eval_ever, lay(tmp_path, [line("1", **more)]), **options)
    assert caught.value.reason == reason


@settings(max_examples=25, deadline=None)
@given(
    verdicts=st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, None, 3.0]), st.sampled_from([True, False, None])),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_every_line_is_kept_or_refused_and_no_filler_counts(tmp_path_factory, verdicts):
    lines = [line(str(n), score, correct) for n, (score, correct) in enumerate(verdicts)]
    found = read_whole(every_eval_ever, lay(tmp_path_factory.mktemp("lines"), lines))
    assert found.accounted() == set(range(len(verdicts)))
    assert len(found.generations) == found.n_read == len(verdicts)
    known = [score for score, correct in verdicts if score in (0.5, 1.0) or (score == 0.0 and correct is not None)]
    assert [row["score"] for row in found.generations if row["status"] == "ok"] == known
