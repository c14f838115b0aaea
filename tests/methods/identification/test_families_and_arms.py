"""Who teaches and who is examined: families stay together, splits hang on names alone, arm sets have their gap."""

import numpy as np
import pytest

from capeval_pipeline.methods.identification.arm_sets import best_gap_of, choose_arms
from capeval_pipeline.methods.identification.families import near_duplicate_families, split_by_family


def test_models_that_agree_on_995_of_1000_items_are_family_and_on_994_are_not():
    rng = np.random.default_rng(0)
    base = (rng.random(1000) < 0.5).astype(float)
    near, far = base.copy(), base.copy()
    near[:5] = 1 - near[:5]
    far[:6] = 1 - far[:6]
    assert near_duplicate_families(np.array([base, near])).tolist() == [0, 0]
    assert near_duplicate_families(np.array([base, far])).tolist() == [0, 1]


def test_one_of_100_items_apart_is_no_family():
    base = np.tile([0.0, 1.0], 50)
    other = base.copy()
    other[0] = 1.0  # 99 % agree; 99.5 % of 100 items are all of them
    assert near_duplicate_families(np.array([base, other, base])).tolist() == [0, 1, 0]


def test_families_join_transitively():
    rng = np.random.default_rng(1)
    chain = [(rng.random(1000) < 0.5).astype(float)]
    for link in range(3):
        following = chain[-1].copy()
        following[5 * link : 5 * link + 5] = 1 - following[5 * link : 5 * link + 5]
        chain.append(following)
    stranger = (rng.random(1000) < 0.5).astype(float)
    assert near_duplicate_families(np.array([stranger, *chain])).tolist() == [0, 1, 1, 1, 1]


def test_graded_scores_with_many_values_are_compared_too():
    rng = np.random.default_rng(2)
    scores = rng.random((5, 400))
    scores[3] = scores[1]
    scores[3, :2] = 0.5
    assert near_duplicate_families(scores).tolist() == [0, 1, 2, 1, 4]


def test_both_ways_of_counting_agreement_agree():
    rng = np.random.default_rng(3)
    few = rng.integers(0, 5, size=(40, 200)) / 4
    few[7] = few[3]
    few[30] = few[7]
    noise = few + np.where(np.arange(200) == 0, rng.random((40, 1)) * 1e-3, 0)  # many values, one item changed
    assert near_duplicate_families(few).tolist() == near_duplicate_families(noise).tolist()


def test_declared_look_alikes_join_without_equal_answers():
    scores = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert near_duplicate_families(scores, [(2, 0)]).tolist() == [0, 1, 0]


def test_no_family_is_on_both_sides_and_the_share_is_about_two_fifths():
    ids = [f"model{i:04}" for i in range(1000)]
    families = np.arange(1000) // 2 * 2
    split = split_by_family(families, ids, max_training=1000)
    assert not set(families[split.training]) & set(families[split.arms])
    assert sorted([*split.training, *split.arms]) == list(range(1000))
    # 500 families at .4: standard deviation of the share .022.
    assert split.training.size / 1000 == pytest.approx(0.4, abs=4 * 0.022)


def test_a_new_model_moves_no_old_one():
    ids = [f"m{i}" for i in range(60)]
    old = split_by_family(np.arange(60), sorted(ids))
    grown = sorted([*ids, "m1x"])
    new = split_by_family(np.arange(61), grown)
    before = {sorted(ids)[i] for i in old.training}
    assert {grown[i] for i in new.training} - {"m1x"} == before


def test_at_most_as_many_training_models_as_asked_for():
    ids = [f"m{i:03}" for i in range(200)]
    split = split_by_family(np.arange(200), ids, max_training=30)
    assert split.training.size == 30
    assert split.arms.size == 170


def test_another_seed_splits_otherwise():
    ids = [f"m{i:03}" for i in range(100)]
    first, second = (split_by_family(np.arange(100), ids, seed=seed).training.tolist() for seed in (0, 1))
    assert first != second


def test_all_models_are_arms_when_they_are_few_enough():
    assert choose_arms(np.linspace(0, 1, 7), 7, None, np.random.default_rng(0)).tolist() == list(range(7))


def test_arm_sets_have_their_gap_and_their_size():
    means = np.sort(np.random.default_rng(4).random(300))
    for seed in range(20):
        arms = choose_arms(means, 50, (0.01, 0.02), np.random.default_rng(seed))
        assert arms.size == 50
        assert (np.diff(arms) > 0).all()
        assert 0.01 <= best_gap_of(means[arms]) <= 0.02


def test_an_impossible_gap_is_refused():
    with pytest.raises(ValueError, match="no two of the models"):
        choose_arms(np.array([0.1, 0.5, 0.9]), 3, (0.05, 0.1), np.random.default_rng(0))


def test_ties_have_no_gap_and_a_single_arm_none_at_all():
    assert best_gap_of(np.array([0.7, 0.7, 0.1])) == 0
    assert np.isnan(best_gap_of(np.array([0.7])))
