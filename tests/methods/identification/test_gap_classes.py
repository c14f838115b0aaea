"""Difficulty by gap: subsets of a benchmark's own models, each in the class it is counted in."""

import numpy as np
import pytest

from capeval_pipeline.methods.identification.gap_classes import (
    GAP_CLASSES,
    gap_class_runs,
    run_gap_classes,
    subset_size,
)
from capeval_pipeline.methods.identification.records import ReplaySettings
from capeval_pipeline.methods.identification.study import StudyWorld


def world(means: list[float], n_items: int = 100) -> StudyWorld:
    """Arms whose scores are 1 on the first items, as many as their mean says."""
    scores = (np.arange(n_items)[None, :] < np.round(np.array(means) * n_items)[:, None]).astype(float)
    settings = ReplaySettings(batch=5, pull_budgets=np.array([scores.size]))
    return StudyWorld(scores, settings, n_arms=200)


def test_every_run_of_a_class_has_its_gap_and_classes_cover_all_gaps():
    rng = np.random.default_rng(0)
    found = run_gap_classes(world(list(rng.random(60)), 400), ["uniform", "race"], target_accuracy=0.9, n_runs=6)
    limits = {name: (low, following) for name, low, following in GAP_CLASSES}
    assert {own.name for own in found} == set(limits)
    for own in found:
        low, following = limits[own.name]
        assert (own.gaps >= low - 1e-12).all()
        assert (own.gaps < following).all()
        assert own.summary.n_runs == own.gaps.size == 6
    assert [limits[low][1] for low in list(limits)[:-1]] == [limits[high][0] for high in list(limits)[1:]]


def test_a_class_no_subset_is_in_is_left_out():
    # Means .1 apart: only the widest class has subsets.
    found = run_gap_classes(world([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), ["uniform"], target_accuracy=0.9, n_runs=3)
    assert [own.name for own in found] == ["≥.04"]


def test_ties_belong_to_the_closest_class():
    found = run_gap_classes(world([0.5, 0.5, 0.1, 0.1]), ["uniform"], target_accuracy=0.9, n_runs=3)
    assert [own.name for own in found] == ["<.005", "≥.04"]
    assert (found[0].gaps == 0).all()


def test_close_rivals_cost_more():
    rng = np.random.default_rng(1)
    found = run_gap_classes(world(list(rng.random(60)), 400), ["race"], target_accuracy=0.9, n_runs=8)
    shares = {own.name: own.certificate_shares.mean() for own in found}
    assert shares["<.005"] > shares["≥.04"]


def test_no_policy_gives_no_class():
    assert run_gap_classes(world([0.1, 0.5]), [], target_accuracy=0.9, n_runs=2) == ()


@pytest.mark.parametrize(
    ("n_arms", "n_items", "size"), [(200, 486, 24), (200, 12_032, 8), (9, 300, 4), (3, 300, 2), (30, 2_000, 12)]
)
def test_a_subset_is_small_enough_to_differ_from_the_next(n_arms, n_items, size):
    assert subset_size(n_arms, n_items) == size


def test_all_classes_together_cost_about_one_study():
    # 5 classes x 24 models x 1,000 items: 25 runs would be 3 million calls a policy, and 32 is the least.
    assert gap_class_runs(200, 1_000) == 32
    assert gap_class_runs(200, 486) == 3_000_000 // (5 * 24 * 486)
