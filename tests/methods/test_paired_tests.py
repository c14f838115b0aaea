"""Paired comparisons of models: hand-worked p-values, Holm, and what is never called certain."""

import numpy as np
import pytest
from scipy import stats

from capeval_pipeline.methods.mean_scores import draw_item_resamples
from capeval_pipeline.methods.paired_tests import (
    compare_mean_scores,
    compare_strengths,
    holm_adjust,
    pairs_worth_showing,
    sign_flip_p_values,
)
from capeval_pipeline.methods.ranking import estimate_strengths_from_votes


def test_holm_by_hand():
    # 0.01 * 3, 0.02 * 2, 0.04 * 1 with running maximum; the untested pair stays untested.
    assert holm_adjust(np.array([0.04, 0.01, np.nan, 0.02])) == pytest.approx([0.04, 0.03, np.nan, 0.04], nan_ok=True)


def test_sign_flip_by_hand(rng):
    # Five wins of five: 2 of 32 sign patterns are as extreme. Three of three with sizes 1, 2, 3: 2 of 8.
    assert sign_flip_p_values(np.ones((5, 1)), rng)[0] == pytest.approx(2 / 32)
    assert sign_flip_p_values(np.array([[1.0], [2.0], [3.0]]), rng)[0] == pytest.approx(2 / 8)
    assert sign_flip_p_values(np.zeros((5, 1)), rng)[0] == 1.0


def test_random_flips_are_never_too_certain(rng):
    differences = rng.uniform(0.5, 1.0, size=(25, 1))
    exact = 2 / 2**25
    assert exact < sign_flip_p_values(differences, rng)[0] <= 1e-3


def test_pairs_equal_the_paired_t_test(rng):
    scores = rng.uniform(size=(60, 3))
    scores[5, 1] = np.nan
    found = compare_mean_scores(scores, score_width=1.0, rng=rng)
    for pair, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        both = ~np.isnan(scores[:, a]) & ~np.isnan(scores[:, b])
        expected = stats.ttest_rel(scores[both, a], scores[both, b])
        assert found.n_shared[pair] == both.sum()
        assert found.p_value[pair] == pytest.approx(expected.pvalue, rel=1e-9)
        interval = expected.confidence_interval(0.95)
        assert [found.lower[pair], found.upper[pair]] == pytest.approx([interval.low, interval.high], abs=1e-9)


def test_twins_are_not_told_apart_and_have_a_wide_interval(rng):
    column = rng.binomial(1, 0.5, size=100).astype(float)
    found = compare_mean_scores(np.column_stack([column, column]), score_width=1.0, rng=rng)
    assert found.p_value[0] == 1.0
    assert found.verdict.tolist() == [[0, 0], [0, 0]]
    assert found.upper[0] - found.lower[0] > 0.1


def test_smaller_is_better_turns_verdicts_round(rng):
    scores = np.column_stack([rng.uniform(size=50), rng.uniform(size=50) + 2.0])
    assert compare_mean_scores(scores, rng=rng).verdict[0, 1] == -1
    assert compare_mean_scores(scores, larger_is_better=False, rng=rng).verdict[0, 1] == 1


def test_models_without_a_shared_item_are_not_compared(rng):
    scores = np.full((80, 2), np.nan)
    scores[:40, 0], scores[40:, 1] = 1.0, 0.0
    found = compare_mean_scores(scores, score_width=1.0, rng=rng)
    assert found.n_shared[0] == 0
    assert np.isnan([found.difference[0], found.p_value[0], found.p_adjusted[0]]).all()
    assert found.verdict[0, 1] == 0


def test_equal_models_are_seldom_called_different(rng):
    # Holm at 0.05 over 10 pairs of equal models: at most 5 % of worlds name any; four standard errors of 200 worlds.
    false_calls = [
        bool(compare_mean_scores(rng.binomial(1, 0.6, size=(60, 5)).astype(float), rng=rng).verdict.any())
        for _ in range(200)
    ]
    assert np.mean(false_calls) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_judged_models_are_compared_by_strength_within_components_only(rng):
    item = np.repeat(np.arange(60), 2)
    winner, loser = np.tile([0, 2], 60), np.tile([1, 3], 60)
    flip = rng.uniform(size=120) < 0.2
    winner, loser = np.where(flip, loser, winner), np.where(flip, winner, loser)
    compared = np.zeros((4, 4))
    compared[0, 1] = compared[2, 3] = 1
    strengths = estimate_strengths_from_votes(
        item, winner, loser, draw_item_resamples(60, 300, rng), n_models=4, was_compared=compared
    )
    found = compare_strengths(strengths, np.full((4, 4), 60))
    assert found.verdict[0, 1] == 1
    assert found.verdict[2, 3] == 1
    assert found.verdict[0, 3] == 0
    assert np.isnan(found.difference[2])


def test_large_tables_keep_the_best_and_the_neighbours():
    keep = pairs_worth_showing(np.arange(310), largest_complete=300, n_best=100)
    assert keep.sum() == 100 * 99 // 2 + (310 - 100)
