"""A router that knows clusters: what it learns, what it may not see, and what it is compared with."""

import numpy as np
import pytest

from capeval_pipeline.methods.frontier.cluster_router import cluster_router_curve, one_hot


def two_topics(n_items=400):
    """Model 0 is right in topic 0, model 1 in topic 1; model 1 costs three times as much."""
    topic = np.arange(n_items) % 2
    quality = np.stack([topic == 0, topic == 1], axis=1).astype(float)
    cost = np.tile([1.0, 3.0], (n_items, 1))
    return np.eye(2)[topic], quality, cost, np.arange(n_items) % 4 >= 2


def test_a_router_that_knows_the_topic_is_always_right():
    responsibility, quality, cost, is_test = two_topics()
    router = cluster_router_curve(quality, cost, responsibility, is_test, np.array([0.0, 10.0]))
    assert router.quality[-1] == 1.0
    assert router.cost[-1] == pytest.approx(2.0)  # half the items at 1, half at 3
    assert (router.cost[0], router.quality[0]) == (1.0, 0.5)  # a dollar is worth more than any answer: the cheap model
    assert router.quality_at(1.5) == pytest.approx(0.75)
    assert np.isnan(router.quality_at(0.9))
    assert router.quality_at(9.0) == 1.0


def test_the_choice_rests_on_training_items_alone():
    responsibility, quality, cost, is_test = two_topics()
    scrambled = quality.copy()
    scrambled[is_test] = scrambled[is_test][:, ::-1]
    router = cluster_router_curve(scrambled, cost, responsibility, is_test, np.array([0.0]))
    assert router.quality[0] == 0.0


def test_one_cluster_is_the_best_single_model():
    _, quality, cost, is_test = two_topics()
    quality[:4, 0] = 1.0
    router = cluster_router_curve(quality, cost, np.ones((400, 1)), is_test, np.array([0.0]))
    assert router.best_index == 0
    assert router.quality[0] == router.best_quality


def test_missing_cells_are_never_chosen():
    responsibility, quality, cost, is_test = two_topics()
    quality[is_test, 1] = np.nan
    router = cluster_router_curve(quality, cost, responsibility, is_test, np.array([0.0]))
    assert router.quality[0] == pytest.approx(0.5)
    assert router.cost[0] == 1.0


def test_a_model_without_a_training_item_is_not_free():
    responsibility, quality, cost, is_test = two_topics()
    quality[~is_test, 1] = np.nan
    router = cluster_router_curve(quality, cost, responsibility, is_test, np.array([0.0, 10.0]))
    # Nothing is known of model 1 beforehand: model 0 answers everything at every price.
    assert (router.cost.tolist(), router.quality.tolist()) == ([1.0], [0.5])


def test_items_without_category_share_one():
    assert one_hot(np.array(["b", None, "a", None], dtype=object)).tolist() == [
        [0, 0, 1],
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 0],
    ]


def test_training_and_test_items_are_both_needed():
    responsibility, quality, cost, _ = two_topics()
    with pytest.raises(ValueError, match="training items and test items"):
        cluster_router_curve(quality, cost, responsibility, np.zeros(400, dtype=bool), np.array([0.0]))
