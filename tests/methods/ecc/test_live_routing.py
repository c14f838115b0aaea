"""Routing one item from published arrays agrees with the fit they came from."""

import numpy as np
import pytest

from capeval_pipeline.methods.ecc.evaluation import evaluation_pairs
from capeval_pipeline.methods.ecc.fit import fit_ecc, fit_global
from capeval_pipeline.methods.ecc.inference import place_probes, place_texts
from capeval_pipeline.methods.ecc.live_routing import (
    PublishedClusters,
    centres_of,
    least_known_cosine,
    route_item,
)
from tests.methods.ecc.worlds import planted_world


@pytest.fixture
def world(rng):
    return planted_world(rng, n_items=300)


@pytest.fixture
def fit(world):
    return fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0, n_restarts=3)


def published(world, fit, **changes):
    centres = centres_of(fit.responsibilities, world.embeddings)
    return PublishedClusters(
        **{
            "centres": centres,
            "least_cosine": least_known_cosine(centres, world.embeddings),
            "strengths": fit.strengths,
            "is_compared": np.ones(fit.strengths.shape, dtype=bool),
            "costs": np.tile(np.arange(1.0, 9.0), (4, 1)),
            "global_strengths": fit_global(world.votes),
            "global_costs": np.arange(1.0, 9.0),
            "embedding_weight": 3.0,
            "temperature": 0.1,
        }
        | changes
    )


def test_an_item_is_placed_as_the_fit_places_it(world, fit):
    clusters = published(world, fit)
    placed = place_texts(fit, world.embeddings)
    pairs = evaluation_pairs(world.votes)
    with_probe = place_probes(fit, world.embeddings, pairs.probe_winner, pairs.probe_loser)
    for q in range(20):
        found = route_item(clusters, world.embeddings[q])
        # Centres are those of the last responsibilities, the fit's of those a pass before; w / T = 30 turns what the
        # stop rule lets through, some 1e-3 of a cosine, into some hundredths of a share.
        assert found.responsibilities == pytest.approx(placed[q], abs=0.05)
        observed = (int(pairs.probe_winner[q]), int(pairs.probe_loser[q]))
        seen = route_item(clusters, world.embeddings[q], observed=observed)
        assert seen.responsibilities == pytest.approx(with_probe[q], abs=0.05)
        assert found.chosen == int(np.argmax(found.responsibilities @ fit.strengths)) or found.is_unlike


def test_one_in_a_hundred_of_the_items_themselves_is_unlike_the_others(world, fit):
    clusters = published(world, fit)
    share = np.mean([route_item(clusters, vector).is_unlike for vector in world.embeddings])
    assert share == pytest.approx(0.01, abs=1 / 300)


def test_a_text_that_says_nothing_is_unlike_anything(world, fit):
    found = route_item(published(world, fit), np.zeros(16))
    assert found.is_unlike
    assert found.chosen == int(np.argmax(fit_global(world.votes)))


def test_win_probabilities_of_two_models_are_those_of_their_gap(world, fit):
    clusters = published(
        world, fit, strengths=np.tile([1.0, 0.0], (4, 1)), is_compared=np.ones((4, 2), dtype=bool),
        costs=np.full((4, 2), np.nan), global_strengths=np.array([1.0, 0.0]), global_costs=np.full(2, np.nan),
    )  # fmt: skip
    found = route_item(clusters, world.embeddings[0])
    assert found.win_probability == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))])


def test_an_empty_cluster_takes_no_share(world, fit):
    responsibilities = np.column_stack([fit.responsibilities, np.zeros(300)])
    centres = centres_of(responsibilities, world.embeddings)
    assert not centres[4].any()
    clusters = published(
        world, fit, centres=centres, strengths=np.vstack([fit.strengths, np.full(8, 9.0)]),
        is_compared=np.ones((5, 8), dtype=bool), costs=np.ones((5, 8)),
    )  # fmt: skip
    assert route_item(clusters, world.embeddings[0]).responsibilities[4] == 0.0


def test_an_unknown_cost_is_not_within_any_budget(world, fit):
    costs = np.full((4, 8), np.nan)
    clusters = published(world, fit, costs=costs, global_costs=np.full(8, np.nan))
    assert route_item(clusters, world.embeddings[0], cost_budget=100.0).chosen == -1
    assert route_item(clusters, world.embeddings[0]).chosen >= 0
