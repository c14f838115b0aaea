"""The identification sentence: numbers with their interval and reference, and plain words where nothing is saved."""

import math

import pytest

from capeval_pipeline.reporting.verdicts.identification import (
    LeftOut,
    PolicyFigures,
    RaceFigures,
    identification_sentence,
)

COMMON = {
    "n_runs": 104,
    "n_arms": 200,
    "n_items": 486,
    "target_accuracy": 0.95,
    "first_sweep": 3000,
    "uniform": PolicyFigures(91_000.0),
    "ucb_e": PolicyFigures(15_000.0),
    "pairing_ratio": 0.43,
    "race": None,
    "left_out": None,
}


def test_a_saving_stands_beside_its_interval_its_ceiling_and_the_number_of_replays():
    pulse = PolicyFigures(12_000.0, 0.2, 0.1, 0.3)
    sentence = identification_sentence(**COMMON, pulse=pulse, residual_variance_ratio=0.8)
    assert "PULSE needs 12,000 calls (12 %)" in sentence
    assert "save 20 % against UCB-E (90 % interval 10 % to 30 %, 104 replays)" in sentence
    assert "predictions explain 20 % of the variance of its other scores" in sentence
    assert "the same items saves 57 % of a comparison's variance" in sentence
    # The ceiling stands before the promise.
    assert sentence.index("about the most they can save") < sentence.index("save 20 % against UCB-E")
    assert "the first sweep alone costs 3,000 calls" in sentence


def test_a_saving_above_its_ceiling_is_not_taken_at_its_word():
    pulse = PolicyFigures(10_000.0, 0.31, 0.2, 0.44)
    assert "luck of these replays" in identification_sentence(**COMMON, pulse=pulse, residual_variance_ratio=0.82)
    assert "luck" not in identification_sentence(**COMMON, pulse=pulse, residual_variance_ratio=0.6)


@pytest.mark.parametrize(
    ("ucb_e", "residual", "reason"),
    [
        (15_000.0, 0.99, "104 replays), because they explain only 1 % of the variance"),
        (4_000.0, 0.5, "because UCB-E is done soon after the first sweep"),
        (90_000.0, 0.5, "because the best models are so close"),
        (15_000.0, 0.5, "No saving by prediction is shown"),
    ],
)
def test_no_saving_is_said_with_its_reason(ucb_e, residual, reason):
    figures = COMMON | {"ucb_e": PolicyFigures(ucb_e)}
    pulse = PolicyFigures(ucb_e, 0.0, -0.1, 0.1)
    sentence = identification_sentence(**figures, pulse=pulse, residual_variance_ratio=residual)
    assert "90 % interval −10 % to 10 %" in sentence
    assert reason in sentence


def test_a_target_never_reached_is_no_number():
    figures = COMMON | {"ucb_e": PolicyFigures(math.nan)}
    sentence = identification_sentence(**figures, pulse=PolicyFigures(math.nan), residual_variance_ratio=0.5)
    assert "PULSE never gets there" in sentence
    assert "nan" not in sentence


def test_policies_left_out_are_named_with_the_reason():
    left_out = LeftOut(["naive_pooling", "pulse"], "only 16 models can teach a predictor, which needs 20")
    figures = COMMON | {"left_out": left_out}
    sentence = identification_sentence(**figures, pulse=None, residual_variance_ratio=math.nan)
    assert sentence.endswith(f"Left out: naive pooling (biased) and PULSE, because {left_out.reason}.")
    assert "nan" not in sentence


def test_models_that_taught_the_predictor_are_told_since_they_are_not_among_the_arms():
    pulse = PolicyFigures(12_000.0, 0.2, 0.1, 0.3)
    sentence = identification_sentence(**COMMON, pulse=pulse, residual_variance_ratio=0.8, n_training_models=49)
    assert sentence.startswith("To name the best of 200 models (49 others taught the predictor) in 95 %")


def test_the_race_says_how_often_it_was_wrong_and_how_often_it_may_be():
    figures = COMMON | {"race": RaceFigures(n_certified=100, n_wrong=0, median_share=0.23, delta=0.1)}
    sentence = identification_sentence(**figures, pulse=None, residual_variance_ratio=math.nan)
    assert "in 100 of 104 replays after 23 % of all answers (median), 0 wrongly, at most 10 % allowed" in sentence


def test_without_any_reference_the_sentence_still_stands():
    figures = COMMON | {"uniform": None, "ucb_e": None}
    sentence = identification_sentence(**figures, pulse=None, residual_variance_ratio=math.nan)
    assert "none of the compared policies" in sentence
