"""Probing, a new model, an unknown domain: closed forms first, then planted worlds."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from capeval_pipeline.methods.ecc.cold_start import ColdStartJob, _carried_over, _newton, evaluate_cold_start
from capeval_pipeline.methods.ecc.evaluation import Gain, best_of, evaluation_pairs
from capeval_pipeline.methods.ecc.fit import fit_ecc, fit_global
from capeval_pipeline.methods.ecc.inference import log_sigmoid, place_probes, place_texts
from capeval_pipeline.methods.ecc.out_of_domain import DomainJob, leave_domain_out
from capeval_pipeline.methods.ecc.probing import (
    Probes,
    all_decided_pairs,
    ask,
    blended_scores,
    choose_probes,
    evaluate_policies,
    evaluate_probe_draws,
    evaluate_probes,
    expected_information_gain,
    models_to_ask,
    probes_of_votes,
    update_with_probe,
)
from capeval_pipeline.methods.ecc.routing_study import best_on_average, run_routing_study
from capeval_pipeline.methods.ecc.selection import Choice
from capeval_pipeline.methods.ecc.study import EccOptions, EccProblem
from capeval_pipeline.methods.ecc.votes import Votes
from capeval_pipeline.methods.mean_scores import draw_item_resamples
from tests.methods.ecc.worlds import planted_world


@pytest.fixture
def world(rng):
    return planted_world(rng, n_items=500, n_models=10)


def answers_of(rng, world, n_models):
    """Qualities of the same kind as the world's votes: two clusters of models that swap strengths."""
    strengths = np.where(world.cluster[:, None] == 0, 2.0, -2.0) * np.where(np.arange(n_models) < n_models // 2, 1, -1)
    return (rng.uniform(size=strengths.shape) < 1 / (1 + np.exp(-strengths))).astype(float)


def problem_of(rng, n_items=600, n_models=8):
    world = planted_world(rng, n_items=n_items, n_models=n_models, n_clusters=2)
    quality = answers_of(rng, world, n_models)
    item, winner, loser = all_decided_pairs(quality)
    order = np.lexsort((rng.uniform(size=len(item)), item))
    item, winner, loser = item[order], winner[order], loser[order]
    rank = np.arange(len(item)) - np.searchsorted(item, item)
    keep = (rank < 7) & (np.bincount(item, minlength=n_items)[item] >= 2)
    votes = Votes(item[keep], winner[keep], loser[keep], rank[keep], n_items, n_models)
    problem = EccProblem(
        votes=votes,
        embeddings=world.embeddings,
        is_test=np.arange(n_items) % 5 == 0,
        fold=rng.integers(5, size=n_items),
        category=world.category,
        n_categories=2,
    )
    return problem, quality


def test_information_gain_by_hand():
    # Two equally likely clusters that are certain of opposite outcomes: the outcome tells the cluster, ln 2 nats.
    found = expected_information_gain(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[20.0, -20.0], [-20.0, 20.0]]))
    assert found[0, 0] == pytest.approx(math.log(2), abs=1e-6)
    assert found[1, 0] == pytest.approx(0.0, abs=1e-9)


def test_updating_published_responsibilities_equals_placing_text_and_probe_together(world):
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    pairs = evaluation_pairs(world.votes)
    probes = Probes(pairs.probe_winner, pairs.probe_loser, pairs.probe_winner, pairs.probe_loser)
    updated = update_with_probe(place_texts(fit, world.embeddings), fit.strengths, probes, temperature=fit.temperature)
    together = place_probes(fit, world.embeddings, pairs.probe_winner, pairs.probe_loser)
    assert updated == pytest.approx(together, abs=1e-9)


def test_a_tie_and_a_missing_cell_give_no_evidence():
    probes = ask(np.array([0, 0, 0]), np.array([1, 1, 1]), np.array([[1.0, 1.0], [np.nan, 0.0], [0.0, 1.0]]))
    assert probes.winner.tolist() == [-1, -1, 1]
    assert probes.loser.tolist() == [-1, -1, 0]
    assert probes.informative_share == pytest.approx(1 / 3)


def test_the_most_informative_pair_is_at_least_as_informative_as_any_other_choice(world, rng):
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    placed = place_texts(fit, world.embeddings)
    gains = expected_information_gain(placed, fit.strengths)
    position = {pair: j for j, pair in enumerate(zip(*np.triu_indices(10, 1), strict=True))}
    mean = {}
    for policy in ("random", "fixed", "eig"):
        first, second = choose_probes(policy, placed, fit.strengths, placed_training=placed, rng=rng)
        mean[policy] = np.mean([gains[q, position[a, b]] for q, (a, b) in enumerate(zip(first, second, strict=True))])
    assert mean["random"] <= mean["fixed"] <= mean["eig"]


