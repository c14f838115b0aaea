"""Mean scores: closed forms of the exact bounds, no interval of width 0, coverage."""

import math

import numpy as np
import pytest

from capeval_pipeline.methods.mean_scores import (
    clopper_pearson,
    draw_item_resamples,
    empirical_bernstein_radius,
    estimate_mean_scores,
)


def test_clopper_pearson_has_its_closed_forms_at_the_ends():
    lower, upper = clopper_pearson(np.array([0, 10]), np.array([10, 10]))
    assert lower[0] == 0.0
    assert upper[0] == pytest.approx(1 - 0.025 ** (1 / 10))
    assert lower[1] == pytest.approx(0.025 ** (1 / 10))
    assert upper[1] == 1.0


def test_empirical_bernstein_bound_is_the_formula():
    expected = math.sqrt(2 * 0.04 * math.log(80) / 50) + 7 * math.log(80) / (3 * 49)
    assert empirical_bernstein_radius(0.04, 50, 1.0) == pytest.approx(expected)
    assert math.isinf(empirical_bernstein_radius(0.0, 1, 1.0))


def test_each_row_of_a_resample_keeps_the_number_of_items(rng):
    weights = draw_item_resamples(57, 130, rng)
    assert weights.sum(axis=1).tolist() == [57.0] * 130


def test_means_are_plain_means_of_what_was_seen(rng):
    scores = rng.uniform(size=(200, 4))
    scores[rng.uniform(size=scores.shape) < 0.2] = np.nan
    found = estimate_mean_scores(scores, draw_item_resamples(200, 50, rng), score_low=0, score_high=1)
    for m in range(4):
        seen = [s for s in scores[:, m] if not math.isnan(s)]
        assert abs(found.mean[m] - math.fsum(seen) / len(seen)) <= 1e-12
        assert found.n_items[m] == len(seen)


def test_no_interval_from_a_sample_has_width_zero(rng):
    scores = np.column_stack([np.ones(100), np.zeros(100), np.full(100, 0.4)])
    found = estimate_mean_scores(scores, draw_item_resamples(100, 200, rng), score_low=0, score_high=1)
    assert (found.upper - found.lower > 0.01).all()
    assert found.lower[0] == pytest.approx(0.025 ** (1 / 100))


def test_without_a_declared_range_a_flat_sample_has_an_unknown_interval(rng):
    found = estimate_mean_scores(
        np.full((100, 1), 7.0), draw_item_resamples(100, 50, rng), score_low=None, score_high=None
    )
    assert np.isnan(found.lower[0])
    assert found.mean[0] == 7.0


def test_a_model_without_scores_is_unknown(rng):
    found = estimate_mean_scores(
        np.full((40, 1), np.nan), draw_item_resamples(40, 50, rng), score_low=0.0, score_high=1.0
    )
    assert np.isnan([found.mean[0], found.lower[0], found.upper[0]]).all()
    assert found.n_items[0] == 0


def test_intervals_cover_the_true_mean_at_their_level(rng):
    # 300 models as 300 samples of 80 items; four standard errors of a 95 % share, and 1 point for the percentile
    # interval's known shortfall at n = 80 (its width is that of divisor n, not n - 1, and normal, not t).
    scores = rng.binomial(1, 0.7, size=(80, 300)).astype(float)
    found = estimate_mean_scores(scores, draw_item_resamples(80, 1000, rng), score_low=0, score_high=1)
    covered = np.mean((found.lower <= 0.7) & (found.upper >= 0.7))
    assert covered > 0.95 - 0.01 - 4 * math.sqrt(0.95 * 0.05 / 300)
