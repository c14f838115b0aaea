"""Planted gaps are what they say, and the study of them shows what predictions are worth."""

import numpy as np
import pytest

from capeval_pipeline.methods.identification.gap_study import (
    LOW_RANK,
    PERMUTED,
    identification_gaps,
    make_planted_world,
)


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.04])
def test_the_best_arm_leads_by_the_gap_to_the_nearest_item(gap):
    rng = np.random.default_rng(1)
    world = make_planted_world(gap=gap, n_training=5, n_arms=10, n_items=500, rank=3, rng=rng)
    means = np.sort(world.arms.mean(axis=1))
    assert means[-1] - means[-2] == pytest.approx(gap, abs=0.5 / 500 + 1e-12)
    assert world.gap == pytest.approx(means[-1] - means[-2])
    assert set(np.unique(world.arms)) == {0.0, 1.0}


def test_impossible_gaps_are_refused():
    with pytest.raises(ValueError, match="lead"):
        make_planted_world(gap=0.9, n_training=2, n_arms=3, n_items=50, rank=2, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 2 arms"):
        make_planted_world(gap=0.1, n_training=2, n_arms=1, n_items=50, rank=2, rng=np.random.default_rng(0))


def test_every_world_gap_and_policy_has_its_curve():
    points = identification_gaps(
        gaps=(0.05,), n_training=40, n_arms=6, n_items=60, rank=2, n_runs=4, policies=["uniform", "pulse"]
    )
    keys = {(point.world, point.wanted_gap, point.point.policy) for point in points}
    assert keys == {(world, 0.05, policy) for world in (LOW_RANK, PERMUTED) for policy in ("uniform", "pulse")}
    rows = [(point.world, point.wanted_gap, point.point.policy, point.point.pull_budget) for point in points]
    assert len(rows) == len(set(rows))
    # The last budget reads every cell, so it names a best arm.
    last = max(point.point.pull_budget for point in points)
    assert {point.point.accuracy for point in points if point.point.pull_budget == last} == {1.0}


def test_uniform_does_not_care_about_the_predictor():
    points = identification_gaps(
        gaps=(0.05,), n_training=40, n_arms=6, n_items=60, rank=2, n_runs=4, policies=["uniform"]
    )
    curves = {
        world: [point.point.accuracy for point in points if point.world == world] for world in (LOW_RANK, PERMUTED)
    }
    assert curves[LOW_RANK] == curves[PERMUTED]
