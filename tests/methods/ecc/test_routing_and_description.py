"""Routers on hand-made scores; words for clusters."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import adjusted_rand_score

from capeval_pipeline.methods.ecc.description import (
    adjusted_rand_index,
    category_shares,
    telling_terms,
    typical_items,
    without_boilerplate,
)
from capeval_pipeline.methods.ecc.routing import evaluate_random_router, evaluate_router, oracle_choice

SCORES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
COSTS = np.array([[2.0, 1.0]] * 4)
WEIGHTS = np.ones((3, 4))


def test_constant_random_and_oracle_routers_by_hand():
    best = evaluate_router(SCORES, COSTS, np.zeros(4, dtype=int), global_best=0, weights=WEIGHTS)
    assert (best.mean_score, best.mean_cost, best.share_of_oracle_gain) == (0.75, 2.0, 0.0)
    oracle = evaluate_router(SCORES, COSTS, oracle_choice(SCORES, COSTS), global_best=0, weights=WEIGHTS)
    # Items 1 and 3 go to the cheap model: 2 + 1 + 2 + 1.
    assert (oracle.mean_score, oracle.mean_cost, oracle.share_of_oracle_gain) == (1.0, 1.5, 1.0)
    random = evaluate_random_router(SCORES, COSTS, global_best=0, weights=WEIGHTS)
    assert (random.mean_score, random.mean_cost) == (0.625, 1.5)


def test_a_probe_is_paid_for_once():
    probes = (np.array([0, 0, -1, -1]), np.array([1, 1, -1, -1]))
    found = evaluate_router(SCORES, COSTS, np.zeros(4, dtype=int), global_best=0, probes=probes, weights=WEIGHTS)
    assert found.mean_cost == (3 + 3 + 2 + 2) / 4


def test_an_unknown_cost_that_is_needed_makes_the_mean_unknown_and_another_does_not():
    costs = COSTS.copy()
    costs[0, 1] = np.nan
    to_first = evaluate_router(SCORES, costs, np.zeros(4, dtype=int), global_best=0, weights=WEIGHTS)
    to_second = evaluate_router(SCORES, costs, np.ones(4, dtype=int), global_best=0, weights=WEIGHTS)
    assert to_first.mean_cost == 2.0
    assert np.isnan(to_second.mean_cost)


def test_without_room_above_the_best_model_there_is_no_share():
    scores = np.array([[1.0, 0.0], [1.0, 0.5]])
    found = evaluate_router(scores, None, np.zeros(2, dtype=int), global_best=0, weights=np.ones((2, 2)))
    assert np.isnan(found.share_of_oracle_gain)
    assert np.isnan(found.mean_cost)


def test_adjusted_rand_index_agrees_with_scikit_learn(rng):
    for _ in range(5):
        first, second = rng.integers(4, size=60), rng.integers(3, size=60)
        assert adjusted_rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second))
    assert adjusted_rand_index(first, first) == 1.0


def test_categories_of_hard_clusters_are_counts():
    responsibilities = np.eye(2)[[0, 0, 0, 1]]
    of_cluster, of_category, lift = category_shares(responsibilities, np.array([0, 0, 1, -1]), 2)
    assert of_cluster[0].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert of_category[0].tolist() == [1.0, 1.0]
    assert lift[0].tolist() == pytest.approx([1.0, 1.0])
    assert np.isnan(of_cluster[1]).all()


def test_terms_that_tell_a_cluster_are_frequent_inside_and_rare_outside():
    matrix = csr_matrix(np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]))
    terms = telling_terms(matrix, ["algebra", "the", "poem"], np.eye(2)[[0, 0, 1]])
    assert terms == [["algebra"], ["poem"]]


def test_typical_items_prefer_different_texts():
    responsibilities, cosines = np.ones((4, 1)), np.array([[0.9], [0.8], [0.7], [0.6]])
    found = typical_items(responsibilities, cosines, np.array([0, 0, 1, 2]), n_items=3)
    assert found == [[0, 2, 3]]


def test_what_many_texts_begin_and_end_with_is_left_out():
    shots = "Answer with a letter. Question: which palms are warm? Answer: dry ones. Question: "
    end = " Print only a single letter of those above, and say nothing that would explain it."
    asked = [f"what is {n} times {n + 1}?" for n in range(25)]
    found = without_boilerplate([shots + text + end for text in asked] + ["a poem about the sea"])
    # "what is" and the question mark go or stay with the rest; the palms are gone, the numbers are not.
    assert not any("palms" in text or "explain" in text for text in found)
    assert all(f"{n} times {n + 1}" in text for n, text in enumerate(found[:25]))
    assert found[25] == "a poem about the sea"


def test_what_few_texts_share_and_texts_that_are_all_the_same_stay():
    long = "a beginning that is long enough to count, if only enough of the texts had it: "
    few = [f"{long}{n}" for n in range(19)]
    assert without_boilerplate(few) == few
    assert without_boilerplate([long] * 50) == [long] * 50
    assert without_boilerplate([]) == []
