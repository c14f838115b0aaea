"""Judgments of MT-Bench, AlpacaEval and Arena-Hard: outcomes seen from one model, orders that are whole or not."""

import json

import pytest

from capeval_pipeline.formats import READERS, alpaca_eval, arena_hard, mt_bench
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace


def lay(path, *records, is_list: bool = False):
    text = json.dumps(records) if is_list else "".join(json.dumps(record) + "\n" for record in records)
    return write(path, text)


def best_reader(path) -> str:
    return max(READERS, key=lambda name: READERS[name].matches(path))


# -- MT-Bench ---------------------------------------------------------------------------------------------------------


def pair(question: object = 81, first: object = "model_1", second: object = "model_1", **changes) -> dict:
    return {"question_id": question, "model_1": "elm", "model_2": "oak", "g1_winner": first, "g2_winner": second,
            "judge": ["jay", "pair-v2"], "turn": 1} | changes  # fmt: skip


def test_a_pair_gives_a_row_an_order_and_half_a_pair_none(tmp_path):
    path = lay(
        tmp_path / "a.jsonl", pair(), pair(82, "tie", "model_2"), pair(83, "error"), pair(84, None), pair(85, "elm"),
        pair(86, model_2="elm"), pair(None), pair(81, turn=2, first="model_2", second="tie"),
    )  # fmt: skip
    assert best_reader(path) == "mt_bench"
    found = read_whole(mt_bench, path)
    assert [(row["item"], row["outcome"], row["position"], row["judge"]) for row in found.judgments] == [
        ("81/1", 1.0, 0, "jay"), ("81/1", 1.0, 1, "jay"), ("82/1", 0.5, 0, "jay"), ("82/1", 0.0, 1, "jay"),
        ("81/2", 0.0, 0, "jay"), ("81/2", 0.5, 1, "jay"),
    ]  # fmt: skip
    assert found.reasons() == {"incomplete_orders": 2, "unknown_label": 1, "self_comparison": 1, "key_missing": 1}
    assert found.reasons("warning") == {"order_dependent": 1}
    assert "2 of 3 pairs" in found.rejections[-1]["message"]
    assert found.accounted() - {None} == set(range(8))


def test_grades_have_their_range_and_a_failed_judge_gives_none(tmp_path):
    grades = [8, -1, 11, "N/A", "good", 0]
    path = lay(
        tmp_path / "a.jsonl",
        *({"question_id": n, "model": "elm", "judge": ["jay", "s"], "score": s, "turn": 1} for n, s in
          enumerate(grades)),
    )  # fmt: skip
    found = read_whole(mt_bench, path)
    assert found.facts.score_range == (1.0, 10.0)
    assert [(row["status"], row["score"]) for row in found.generations] == [
        ("ok", 8.0), ("unscored", None), ("invalid", None), ("unscored", None), ("invalid", None), ("invalid", None),
    ]  # fmt: skip
    assert found.reasons() == {"score_out_of_range": 2, "score_not_numeric": 1}


def test_a_broken_line_of_judgments_is_refused_alone(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps(pair()) + '\n{"question_id": 82,\n[1]\n')
    found = read_whole(mt_bench, path)
    assert (len(found.judgments), found.locations()) == (2, ["line 2", "line 3"])
    assert found.reasons() == {"bad_json": 1, "bad_row": 1}


@pytest.mark.parametrize("is_pair_first", [True, False])
def test_a_grade_among_pairs_is_refused_as_its_range_is_another(tmp_path, is_pair_first):
    """Found by fuzzing: a grade of 5 was kept beside a declared range of 0 to 1."""
    grade = {"question_id": 81, "model": "elm", "judge": ["j", "single"], "score": 5, "turn": 1}
    records = [pair(), grade] if is_pair_first else [grade, pair()]
    found = read_whole(mt_bench, write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records))))
    assert (found.locations(), found.reasons()) == (["line 2" if is_pair_first else "line 1"], {"bad_row": 1})
    assert (len(found.judgments), len(found.generations), found.facts.score_range) == (2, 0, None)


# -- AlpacaEval -------------------------------------------------------------------------------------------------------


