"""Retries, the best model on few items, and curves' simultaneous limits: closed forms and enumeration."""

import itertools

import numpy as np
import pytest

from capeval_pipeline.methods.frontier import best_of_k_beta_draws, cost_until_success, draws_until_success
from capeval_pipeline.methods.frontier.cluster_router import cluster_router_curve
from capeval_pipeline.methods.frontier.single_models import held_out_best


@pytest.mark.parametrize("n_right", [0, 1, 3, 4])
def test_draws_until_success_equal_the_mean_over_all_orders(n_right):
    draws = [1] * n_right + [0] * (4 - n_right)
    for k in (1, 2, 3, 4):
        stopped = [next((i + 1 for i, right in enumerate(o[:k]) if right), k) for o in itertools.permutations(draws)]
        assert draws_until_success(n_right, 4, k) == pytest.approx(np.mean(stopped), abs=1e-12)
    assert np.isnan(draws_until_success(n_right, 4, 5))


def test_draws_until_success_are_unbiased_for_the_cost_of_stopping(rng):
    p, k, right = 0.3, 3, rng.binomial(5, 0.3, 200_000)
    found = draws_until_success(right, np.full(right.shape, 5), k)
    # Four standard errors.
    assert abs(found.mean() - cost_until_success(p, 1.0, k)) < 4 * found.std() / np.sqrt(len(found))


def test_best_of_k_uniform_draws_is_k_over_k_plus_1():
    # Beta(1, 1): spread 2 at mean ½.
    for k in (2, 3, 8):
        assert best_of_k_beta_draws([0.5], 2.0, k) == pytest.approx([k / (k + 1)], abs=1e-3)


def test_best_of_k_graded_draws_keeps_the_ends_and_the_single_draw(rng):
    mean = np.array([0.0, 0.3, 1.0, np.nan])
    assert best_of_k_beta_draws(mean, 6.0, 1)[:3] == pytest.approx(mean[:3])
    best = best_of_k_beta_draws(mean, 6.0, 4)
    assert (best[0], best[2]) == (0.0, 1.0) and np.isnan(best[3])
    drawn = rng.beta(6 * 0.3, 6 * 0.7, (100_000, 4)).max(axis=1)
    assert best[1] == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(100_000) + 1e-3)


def test_best_of_k_draws_of_right_or_wrong_is_the_closed_form():
    assert best_of_k_beta_draws([0.2, 0.0], 0.0, 3) == pytest.approx([1 - 0.8**3, 0.0])


def test_the_best_of_equal_models_is_luck_that_held_out_items_do_not_share():
    gap_plain, gap_held = [], []
    for seed in range(40):
        rng = np.random.default_rng([5, seed])
        quality = rng.binomial(5, 0.6, (100, 12)) / 5
        gap_plain.append(quality.mean(axis=0).max() - 0.6)
        gap_held.append(held_out_best(quality, rng=rng) - 0.6)
    # The standard error of one model's mean is .022 and the largest of 12 lies 1.63 of them up: .036.
    assert np.mean(gap_plain) == pytest.approx(0.036, abs=0.006)
    assert abs(np.mean(gap_held)) < 4 * np.std(gap_held) / np.sqrt(40)
    assert np.isnan(held_out_best(np.ones((3, 2)), rng=np.random.default_rng(0)))


def test_a_router_has_limits_around_its_curve_and_its_gain(rng):
    topic = np.repeat([0, 1], 300)
    right = np.where(topic[:, None] == np.arange(2), 0.8, 0.4)
    quality = (rng.random((600, 2)) < right).astype(float)
    cost = np.ones((600, 2))
    is_test = np.arange(600) % 2 == 0
    router = cluster_router_curve(quality, cost, np.eye(2)[topic], is_test, np.array([0.0, 0.1, 1.0]))
    assert (router.lower < router.quality).all() and (router.quality < router.upper).all()
    low, high = router.gain_limits(400, np.random.default_rng(1))
    # .8 for each topic against .6 of either model; the standard error over 300 items is about .036.
    assert low < 0.2 < high and high - low < 0.25
