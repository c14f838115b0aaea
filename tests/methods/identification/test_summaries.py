"""Figures from runs: shares, first crossings, savings and ceilings, with the arithmetic shown."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.methods.identification.records import Predictor, default_batch, default_pull_budgets
from capeval_pipeline.methods.identification.study import plain_n_runs
from capeval_pipeline.methods.identification.summaries import (
    bootstrap_counts,
    isotonic,
    pairing_ratio,
    pulls_for_target,
    pulls_with_interval,
    residual_variance_ratio,
    saving_with_interval,
    standardised_mean,
    wilson_interval,
)
from capeval_pipeline.methods.item_factors import PairMoments


def test_wilson_limits_of_8_of_10():
    # (p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    assert wilson_interval(8, 10) == pytest.approx((0.49016, 0.94331), abs=1e-4)


def test_wilson_limits_reach_the_ends():
    assert wilson_interval(0, 5)[0] == 0
    assert wilson_interval(5, 5)[1] == 1


def test_a_share_of_no_runs_is_refused():
    with pytest.raises(ValueError, match="no runs"):
        wilson_interval(0, 0)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_isotonic_is_monotone_and_keeps_the_mean(values):
    fitted = isotonic(np.array(values))
    assert (np.diff(fitted) >= -1e-12).all()
    assert fitted.mean() == pytest.approx(np.mean(values), abs=1e-9)


def test_a_target_never_reached_has_no_pulls():
    assert math.isnan(pulls_for_target(np.array([10.0, 20.0]), np.array([0.5, 0.9]), 0.95))


def test_a_target_reached_at_once_costs_the_first_budget():
    assert pulls_for_target(np.array([10.0, 20.0]), np.array([0.96, 1.0]), 0.95) == 10


def test_saving_of_a_policy_that_needs_half_the_calls():
    budgets = np.array([100, 200, 400])
    reference = np.tile([False, False, True], (40, 1))
    own = np.tile([False, True, True], (40, 1))
    weights = bootstrap_counts(np.random.default_rng(0), 40, 50)
    # Crossings at 100 * 2^.95 and 200 * 2^.95, in every resample.
    saving = saving_with_interval(own, reference, budgets, 0.95, weights)
    assert (saving.value, saving.lower, saving.upper) == pytest.approx((0.5, 0.5, 0.5))
    pulls = pulls_with_interval(own, budgets, 0.95, weights)
    assert pulls.value == pytest.approx(100 * 2**0.95)


def test_a_policy_that_never_arrives_has_neither_pulls_nor_saving():
    budgets = np.array([100, 200])
    never = np.zeros((30, 2), dtype=bool)
    always = np.ones((30, 2), dtype=bool)
    weights = bootstrap_counts(np.random.default_rng(0), 30, 20)
    assert math.isnan(pulls_with_interval(never, budgets, 0.95, weights).value)
    assert math.isnan(saving_with_interval(never, always, budgets, 0.95, weights).value)
    assert math.isnan(saving_with_interval(always, never, budgets, 0.95, weights).value)


def test_resampled_weights_are_shares_and_repeat_with_their_seed():
    first, second = (bootstrap_counts(np.random.default_rng(7), 25, 10) for _ in range(2))
    assert first.sum(axis=1) == pytest.approx(np.ones(10))
    assert (first == second).all()


def test_standardised_mean_is_mean_over_standard_error():
    assert standardised_mean(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / (1 / math.sqrt(3)))
    assert math.isnan(standardised_mean(np.array([1.0])))


def test_twins_have_pairing_ratio_0_and_opposites_2():
    answers = np.array([1.0, 0.0, 1.0, 0.0])
    assert pairing_ratio(np.array([answers, answers])) == 0
    assert pairing_ratio(np.array([answers, 1 - answers])) == pytest.approx(2)


def test_perfect_predictions_leave_little_variance_and_constant_ones_all_of_it():
    rng = np.random.default_rng(5)
    truth = (rng.random(400) < 0.5).astype(float)
    factors = (20 * (truth - 0.5))[:, None]
    moments = PairMoments(0.25, 0.25, 0.25)
    sharp = Predictor(factors, np.ones(1), 1.0, moments)
    blunt = Predictor(np.zeros((400, 1)), np.ones(1), 1.0, moments)
    assert residual_variance_ratio(truth[None, :], sharp, rng=rng) < 0.01
    assert residual_variance_ratio(truth[None, :], blunt, rng=rng) == 1


@pytest.mark.parametrize(("n_items", "batch"), [(3, 5), (486, 12), (1000, 25), (12_032, 32)])
def test_batch_is_a_fortieth_within_5_and_32(n_items, batch):
    assert default_batch(n_items) == batch


def test_default_budgets_run_from_one_sweep_to_every_cell():
    budgets = default_pull_budgets(200, 486, 12)
    assert (budgets[0], budgets[-1], budgets.size) == (2400, 97_200, 24)
    assert default_pull_budgets(2, 1, 5).tolist() == [2]


@pytest.mark.parametrize(("n_arms", "n_items", "n_runs"), [(10, 100, 104), (200, 300, 50), (200, 1000, 32)])
def test_plain_runs_follow_from_sizes_alone(n_arms, n_items, n_runs):
    assert plain_n_runs(n_arms, n_items) == n_runs