def annotation(preference: object, text: object = "Name a river.", **changes) -> dict:
    return {"instruction": text, "output_1": "Rhine", "generator_1": "base", "output_2": "Po", "generator_2": "elm",
            "dataset": "geo", "annotator": "jay", "preference": preference,
            "price_per_example": 0.01} | changes  # fmt: skip


def test_a_preference_is_the_share_of_the_model_and_ties_have_two_spellings(tmp_path):
    preferences = [1, 2, 1.25, 0, 1.5, 0.0]
    path = lay(
        tmp_path / "annotations.json", *(annotation(p, f"Q{n}") for n, p in enumerate(preferences)), is_list=True
    )
    assert best_reader(path) == "alpaca_eval"
    found = read_whole(alpaca_eval, path)
    assert [row["outcome"] for row in found.judgments] == [0.0, 1.0, 0.25, 0.5, 0.5, 0.5]
    assert {(row["model_a"], row["model_b"], row["judge"], row["judge_cost_usd"]) for row in found.judgments} == {
        ("elm", "base", "jay", 0.01)
    }
    assert all(row["item"] is None and row["content_hash"] for row in found.judgments)
    assert {row["category"] for row in found.items} == {"geo"}
    assert read_whole(alpaca_eval, path, keep_text=False).items[0]["prompt"] is None


def test_what_is_no_preference_is_refused_with_its_place(tmp_path):
    path = lay(
        tmp_path / "annotations.json", annotation(None), annotation(0.5), annotation(2.1), annotation("model"),
        annotation(float("nan")), annotation(1, None), annotation(1, generator_2="base"), 7, is_list=True,
    )  # fmt: skip
    found = read_whole(alpaca_eval, path)
    assert found.judgments == []
    assert found.locations() == [f"samples[{n}]" for n in range(8)]
    assert [row["reason"] for row in found.rejections] == [
        "no_verdict", "score_out_of_range", "score_out_of_range", "score_not_numeric", "no_verdict", "key_missing",
        "self_comparison", "bad_row",
    ]  # fmt: skip


def test_a_cut_list_of_annotations_is_refused_whole(tmp_path):
    path = write(tmp_path / "annotations.json", json.dumps([annotation(1), annotation(2)])[:-30])
    with pytest.raises(FileRefused) as caught:
        read_whole(alpaca_eval, path)
    assert caught.value.reason == "truncated"


# -- Arena-Hard -------------------------------------------------------------------------------------------------------


def games(uid: str, *labels: object, **changes) -> dict:
    return {"uid": uid, "judge": "jay", "model": "elm", "baseline": "base",
            "games": [{"score": label} for label in labels]} | changes  # fmt: skip


def test_the_baseline_is_first_in_the_first_game(tmp_path):
    path = lay(
        tmp_path / "model_judgment/jay/elm.jsonl", games("u1", "B>>A", "A>B"), games("u2", "A=B", "B>>A"),
        games("u3", "A>B", None), games("u4", "A>B"), games("u5", "A>B", "A wins"),
        games("u6", "A>B", "A>B", baseline=""),
    )  # fmt: skip
    assert best_reader(path) == "arena_hard"
    found = read_whole(arena_hard, path)
    assert [(row["item"], row["outcome"], row["margin"], row["position"]) for row in found.judgments] == [
        ("u1", 1.0, 2.0, 1), ("u1", 1.0, 1.0, 0), ("u2", 0.5, 0.0, 1), ("u2", 0.0, 2.0, 0),
    ]  # fmt: skip
    assert {row["model_a"] for row in found.judgments} == {"elm"}
    assert found.reasons() == {"incomplete_orders": 2, "unknown_label": 1, "key_missing": 1}
    assert found.reasons("warning") == {"order_dependent": 1}


def test_judgments_written_twice_are_repetitions(tmp_path):
    path = lay(tmp_path / "inbox/hard/elm.jsonl", *[games("u1", "B>A", "A>B")] * 2, games("u2", "B>A", "A>B"))
    workspace = MemoryWorkspace(tmp_path)
    report = workspace.ingest([path]).reports[0]
    assert (report.format, report.n_kept, report.n_duplicate) == ("arena_hard", 2, 1)
    assert len(workspace.rows("raw.judgments")) == 4