def test_probes_leave_out_only_their_own_pair(world, rng):
    problem, quality = problem_of(rng)
    fit = fit_ecc(
        problem.votes.restricted_to(problem.train_items), problem.vectors[problem.train_items],
        n_clusters=2, embedding_weight=3.0,
    )  # fmt: skip
    placed, decided = place_texts(fit, problem.vectors), all_decided_pairs(quality)
    probes = ask(np.zeros(600, dtype=int), np.full(600, 7), quality)
    found = evaluate_probes(
        probes, placed, fit.strengths, fit_global(problem.votes), decided,
        temperature=0.1, weights=draw_item_resamples(600, 50, rng).astype(float),
    )  # fmt: skip
    assert found["all"].n_pairs == len(decided[0]) - (probes.winner >= 0).sum()
    assert found["all"].n_pairs == found["shared"].n_pairs + found["disjoint"].n_pairs


def test_draw_zero_of_the_sensitivity_is_the_evaluation_itself(world):
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)
    placed, reference = place_texts(fit, world.embeddings), fit_global(world.votes)
    draws = evaluate_probe_draws(world.votes, placed, fit.strengths, reference, temperature=0.1, n_draws=7)
    pairs = evaluation_pairs(world.votes)
    together = place_probes(fit, world.embeddings, pairs.probe_winner, pairs.probe_loser)
    wins = 1 / (1 + np.exp(fit.strengths[:, pairs.loser] - fit.strengths[:, pairs.winner]))
    loss = -np.log(np.einsum("nk,kn->n", together[pairs.item], wins)).mean()
    base = -log_sigmoid(reference[pairs.winner] - reference[pairs.loser]).mean()
    assert draws[0]["all"] == (len(pairs.item), pytest.approx(100 * (1 - loss / base)))
    assert len(draws) == 7


def test_a_blend_of_one_ranking_orders_models_like_it(rng):
    strengths = rng.normal(size=6)
    scores = blended_scores([strengths], np.array([0.7]), None)
    assert np.argsort(scores).tolist() == np.argsort(strengths).tolist()
    mixture = blended_scores([strengths], np.array([1.0, 0.0]), (np.ones((3, 1)), strengths[None]))
    # One cluster is the ranking itself: mean log-odds against the others.
    assert mixture[0] == pytest.approx([(s - strengths).sum() / 5 for s in strengths])


def test_the_profile_of_a_new_model_minimises_its_objective(rng):
    is_win, rivals, weights = (
        rng.integers(2, size=30).astype(float),
        rng.normal(size=(3, 30)),
        rng.uniform(size=(3, 30)),
    )

    def objective(x):
        t, mu = x[:3], x[3]
        likelihood = (weights * log_sigmoid(np.where(is_win > 0, 1, -1) * (t[:, None] - rivals))).sum()
        return -likelihood + 1.5 * ((t - mu) ** 2).sum() + 0.05 * mu**2

    found = _newton(is_win, rivals, weights, ridge=3.0, is_hierarchical=True)
    assert found == pytest.approx(minimize(objective, np.zeros(4), tol=1e-10).x[:3], abs=1e-4)


def test_old_votes_carry_over_to_pairs_of_a_new_model():
    # On item 0 model 1 beat model 2; the new model 0 differs from both, so it lost to 1's kind and beat 2's.
    seen = Votes(np.array([0]), np.array([1]), np.array([2]), np.array([0]), 2, 3)
    sign, is_unseen = _carried_over(
        seen, np.array([0, 0, 1]), np.zeros(3, dtype=int), np.array([1, 2, 1]), np.array([0.0, 1.0, 1.0])
    )
    assert sign.tolist() == [1.0, 1.0, 0.0]
    assert is_unseen.tolist() == [False, False, True]


def test_a_new_model_is_learnt_through_its_clusters(rng):
    problem, quality = problem_of(rng)
    job = ColdStartJob(
        problem=problem, quality=quality, key_order=rng.permutation(600), held_out=0, n_clusters=2, ridge=1.0,
        embedding_weight=3.0, temperature=0.1, seed=0, pull_budgets=(25, 100, 10_000),
    )  # fmt: skip
    rows = {(row.method, row.pull_budget): row for row in evaluate_cold_start(job)}
    assert {budget for _, budget in rows} == {25, 100}  # a budget the items cannot fill makes no row
    for budget in (25, 100):
        assert rows["global", budget].gain_percent == 0.0
        assert rows["global", budget].n_calls >= budget
        # The model is strong in one cluster and weak in the other: one strength says nothing.
        assert rows["hierarchical", budget].gain_percent > 20
    assert rows["hierarchical", 100].n_calls > rows["hierarchical", 25].n_calls
    assert evaluate_cold_start(job) == list(rows.values()) or _equal_but_nan(evaluate_cold_start(job), rows.values())


def _equal_but_nan(first, second):
    return all(repr(a) == repr(b) for a, b in zip(first, second, strict=True))


