"""Cross-fitting and shrinkage: a hand-worked case, the kernel against a plain version, and what chance does to it."""

import itertools
import json

import numpy as np
import pytest

from capeval_pipeline.methods.debiasing.cross_fit import (
    additive_fit,
    halves_support,
    keyed_held_out,
    leave_one_out_value,
    shrunken_scores,
)
from capeval_pipeline.methods.debiasing.naive import jackknife_variance_of_best
from capeval_pipeline.methods.synthetic import make_generation_world


def all_splits(n_generations, n_models):
    return np.array(list(itertools.product(range(n_generations), repeat=n_models)))[:, None, :]


def test_one_prompt_two_models_two_draws_by_hand(shared):
    # a = (1, 0), b = (0, 0). Choosing on a's 1 scores its 0; choosing on its 0 is a tie, decided by cost.
    case = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]["cross_fit"]
    scores = np.array([[case["scores"]["a"], case["scores"]["b"]]], dtype=float)
    assert scores.mean(axis=2).max() == case["naive"]
    for row in case["cases"]:
        cost = np.array([[[row["cost_usd"]["a"]] * 2, [row["cost_usd"]["b"]] * 2]], dtype=float)
        value = leave_one_out_value(scores, all_splits(2, 2), within_variance=0.25, cost=cost)
        assert value == pytest.approx([row["value"]])


def test_additive_fit_leaves_missing_cells_out_of_its_means():
    values = np.array([[1.0, 3.0], [3.0, np.nan]])
    # Rows 2 and 3, columns 2 and 3, grand mean 7/3.
    assert additive_fit(values) == pytest.approx(np.array([[2, 3], [3, 4]]) + 2 - 7 / 3)


def test_scores_without_signal_shrink_to_the_additive_fit(rng):
    means = rng.normal(0, 0.1, (200, 5))
    assert np.abs(shrunken_scores(means, 0.0101) - additive_fit(means)).max() < 0.05
    assert shrunken_scores(means, 0.0) == pytest.approx(means)


def test_where_no_choice_helps_cross_fitting_is_unbiased(rng):
    world = make_generation_world("equal_means", n_items=3000, n_models=6, n_generations=3, rng=rng)
    held_out = keyed_held_out(world.scores.shape, 20, rng)
    value = leave_one_out_value(world.scores, held_out, within_variance=0.15, cost=None)
    error = value - world.success_probability.max(axis=1)
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(3000)  # four standard errors


def plain_halves(scores, cost, prices, n_splits, within_variance, rng):
    """The same as loops over items and prices, drawing the same splits."""
    n_items, _, n_generations = scores.shape
    size = n_generations // 2
    value, start = np.zeros((n_items, len(prices))), np.zeros(n_items)
    for _ in range(n_splits):
        order = rng.random(scores.shape).argsort(axis=2)
        shuffled = [np.take_along_axis(values, order, axis=2) for values in (scores, cost)]
        first = [values[:, :, :size].mean(axis=2) for values in shuffled]
        second = [values[:, :, size:].mean(axis=2) for values in shuffled]
        for (score_a, cost_a), (score_b, cost_b), taken in (
            (first, second, size),
            (second, first, n_generations - size),
        ):
            choosing = shrunken_scores(score_a, within_variance / taken)
            for item in range(n_items):
                start[item] += cost_b[item, int(np.nanargmin(cost_a[item]))]
                for index, price in enumerate(prices):
                    chosen = int(np.nanargmax(choosing[item] - price * cost_a[item]))
                    value[item, index] += score_b[item, chosen] - price * cost_b[item, chosen]
    return value / (2 * n_splits), start.mean() / (2 * n_splits)


def test_fast_halves_equal_the_plain_ones(rng):
    scores, cost = rng.random((15, 4, 5)), rng.lognormal(0, 1, (15, 4, 5))
    scores[3, 2], cost[3, 2] = np.nan, np.nan
    prices = np.array([0.0, 0.1, 0.5, 2.0])
    fast = halves_support(scores, cost, prices, n_splits=3, within_variance=0.08, rng=np.random.default_rng(1))
    value, start = plain_halves(scores, cost, prices, 3, 0.08, np.random.default_rng(1))
    assert fast.value == pytest.approx(value, abs=1e-12)
    assert fast.start_cost == pytest.approx(start, abs=1e-12)


def test_fast_jackknife_equals_deleting_each_draw(rng):
    worth = rng.random((6, 3, 4, 1))
    worth[2, 1] = np.nan
    expected = np.zeros(6)
    for item, model in itertools.product(range(6), range(3)):
        if np.isnan(worth[item, model, 0, 0]):
            continue
        deleted = []
        for g in range(4):
            means = [
                np.delete(worth[item, other, :, 0], g).mean() if other == model else worth[item, other, :, 0].mean()
                for other in range(3)
            ]
            deleted.append(max(mean for mean in means if not np.isnan(mean)))
        expected[item] += 3 / 4 * np.sum((np.array(deleted) - np.mean(deleted)) ** 2)
    assert jackknife_variance_of_best(worth)[:, 0] == pytest.approx(expected, abs=1e-12)


def test_one_draw_a_cell_cannot_be_split(rng):
    with pytest.raises(ValueError, match="two draws"):
        leave_one_out_value(np.ones((2, 2, 1)), np.zeros((1, 2, 2), dtype=int), within_variance=0.1, cost=None)
