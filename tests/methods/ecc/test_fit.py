"""The descent: F never rises, one cluster is a ranking, and nothing depends on names, order or scale."""

import numpy as np
import pytest

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import fit_bradley_terry
from capeval_pipeline.methods.ecc.fit import draw_starts, fit_ecc, fit_global, profile_intervals
from capeval_pipeline.methods.ecc.inference import mixture_probabilities, place_texts
from capeval_pipeline.methods.ecc.votes import Votes, wins_of_votes
from capeval_pipeline.methods.mean_scores import draw_item_resamples
from tests.methods.ecc.worlds import planted_world


def predicted(fit, world, votes=None):
    votes = votes or world.votes
    return mixture_probabilities(
        place_texts(fit, world.embeddings), fit.strengths, votes.item, votes.winner, votes.loser
    )


def free_energy(fit, world, prior=0.0):
    """F by its formula, nothing shared with the fit."""
    votes, r = world.votes, fit.responsibilities
    total = 0.0
    for q, w, loser in zip(votes.item, votes.winner, votes.loser, strict=True):
        n_votes = (votes.item == q).sum()
        total += (r[q] * np.log1p(np.exp(fit.strengths[:, loser] - fit.strengths[:, w]))).sum() / n_votes
    total -= fit.embedding_weight * (r * (world.embeddings @ fit.centres.T)).sum()
    total += fit.temperature * (r[r > 0] * np.log(r[r > 0])).sum()
    return total + 0.5 * fit.ridge * ((fit.strengths - prior) ** 2).sum()


@pytest.mark.parametrize("options", [{}, {"uses_embeddings": False}, {"uses_comparisons": False}])
@pytest.mark.parametrize("n_clusters", [1, 6, 30, 125])
def test_free_energy_never_rises(rng, n_clusters, options):
    world = planted_world(rng, n_items=120)  # 125 = n + 5 clusters: some are empty
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=n_clusters, embedding_weight=3.0, **options)
    rises = np.diff(fit.objective_path)
    assert (rises <= 1e-9 * np.abs(fit.objective_path[1:])).all()
    assert fit.max_gradient <= 1e-6
    assert fit.responsibilities.sum(axis=1) == pytest.approx(np.ones(120))
    assert fit.stop_reason in {"responsibilities_settled", "objective_settled"}


def test_a_free_energy_that_rises_is_an_error(rng, monkeypatch):
    """A block that does not minimise, here strengths that turn round in every pass, must not end as a result."""
    world = planted_world(rng, n_items=80)

    def worse_every_time(self, responsibilities, start):
        return np.where(start == 0, 1.0, -2.0 * start) * np.linspace(-1, 1, start.shape[1]), 0.0

    monkeypatch.setattr("capeval_pipeline.methods.ecc.fit._Problem.best_strengths", worse_every_time)
    with pytest.raises(ConvergenceError, match=r"free energy rose by .* which is a bug"):
        fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0)


def test_reported_free_energy_is_the_formula(rng):
    world = planted_world(rng, n_items=80)
    prior = fit_global(world.votes)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0, ridge=3.0, prior=prior)
    assert fit.objective == pytest.approx(free_energy(fit, world, prior), rel=1e-10)


def test_one_cluster_is_the_item_weighted_ranking(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=1, embedding_weight=3.0)
    expected = fit_bradley_terry(wins_of_votes(world.votes, per_item=True), ridge=1.0).strengths
    assert fit.strengths[0] == pytest.approx(expected, abs=1e-6)


def test_each_block_is_at_its_minimum(rng):
    world = planted_world(rng, n_items=80)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=3, embedding_weight=3.0)
    value = free_energy(fit, world)
    for _ in range(20):  # responsibilities are exact for the published strengths and centres
        other = 0.9 * fit.responsibilities + 0.1 * rng.dirichlet(np.ones(3), 80)
        assert free_energy(_with(fit, responsibilities=other), world) >= value


def _with(fit, **changes):
    from dataclasses import replace

    return replace(fit, **changes)


def test_permuting_items_changes_no_prediction(rng):
    world = planted_world(rng)
    order = rng.permutation(world.votes.n_items)
    position = np.argsort(order)
    moved = position[world.votes.item]
    sorting = np.argsort(moved, kind="stable")
    votes = Votes(
        moved[sorting], world.votes.winner[sorting], world.votes.loser[sorting], world.votes.sample_rank[sorting],
        world.votes.n_items, world.votes.n_models,
    )  # fmt: skip
    start = draw_starts(world.votes.n_items, 5, 1, 0)[0]
    options = {"n_clusters": 5, "embedding_weight": 3.0}
    plain = fit_ecc(world.votes, world.embeddings, starts=[start], **options)
    permuted = fit_ecc(votes, world.embeddings[order], starts=[start[order]], **options)
    assert permuted.responsibilities == pytest.approx(plain.responsibilities[order], abs=1e-6)
    assert permuted.strengths == pytest.approx(plain.strengths, abs=1e-6)


def test_permuting_models_and_cluster_labels_changes_no_prediction(rng):
    world = planted_world(rng)
    names, labels = rng.permutation(8), rng.permutation(5)
    votes = Votes(
        world.votes.item, names[world.votes.winner], names[world.votes.loser], world.votes.sample_rank,
        world.votes.n_items, 8,
    )  # fmt: skip
    start = draw_starts(world.votes.n_items, 5, 1, 0)[0]
    plain = fit_ecc(world.votes, world.embeddings, n_clusters=5, embedding_weight=3.0, starts=[start])
    renamed = fit_ecc(votes, world.embeddings, n_clusters=5, embedding_weight=3.0, starts=[start[:, labels]])
    assert predicted(renamed, world, votes) == pytest.approx(predicted(plain, world), abs=1e-6)