def test_a_category_left_out_is_tested_and_never_fitted(rng):
    problem, _ = problem_of(rng)
    options = EccOptions(n_clusters=4, n_resamples=50, n_restarts=2)
    found = leave_domain_out(DomainJob(problem, (1,), None, options, Choice(2, 1.0, 3.0, cells=())))
    kept = problem.votes.voted_items
    n_pairs = evaluation_pairs(problem.votes.restricted_to(kept[problem.category[kept] == 1]))
    count, gain = found["ecc_shrunk", "emb", "all"]
    assert count == 2
    assert gain.n_pairs == len(n_pairs.item)
    assert found["linear", "emb", "all"][0] is None
    # One category remains, so there are no labels to compare.
    assert not any(method == "human_labels" for method, _, _ in found)


def test_models_to_ask_are_all_or_spread_evenly_over_the_ranking(rng):
    assert models_to_ask(rng.normal(size=64)).tolist() == list(range(64))
    strengths = rng.permutation(200).astype(float)
    asked = models_to_ask(strengths)
    ranks = np.sort((-strengths).argsort().argsort()[asked])
    assert len(set(asked.tolist())) == 64
    assert (ranks[0], ranks[-1]) == (0, 199)  # the best and the last are among them
    assert set(np.diff(ranks)) <= {3, 4}  # 199 / 63 = 3.2


def test_above_the_limit_pairs_are_asked_and_predicted_among_the_pool(rng, monkeypatch):
    monkeypatch.setattr("capeval_pipeline.methods.ecc.probing.LARGEST_ENUMERATED", 4)
    monkeypatch.setattr("capeval_pipeline.methods.ecc.probing.models_to_ask.__defaults__", (4,))
    problem, quality = problem_of(rng, n_items=300, n_models=9)
    test, train = problem.test_items, problem.train_items
    fit = fit_ecc(
        problem.votes.restricted_to(train), problem.vectors[train], n_clusters=2, embedding_weight=3.0, n_restarts=3
    )
    reference = fit_global(problem.votes.restricted_to(train))
    placed = place_texts(fit, problem.vectors)
    found = evaluate_policies(
        problem.votes.restricted_to(test), quality[test], placed[test], fit.strengths, reference,
        placed_training=placed[train], temperature=0.1, weights=np.ones((2, len(test))), rng_seed=[1, 2],
    )  # fmt: skip
    pool = models_to_ask(reference)
    n_decided = len(all_decided_pairs(quality[np.ix_(test, pool)])[0])
    for probes, gains in found.values():
        assert max(probes.first.max(), probes.second.max()) < 4
        assert gains["all"].n_pairs == n_decided - (probes.winner >= 0).sum()


def test_the_papers_probe_in_the_pool_is_the_first_vote_between_its_models():
    votes = Votes(
        item=np.array([0, 0, 1]), winner=np.array([0, 3, 1]), loser=np.array([1, 2, 0]),
        sample_rank=np.array([0, 1, 0]), n_items=2, n_models=4,
    )  # fmt: skip
    probes = probes_of_votes(votes, np.array([2, 3]))
    assert (probes.winner.tolist(), probes.loser.tolist()) == ([1, -1], [0, -1])


def test_routers_above_the_limit_still_choose_among_all_models(rng, monkeypatch):
    monkeypatch.setattr("capeval_pipeline.methods.ecc.probing.models_to_ask.__defaults__", (4,))
    problem, quality = problem_of(rng, n_items=300, n_models=9)
    test, train = problem.test_items, problem.train_items
    votes = problem.votes.restricted_to(train)
    fit = fit_ecc(votes, problem.vectors[train], n_clusters=2, embedding_weight=3.0, n_restarts=3)
    placed, reference = place_texts(fit, problem.vectors), fit_global(votes)
    study = run_routing_study(
        problem.votes.restricted_to(test), quality[test], np.ones((len(test), 9)),
        {"ecc_shrunk": (placed[test], fit.strengths)}, {"linear": np.tile(reference, (len(test), 1))},
        global_best=best_on_average(quality[train]), global_strengths=reference, placed_training=placed[train],
        temperature=0.1, weights=np.ones((2, len(test))), rng_seed=[1, 2],
    )  # fmt: skip
    assert {policy for router, policy in study.results if router == "ecc_shrunk"} == {
        "none", "paper", "random", "eig", "fixed",
    }  # fmt: skip
    assert study.is_probe_winner_oracle
    # A probe costs two calls, and a third where neither answer is the chosen one's.
    assert 2.0 <= study.results["ecc_shrunk", "eig"].mean_cost <= 3.0
    assert study.results["linear", "none"].mean_cost == 1.0


def test_who_wins_is_told_by_paired_distances():
    def gain(values):
        draws = np.asarray(values, dtype=float)
        return Gain(100, 1.0, 1.0, float(draws.mean()), *np.quantile(draws, [0.025, 0.975]).tolist(), draws)

    noise = np.linspace(-3, 3, 200)
    best, near, far = gain(9 + noise), gain(8.9 + noise[::-1]), gain(7 + noise)
    # far moves with best and is always 2 behind; near moves against it and is often ahead.
    assert best_of({"far": far, "best": best, "near": near}) == ["best", "near"]
    assert best_of({"flat": gain(noise)}) == []
    assert best_of({}) == []
