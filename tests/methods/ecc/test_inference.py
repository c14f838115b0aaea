"""Placing texts and probes: hand-worked mixture, and what a tie says."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from capeval_pipeline.methods.ecc.evaluation import carry_over_signs
from capeval_pipeline.methods.ecc.fit import fit_ecc
from capeval_pipeline.methods.ecc.inference import mixture_probabilities, place_probes, place_texts
from tests.methods.ecc.worlds import planted_world


def hand_worked(shared, name):
    cases = json.loads((shared / "cases" / "bt_small.json").read_text())["cases"]
    return next(case for case in cases if case["name"] == name)


def test_the_mixture_of_two_clusters_is_the_hand_worked_one(shared, rng):
    case = hand_worked(shared, "mixture_of_two_clusters")
    world = planted_world(rng, n_models=2, n_items=20)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=2, embedding_weight=3.0)
    gaps = np.array(case["gap_of_probe_pair"], dtype=float)
    fit = replace(
        fit,
        strengths=np.column_stack([gaps / 2, -gaps / 2]),
        centres=np.diag(case["cosines"]),  # a text of all ones then has these cosines
        embedding_weight=case["embedding_weight"],
        temperature=case["temperature"],
    )
    text, winner, loser = np.ones((1, 2)), np.array([0]), np.array([1])
    found = {
        "emb": place_texts(fit, text),
        "probe": place_probes(fit, None, winner, loser),
        "emb_probe": place_probes(fit, text, winner, loser),
    }
    for inference, responsibilities in found.items():
        # The case states six significant digits.
        expected = case["responsibility_of_second_cluster"][inference]
        assert responsibilities[0, 1] == pytest.approx(expected, abs=1e-6), inference
        p = mixture_probabilities(responsibilities, fit.strengths, np.array([0]), winner, loser)
        assert p[0] == pytest.approx(case["p_same_pair"][inference], abs=1e-6), inference


def test_carry_over_is_the_hand_worked_one(shared):
    case = hand_worked(shared, "carry_over_of_a_probe")
    names = case["models"]
    winner = np.array([names.index(p["winner"]) for p in case["evaluation_pairs"]])
    loser = np.array([names.index(p["loser"]) for p in case["evaluation_pairs"]])
    probe = [np.full(len(winner), names.index(m)) for m in case["probe"]]
    is_shared, sign = carry_over_signs(winner, loser, *probe)
    assert is_shared.tolist() == [p["subset"] == "shared" for p in case["evaluation_pairs"]]
    assert sign.tolist() == [p["s"] for p in case["evaluation_pairs"]]


def test_an_item_without_a_probe_outcome_is_placed_by_its_text_exactly(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    nothing = np.full(world.votes.n_items, -1)
    placed = place_probes(fit, world.embeddings, nothing, nothing)
    assert placed.tobytes() == place_texts(fit, world.embeddings).tobytes()


def test_a_zero_vector_has_a_flat_prior(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    assert place_texts(fit, np.zeros((1, 16)))[0] == pytest.approx(np.full(4, 0.25))


def test_swapping_the_models_of_a_pair_gives_the_complement(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    placed = place_texts(fit, world.embeddings)
    votes = world.votes
    forward = mixture_probabilities(placed, fit.strengths, votes.item, votes.winner, votes.loser)
    backward = mixture_probabilities(placed, fit.strengths, votes.item, votes.loser, votes.winner)
    assert forward + backward == pytest.approx(np.ones(len(forward)), abs=1e-9)
    assert math.isclose(forward.min(), 1 - backward.max(), abs_tol=1e-9)