def test_scaling_embeddings_before_they_are_normalised_changes_nothing(rng):
    from capeval_pipeline.embedders.tfidf import unit_rows

    world = planted_world(rng)
    options = {"n_clusters": 5, "embedding_weight": 3.0}
    plain = fit_ecc(world.votes, unit_rows(world.embeddings), **options)
    scaled = fit_ecc(world.votes, unit_rows(37.0 * world.embeddings), **options)
    assert scaled.responsibilities == pytest.approx(plain.responsibilities, abs=1e-6)


def test_same_inputs_give_the_same_bytes_and_another_seed_another_start(rng):
    world = planted_world(rng)
    options = {"n_clusters": 5, "embedding_weight": 3.0, "n_restarts": 3}
    first, again = (fit_ecc(world.votes, world.embeddings, seed=1, **options) for _ in range(2))
    assert first.strengths.tobytes() == again.strengths.tobytes()
    assert first.responsibilities.tobytes() == again.responsibilities.tobytes()
    other = fit_ecc(world.votes, world.embeddings, seed=2, **options)
    assert other.objectives_of_starts.tolist() != first.objectives_of_starts.tolist()


def test_the_lowest_start_is_kept_and_clusters_come_heaviest_first(rng):
    world = planted_world(rng)
    fit = fit_ecc(world.votes, world.embeddings, n_clusters=4, embedding_weight=3.0, n_restarts=5)
    assert fit.objective == fit.objectives_of_starts.min()
    weights = fit.responsibilities.sum(axis=0)
    assert (np.diff(weights) <= 1e-9).all()


def test_the_planted_clusters_are_found(rng):
    from sklearn.metrics import adjusted_rand_score

    world = planted_world(rng, n_items=800, n_models=12)
    fit = fit_ecc(
        world.votes, world.embeddings, n_clusters=3, embedding_weight=1.0, prior=fit_global(world.votes), n_restarts=10
    )
    # 7 votes and a noisy text an item; 0.8 leaves about one item in fifteen misplaced.
    assert adjusted_rand_score(world.cluster, fit.responsibilities.argmax(axis=1)) > 0.8


def test_agrees_with_a_slow_independent_fit(rng):
    """The same start and passes, every block done by other code: scikit-learn's logistic regression on votes."""
    from sklearn.linear_model import LogisticRegression

    world = planted_world(rng, n_items=60, n_models=5)
    votes = world.votes
    start = draw_starts(60, 3, 1, 0)[0]
    fit = fit_ecc(votes, world.embeddings, n_clusters=3, embedding_weight=3.0, starts=[start])
    design = np.zeros((len(votes.item), 5))
    design[range(len(design)), votes.winner] = 1.0
    design[range(len(design)), votes.loser] = -1.0
    # Both orientations of each vote, so that there are two classes and no intercept.
    both, label = np.vstack([design, -design]), np.repeat([1, 0], len(design))
    r = start
    for _ in range(fit.n_passes):
        strengths = []
        for k in range(3):
            weight = np.tile(r[votes.item, k] / np.bincount(votes.item)[votes.item], 2) / 2
            model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000, solver="newton-cholesky")
            strengths.append(model.fit(both, label, sample_weight=weight).coef_[0])
        strengths = np.array(strengths)
        centres = r.T @ world.embeddings
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        losses = np.zeros((60, 3))
        for q, w, loser in zip(votes.item, votes.winner, votes.loser, strict=True):
            losses[q] += np.log1p(np.exp(strengths[:, loser] - strengths[:, w])) / (votes.item == q).sum()
        exponent = np.exp((3.0 * world.embeddings @ centres.T - losses) / 0.1)
        r = exponent / exponent.sum(axis=1, keepdims=True)
    order = np.argsort(-r.sum(axis=0), kind="stable")
    assert fit.responsibilities == pytest.approx(r[:, order], abs=1e-5)
    assert fit.strengths == pytest.approx(strengths[order], abs=1e-5)


def test_not_settling_is_an_error(rng):
    world = planted_world(rng)
    with pytest.raises(ConvergenceError, match="still fell after 2 passes"):
        fit_ecc(world.votes, world.embeddings, n_clusters=5, embedding_weight=3.0, max_passes=2)


def test_a_model_without_comparisons_is_shown_as_unknown(rng):
    world = planted_world(rng, n_models=7)
    votes = Votes(
        world.votes.item, world.votes.winner, world.votes.loser, world.votes.sample_rank, world.votes.n_items, 8
    )
    fit = fit_ecc(votes, world.embeddings, n_clusters=2, embedding_weight=3.0)
    lower, upper, is_compared = profile_intervals(
        votes, fit, prior=0.0, weights=draw_item_resamples(votes.n_items, 40, rng)
    )
    assert not is_compared[:, 7].any()
    assert is_compared[:, :7].all()
    assert (upper - lower)[:, 7] == pytest.approx([2 * 1.959964, 2 * 1.959964], abs=1e-5)
    assert ((lower <= fit.strengths) & (fit.strengths <= upper)).mean() > 0.9
