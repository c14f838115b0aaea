"""Strengths and their intervals, ranks and tie groups."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.methods.mean_scores import draw_item_resamples
from capeval_pipeline.methods.ranking import (
    _item_gradients,
    _resampled_wins,
    _with_sandwich,
    count_wins,
    estimate_strengths,
    estimate_strengths_from_votes,
    order_models,
    rank_models,
)


def answers(rng: np.random.Generator, strengths: np.ndarray, n_items: int) -> np.ndarray:
    difficulty = rng.normal(size=n_items)
    probability = 1 / (1 + np.exp(difficulty[:, None] - strengths[None, :]))
    return rng.binomial(1, probability).astype(float)


def test_wins_are_the_hand_worked_ones(shared: Path):
    cases = json.loads((shared / "cases" / "bt_small.json").read_text())["cases"]
    case = next(c for c in cases if c["name"] == "from_scores")
    quality = np.array([[np.nan if s is None else s for s in row] for row in case["scores"]])
    assert count_wins(quality[case["kept_items"]]).sum() == len(case["votes"])
    assert count_wins(quality[:2]).tolist() == [[0, 1, 2], [0, 0, 1], [0, 0, 0]]


def test_graded_and_two_level_wins_agree(rng):
    quality = rng.binomial(1, 0.5, size=(50, 6)).astype(float)
    quality[rng.uniform(size=quality.shape) < 0.1] = np.nan
    graded = np.vstack([quality, np.full((1, 6), np.nan)])
    graded[-1, 0] = 0.5  # a third level without an opponent sends the matrix down the general path
    assert count_wins(quality).tolist() == count_wins(graded).tolist()


def test_a_missing_cell_wins_and_loses_against_nobody():
    wins = count_wins(np.array([[1.0, np.nan, 0.3]]))
    assert wins[1].sum() == 0
    assert wins[:, 1].sum() == 0
    assert wins[0, 2] == 1


def test_resampled_wins_are_wins_of_the_repeated_items(rng):
    quality = rng.uniform(size=(20, 5))
    weights = draw_item_resamples(20, 3, rng)
    wins = _resampled_wins(quality, weights, 1e-9)
    for b in range(3):
        repeated = np.repeat(quality, weights[b].astype(int), axis=0)
        assert wins[b].tolist() == count_wins(repeated).tolist()


def test_item_gradients_sum_to_the_ridge_pull(rng):
    for quality in (answers(rng, rng.normal(size=7), 80), rng.uniform(size=(80, 7))):
        fit = estimate_strengths(quality, draw_item_resamples(80, 0, rng), ridge=0.1)
        total = _item_gradients(quality, fit.strength, 1e-9).sum(axis=0)
        assert total == pytest.approx(-0.1 * fit.strength, abs=1e-6)


def test_sandwich_and_resamples_give_the_same_widths(rng):
    quality = answers(rng, rng.normal(size=8), 600)
    resampled = estimate_strengths(quality, draw_item_resamples(600, 1000, rng))
    sandwich = _with_sandwich(
        count_wins(quality), resampled.strength, 0.1, _item_gradients(quality, resampled.strength, 1e-9),
        resampled.component,
    )  # fmt: skip
    # A percentile width from 1,000 draws has a standard error of about 4 %; four of them.
    widths = (resampled.upper - resampled.lower) / (sandwich.upper - sandwich.lower)
    assert widths == pytest.approx(np.ones(8), abs=0.16)


def test_votes_of_all_pairs_give_the_strengths_of_the_scores(rng):
    quality = answers(rng, rng.normal(size=6), 100)
    item, winner, loser = np.nonzero(quality[:, :, None] > quality[:, None, :])
    weights = draw_item_resamples(100, 100, rng)
    by_scores = estimate_strengths(quality, weights)
    by_votes = estimate_strengths_from_votes(item, winner, loser, weights, n_models=6, was_compared=np.ones((6, 6)))
    assert by_votes.strength == pytest.approx(by_scores.strength, abs=1e-9)
    assert by_votes.lower == pytest.approx(by_scores.lower, abs=1e-6)


def test_a_separated_model_has_an_open_interval(rng):
    quality = answers(rng, rng.normal(size=5), 100)
    quality[:, 2] = 1.0
    found = estimate_strengths(quality, draw_item_resamples(100, 100, rng))
    assert found.is_separated.tolist() == [False, False, True, False, False]
    assert math.isnan(found.upper[2])
    assert not math.isnan(found.lower[2])


def test_models_that_share_no_item_are_in_different_components(rng):
    quality = np.full((60, 5), np.nan)
    quality[:30, :3] = answers(rng, np.zeros(3), 30)
    quality[30:, 3:] = answers(rng, np.zeros(2), 30)
    found = estimate_strengths(quality, draw_item_resamples(60, 20, rng))
    assert found.component.tolist() == [0, 0, 0, 1, 1]
    assert found.strength[:3].sum() == pytest.approx(0, abs=1e-7)


def test_intervals_of_strengths_cover_the_truth(rng):
    # Population value: strengths fitted to many items of the same kind. 25 worlds x 6 models; models of one world are
    # dependent, so the allowance is four standard errors of 25 x 2 effective draws.
    truth = rng.normal(size=6)
    population = estimate_strengths(answers(rng, truth, 200_000), draw_item_resamples(200_000, 0, rng)).strength
    covered = []
    for _ in range(25):
        found = estimate_strengths(answers(rng, truth, 400), draw_item_resamples(400, 300, rng))
        covered.append((found.lower <= population) & (population <= found.upper))
    assert np.mean(covered) > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 50)


def test_order_is_by_mean_then_strength_then_id():
    order = order_models(np.array([0.5, 0.5 + 1e-12, 0.9, 0.5]), np.array([1.0, 2.0, 0.0, 1.0]))
    assert order.tolist() == [2, 1, 0, 3]


def test_tie_groups_grow_from_the_top():
    # a > c and a > d are certain; b cannot be told from a or c.
    verdict = np.zeros((4, 4), dtype=np.int8)
    for better, worse in [(0, 2), (0, 3), (1, 3)]:
        verdict[better, worse], verdict[worse, better] = 1, -1
    ranking = rank_models(np.array([0, 1, 2, 3]), verdict)
    assert ranking.rank.tolist() == [1, 2, 3, 4]
    assert ranking.tie_group.tolist() == [1, 1, 2, 2]
    assert ranking.rank_lower.tolist() == [1, 1, 2, 3]
    assert ranking.rank_upper.tolist() == [2, 3, 4, 4]
