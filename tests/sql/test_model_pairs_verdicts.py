"""marts.model_pairs_verdicts: a sentence a pair."""

import pytest

PAIR = {"model_a_id": "m3", "model_b_id": "m7", "n_shared_items": 1812, "lower": -0.038, "upper": -0.004}


def sentence(tables, pair, *, benchmark=None, has_scores=True):
    tables.fill("raw.benchmarks", [benchmark or {}])
    tables.fill("estimates.model_pairs", [{**PAIR, **pair}])
    if has_scores:
        tables.fill("intermediate.item_scores", [{"item_id": "i", "model_id": "m3"}])
    (row,) = tables.run("marts.model_pairs_verdicts")
    assert tables.broken_claims("marts.model_pairs_verdicts") == []
    return row["better_model_id"], row["sentence"]


@pytest.mark.parametrize(
    ("pair", "better", "words"),
    [
        (
            {"difference": -0.021, "verdict": "b_better"},
            "m7",
            "m7 is ahead of m3 by 2.1 points (0.4 to 3.8) on 1,812 shared items.",
        ),
        (
            {"difference": 0.021, "lower": -0.01, "upper": 0.05, "verdict": "cannot_tell"},
            None,
            "m3 and m7 cannot be told apart: 2.1 points (-1.0 to 5.0) on 1,812 shared items.",
        ),
        (
            {"difference": 0.021, "lower": None, "upper": None, "verdict": "cannot_tell"},
            None,
            "m3 and m7 cannot be told apart: 2.1 points on 1,812 shared items.",
        ),
        ({"difference": None, "verdict": "cannot_tell"}, None, "m3 and m7 were never compared."),
    ],
)
def test_the_sentence_has_the_leader_first_and_its_interval(tables, pair, better, words):
    assert sentence(tables, pair) == (better, words)


def test_open_ranges_have_no_points(tables):
    pair = {"difference": -3.0, "lower": -4.0, "upper": -2.0, "verdict": "b_better"}
    _, words = sentence(tables, pair, benchmark={"score_high": None})
    assert words == "m7 is ahead of m3 by 3 (2 to 4) on 1,812 shared items."


def test_without_scores_the_difference_is_of_strengths(tables):
    pair = {"difference": 0.5, "lower": 0.25, "upper": 0.75, "verdict": "a_better"}
    _, words = sentence(tables, pair, has_scores=False)
    assert words.startswith("m3 is ahead of m7 by 0.50 logits (0.25 to 0.75)")


def test_points_are_hundredths_of_the_declared_range_and_less_may_be_better(tables):
    pair = {"difference": -2.0, "lower": -3.0, "upper": -1.0, "verdict": "a_better"}
    better, words = sentence(tables, pair, benchmark={"score_high": 10.0, "higher_is_better": False})
    assert (better, words) == ("m3", "m3 is ahead of m7 by 20.0 points (10.0 to 30.0) on 1,812 shared items.")


def test_models_that_score_the_same_come_in_text_order(tables):
    pair = {"difference": 0.0, "lower": -0.5, "upper": 0.5, "verdict": "cannot_tell"}
    for benchmark in ({}, {"higher_is_better": False}):
        _, words = sentence(tables, pair, benchmark=benchmark)
        assert words.startswith("m3 and m7 cannot be told apart: 0.0 points (-50.0 to 50.0)")
        tables.undo()
        tables.begin()
