"""The low-rank predictor: closed-form steps, planted structure, and held-out choice of rank."""

import json
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.methods.item_factors import choose_rank, fit_item_factors, predict, update_row
from capeval_pipeline.methods.synthetic.low_rank_world import make_low_rank_world


def world(n_models: int, n_items: int, rank: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return make_low_rank_world(n_items=n_items, n_models=n_models, rank=rank, rng=rng).scores.T


def moved(row, factors, prior, items, scores, n_steps=1, l2=1.0):
    row = np.array(row, dtype=float)
    update_row(row, factors, np.array(prior, dtype=float), l2, np.array(items, np.int32), len(items), scores, n_steps)
    return row


def test_one_newton_step_of_rank_one_is_gradient_over_curvature():
    factors = np.array([[1.0], [-1.0], [2.0]])
    row = moved([0.0], factors, [0.0], [0, 1, 2], np.array([1.0, 1.0, 0.0]))
    assert row[0] == pytest.approx(-1.0 / (1 + 0.25 * 6), abs=1e-12)


def test_hand_worked_newton_step(shared: Path):
    cases = json.loads((shared / "cases" / "pulse_small.json").read_text())["cases"]
    case = next(case for case in cases if case["name"] == "one_newton_step_rank_one")
    factors = np.array(case["item_factors"])[:, None]
    row = moved([case["start"]], factors, [case["prior"]], range(3), np.array(case["scores"], float), l2=case["l2"])
    assert row[0] == pytest.approx(case["expect"]["after_one_step"], abs=1e-9)


def test_a_row_without_answers_goes_to_its_prior():
    row = moved([0.3, -0.2], np.ones((4, 2)), [0.5, 0.1], [], np.zeros(4))
    assert row == pytest.approx([0.5, 0.1], abs=1e-12)


def test_a_step_is_never_longer_than_three():
    # With a ridge of 1e-4 the full step to the far prior would be 100 long.
    row = moved([0.0], np.zeros((1, 1)), [100.0], [], np.zeros(1), l2=1e-4)
    assert row[0] == pytest.approx(3.0)


def test_several_steps_reach_the_stationary_point():
    rng = np.random.default_rng(3)
    factors, scores = rng.normal(size=(40, 3)), rng.random(40)
    prior = rng.normal(size=3)
    row = moved(np.zeros(3), factors, prior, range(40), scores, n_steps=30)
    gradient = factors.T @ (scores - predict(row, factors)) + prior - row
    assert np.abs(gradient).max() < 1e-10


def test_training_rows_have_unit_covariance():
    fit = fit_item_factors(world(120, 200, 2, seed=1), rank=3)
    assert np.cov(fit.training_rows, rowvar=False, ddof=0) == pytest.approx(np.eye(3), abs=1e-8)
    assert fit.prior_mean == pytest.approx(fit.training_rows.mean(axis=0))


def test_rotation_to_unit_covariance_keeps_the_predictions():
    scores = world(60, 80, 1, seed=2)
    fit = fit_item_factors(scores, rank=2, n_sweeps=3)
    logits = fit.training_rows @ fit.item_factors.T
    loss = np.logaddexp(0.0, logits) - scores * logits
    assert fit.training_loss == pytest.approx(loss.mean(), abs=1e-12)


def test_training_models_that_all_agree_are_no_obstacle():
    fit = fit_item_factors(np.tile(np.array([1.0, 0.0, 1.0, 0.5]), (30, 1)), rank=2)
    assert np.isfinite(fit.item_factors).all()
    assert predict(fit.prior_mean, fit.item_factors)[:2] == pytest.approx([1.0, 0.0], abs=0.35)


def test_fit_is_the_same_to_the_last_bit_when_repeated():
    scores = world(50, 60, 2, seed=5)
    first, second = (fit_item_factors(scores, rank=3).item_factors for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_rank_of_a_planted_world_beats_rank_one():
    scores = world(150, 300, 3, seed=4)
    choice = choose_rank(scores, np.arange(150), rng=np.random.default_rng(0))
    assert choice.rank >= 3
    assert 0 < choice.moments.covariance < choice.moments.score_variance


def test_noise_gets_the_smallest_rank_and_no_covariance():
    scores = (np.random.default_rng(6).random((100, 200)) < 0.5).astype(float)
    choice = choose_rank(scores, np.arange(100), rng=np.random.default_rng(0))
    assert choice.rank == 1
    # Covariance of independent things over 100 x 150 pairs: standard error at most .25 / sqrt(15000) = .002.
    assert abs(choice.moments.covariance) < 0.01


def test_a_family_is_never_split_between_folds():
    # Twins would give the held-out twin's answers away: with families given, the loss must not fall below chance.
    rng = np.random.default_rng(7)
    half = (rng.random((30, 150)) < 0.5).astype(float)
    twins = np.vstack([half, half])
    loss = choose_rank(twins, np.tile(np.arange(30), 2), rng=rng, ranks=(8,)).losses[0]
    assert loss > np.log(2)


@pytest.mark.parametrize(
    ("scores", "rank", "message"),
    [
        (np.array([[0.5, np.nan]]), 1, "complete"),
        (np.array([[0.5, 1.5]]), 1, r"\[0, 1\]"),
        (np.zeros((3, 4)), 4, "rank 4"),
    ],
)
def test_unusable_training_scores_are_refused(scores, rank, message):
    with pytest.raises(ValueError, match=message):
        fit_item_factors(scores, rank=rank)
