"""Gains, the control, calibration, the baselines and the held-out choice."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from capeval_pipeline.methods.bradley_terry import fit_bradley_terry
from capeval_pipeline.methods.ecc.baselines import fit_human_labels, fit_linear, pair_logits
from capeval_pipeline.methods.ecc.calibration import OFFSET_PENALTY, calibrate_probe, fit_logistic, fit_offset
from capeval_pipeline.methods.ecc.evaluation import estimate_gain, evaluation_pairs
from capeval_pipeline.methods.ecc.fit import fit_ecc, fit_global
from capeval_pipeline.methods.ecc.inference import log_sigmoid
from capeval_pipeline.methods.ecc.selection import choose_settings
from capeval_pipeline.methods.ecc.votes import wins_of_votes
from capeval_pipeline.methods.mean_scores import draw_item_resamples
from tests.methods.ecc.worlds import planted_world


def test_gain_by_hand(rng):
    losses, reference = np.full(40, 0.3), np.full(40, 0.6)
    item = np.repeat(np.arange(20), 2)
    gain = estimate_gain(losses, reference, item, np.ones(40, dtype=bool), draw_item_resamples(20, 100, rng))
    assert gain.gain_percent == pytest.approx(50.0)
    assert [gain.lower, gain.upper] == pytest.approx([50.0, 50.0])


def test_fewer_than_thirty_pairs_make_no_gain(rng):
    gain = estimate_gain(
        np.ones(29), np.ones(29), np.arange(29), np.ones(29, dtype=bool), draw_item_resamples(29, 10, rng)
    )
    assert gain.n_pairs == 29
    assert np.isnan([gain.gain_percent, gain.lower, gain.upper]).all()


def test_subsets_partition_the_pairs_and_carry_over_decides_answers_of_right_and_wrong(rng):
    pairs = evaluation_pairs(planted_world(rng).votes)
    subsets = pairs.subsets
    assert subsets["all"].sum() == subsets["shared"].sum() + subsets["disjoint"].sum()
    assert (pairs.carry_over[pairs.is_shared] == 1).all()
    assert (pairs.carry_over[~pairs.is_shared] == 0).all()


def test_logistic_weights_minimise_their_objective(rng):
    features = rng.normal(loc=(0.5, 0.1), size=(200, 2))
    penalty, centre = np.array([0.0, 0.01]), np.array([1.0, 0.0])

    def objective(w):
        return -log_sigmoid(features @ w).mean() + (penalty * (w - centre) ** 2).sum()

    found = fit_logistic(features, penalty=penalty, centre=centre)
    assert objective(found) <= minimize(objective, centre).fun + 1e-9


def test_certain_carry_over_gets_a_finite_offset(rng):
    # All n pairs carried over, all right: minimise log(1 + exp(-g)) + c g^2, so sigma(-g) = 2 c g.
    offset = fit_offset(np.zeros(50), np.ones(50))
    assert 1 / (1 + np.exp(offset)) == pytest.approx(2 * OFFSET_PENALTY * offset, rel=1e-4)


def test_a_calibrated_probe_is_no_worse_than_without_it_where_it_was_learnt(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=3, embedding_weight=3.0)
    pairs = evaluation_pairs(world.votes)
    full = calibrate_probe(fit, world.embeddings, pairs)
    without = calibrate_probe(fit, world.embeddings, pairs, probe_weights=(0.0,))
    assert full.loss <= without.loss + 1e-12


def test_the_linear_model_is_at_a_stationary_point(rng):
    world = planted_world(rng, n_items=100, n_models=4)
    votes = world.votes
    fit = fit_linear(votes, world.embeddings)
    centred = world.embeddings - fit.mean

    def objective(table):
        table = table.reshape(4, -1)
        strengths = table[:, 0] + centred @ table[:, 1:].T
        gaps = strengths[votes.item, votes.winner] - strengths[votes.item, votes.loser]
        return -(votes.weight_of_item[votes.item] * log_sigmoid(gaps)).sum() + 0.5 * (table**2).sum()

    found = np.column_stack([fit.intercept, fit.slope]).ravel()
    assert check_grad(objective, lambda _: np.zeros(len(found)), found) < 0.01
    assert fit.strengths(world.embeddings).shape == (100, 4)


def test_labels_of_one_category_are_a_shrunk_ranking(rng):
    world = planted_world(rng)
    prior = fit_global(world.votes)
    fit = fit_human_labels(world.votes, np.zeros(world.votes.n_items, dtype=int), 1, prior)
    expected = fit_bradley_terry(wins_of_votes(world.votes, per_item=True), ridge=1.0, prior=prior).strengths
    assert fit.by_category[0] == pytest.approx(expected, abs=1e-6)
    # No category: the ranking of all.
    assert fit.strengths(np.array([-1]))[0].tolist() == prior.tolist()
    assert pair_logits(fit.strengths(np.array([-1])), np.array([0]), np.array([1]), np.array([2]))[0] == pytest.approx(
        prior[1] - prior[2]
    )


def test_the_choice_finds_planted_clusters_and_none_where_there_are_none(rng):
    world = planted_world(rng, n_items=600)
    fold = rng.integers(5, size=600)
    choice = choose_settings(world.votes, world.embeddings, fold, cluster_counts=(1, 3, 6), ridges=(1.0,))
    assert choice.n_clusters >= 3
    assert sum(cell.is_chosen for cell in choice.cells) == 1
    flat = planted_world(rng, n_items=600, n_clusters=1)
    nothing = choose_settings(flat.votes, flat.embeddings, fold, cluster_counts=(1, 3, 6), ridges=(1.0,))
    assert nothing.n_clusters == 1


def test_the_choice_does_not_depend_on_who_computes_the_cells(rng):
    from concurrent.futures import ThreadPoolExecutor

    world = planted_world(rng, n_items=300)
    fold = rng.integers(5, size=300)
    options = {"cluster_counts": (1, 2, 4), "ridges": (1.0, 3.0)}
    alone = choose_settings(world.votes, world.embeddings, fold, **options)
    with ThreadPoolExecutor(2) as pool:
        assert choose_settings(world.votes, world.embeddings, fold, map_cells=pool.map, **options) == alone


def test_more_clusters_than_a_fifth_of_the_items_are_not_tried(rng):
    world = planted_world(rng, n_items=60)
    choice = choose_settings(world.votes, world.embeddings, rng.integers(5, size=60), ridges=(1.0,))
    assert max(cell.n_clusters for cell in choice.cells) == 12
