"""PULSE on two planted worlds: it saves where predictions are right, and costs nothing where they are useless.

Bounds are those of the design; truth.json has ranges of an independent implementation (middle 98 % of paired runs).
"""

import json
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.methods.identification.summaries import residual_variance_ratio
from tests.cases.pulse_studies import calls, study, width


@pytest.fixture(scope="module")
def lowrank(shared: Path):
    folder = shared / "cases" / "pulse_lowrank_gap02"
    return *study(folder, ["uniform", "ucb_e", "pulse"]), json.loads((folder / "truth.json").read_text())


@pytest.fixture(scope="module")
def useless(shared: Path):
    return study(shared / "cases" / "pulse_useless", ["ucb_e", "naive_pooling", "pulse"])


@pytest.mark.parametrize("name", ["uniform", "ucb_e", "pulse"])
def test_figures_lie_in_the_ranges_of_the_independent_implementation(lowrank, name):
    # A weak baseline would make a false saving: the baselines must be as good as they are elsewhere.
    world, runs, summaries, truth = lowrank
    expected = truth["expected"][name]
    assert expected["mean_error_range"][0] <= summaries[name].mean_error <= expected["mean_error_range"][1]
    for target in (90, 95):
        low, high = expected[f"pulls_for_{target}_range"]
        assert low <= calls(runs[name], world, target / 100) <= high


def test_predictions_that_are_right_save_calls(lowrank):
    world, runs, summaries, _ = lowrank
    assert summaries["ucb_e"].mean_error - summaries["pulse"].mean_error >= 0.025
    assert calls(runs["pulse"], world, 0.9) / calls(runs["ucb_e"], world, 0.9) <= 0.90
    assert calls(runs["pulse"], world, 0.95) / calls(runs["ucb_e"], world, 0.95) <= 0.96
    assert summaries["pulse"].saving.lower > 0


def test_the_ceiling_of_the_saving_is_that_of_the_planted_world(lowrank):
    world, _, _, truth = lowrank
    ratio = residual_variance_ratio(world.scores, world.predictor, rng=np.random.default_rng(0))
    assert ratio == pytest.approx(truth["residual_variance_ratio_top15"]["50"], abs=0.03)


def test_intervals_hold_and_are_as_narrow_as_promised(lowrank):
    world, runs, summaries, _ = lowrank
    pulse = summaries["pulse"]
    # 104 runs at a failure probability of at most .1: .9 less 3 standard errors.
    assert pulse.coverage_simultaneous >= 0.9 - 3 * np.sqrt(0.09 / 104)
    assert width(runs["pulse"], world, "betting") <= 0.85 * width(runs["pulse"], world, "empirical_bernstein")
    assert width(runs["pulse"], world, "betting") <= 0.70 * width(runs["pulse"], world, "freedman_plugin")
    assert abs(pulse.bias_z) < 3.5


def test_useless_predictions_cost_nothing(useless):
    world, runs, summaries = useless
    assert abs(summaries["pulse"].mean_error - summaries["ucb_e"].mean_error) <= 0.02
    for target in (0.9, 0.95):
        assert 0.90 <= calls(runs["pulse"], world, target) / calls(runs["ucb_e"], world, target) <= 1.08
    assert summaries["pulse"].coverage_simultaneous >= 0.9 - 3 * np.sqrt(0.09 / 104)
    assert abs(summaries["pulse"].bias_z) < 3.5


def test_useless_predictions_mislead_whoever_trusts_them(useless):
    world, runs, _ = useless
    assert calls(runs["naive_pooling"], world, 0.95) / calls(runs["ucb_e"], world, 0.95) > 1.1
