"""The topic model: its fast E-step against a plain one, planted structure, and what it refuses."""

import numpy as np
import pytest
from scipy.special import betaln, expit, logsumexp

from capeval_pipeline.methods.debiasing import topic_model
from capeval_pipeline.methods.debiasing.topic_model import difficulty_grid, fit_topic_model
from capeval_pipeline.methods.synthetic import make_generation_world


def world_counts(kind, n_items, n_models, n_generations, seed, n_topics=4):
    world = make_generation_world(
        kind,
        n_items=n_items,
        n_models=n_models,
        n_generations=n_generations,
        rng=np.random.default_rng(seed),
        n_topics=n_topics,
    )
    return world, world.scores.sum(axis=2), np.full((n_items, n_models), float(n_generations))


def posterior_mean(fit):
    """E p_nl given the data, (n_items, n_models): Σ_class r (s m + Y)/(s + G)."""
    mean = fit.responsibility @ fit.class_mean
    return (fit.concentration * mean + fit.right) / (fit.concentration + fit.total)


def test_fast_responsibilities_equal_the_plain_ones(rng):
    right, total = rng.integers(0, 4, (30, 5)).astype(float), np.full((30, 5), 3.0)
    right[4, 2], total[4, 2] = 0.0, 0.0
    fit = fit_topic_model(right, total, topic_counts=(2,), seed=3)
    s = fit.concentration
    log_joint = np.log(fit.class_weight)[None, :] + np.zeros((30, len(fit.class_weight)))
    for item, model in np.ndindex(30, 5):
        if total[item, model] > 0:
            alpha, beta = s * fit.class_mean[:, model], s * (1 - fit.class_mean[:, model])
            counted = right[item, model]
            log_joint[item] += betaln(alpha + counted, beta + 3 - counted) - betaln(alpha, beta)
    expected = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    assert fit.responsibility == pytest.approx(expected, abs=1e-9)
    assert fit.log_likelihood == pytest.approx(logsumexp(log_joint, axis=1).sum(), rel=1e-10)


def test_class_means_are_those_of_aptitude_and_difficulty(rng):
    _, right, total = world_counts("heterogeneous", 200, 4, 3, 1)
    fit = fit_topic_model(right, total, topic_counts=(3,))
    expected = expit(fit.aptitude[2, 1] - np.linspace(-5, 5, 13))
    assert fit.class_mean[13:26, 2] == pytest.approx(expected)


def test_equal_models_need_one_topic_and_different_ones_several():
    _, right, total = world_counts("equal_means", 600, 8, 5, 2)
    assert fit_topic_model(right, total).n_topics == 1
    _, right, total = world_counts("heterogeneous", 1000, 10, 5, 2)
    assert fit_topic_model(right, total).n_topics > 1


def test_posterior_mean_is_nearer_to_the_truth_than_the_rates():
    world, right, total = world_counts("heterogeneous", 800, 10, 4, 5)
    fit = fit_topic_model(right, total)
    error = np.mean((posterior_mean(fit) - world.success_probability) ** 2)
    assert error < 0.5 * np.mean((right / total - world.success_probability) ** 2)


def test_posterior_draws_average_to_the_posterior_mean():
    _, right, total = world_counts("heterogeneous", 60, 5, 3, 6)
    fit = fit_topic_model(right, total)
    drawn = np.mean([fit.draw(np.random.default_rng(seed)) for seed in range(800)], axis=0)
    assert np.abs(drawn - posterior_mean(fit)).max() < 5 * 0.5 / np.sqrt(800)


def test_the_same_seed_gives_the_same_bytes():
    _, right, total = world_counts("heterogeneous", 200, 6, 3, 7)
    first, second = fit_topic_model(right, total, seed=4), fit_topic_model(right, total, seed=4)
    assert first.responsibility.tobytes() == second.responsibility.tobytes()


def test_a_subsample_is_fitted_where_there_are_too_many_items(monkeypatch):
    _, right, total = world_counts("heterogeneous", 500, 6, 4, 8)
    whole = fit_topic_model(right, total, topic_counts=(3,))
    monkeypatch.setattr(topic_model, "_MAX_FITTED_ITEMS", 300)
    part = fit_topic_model(right, total, topic_counts=(3,))
    assert part.responsibility.shape == whole.responsibility.shape
    assert np.abs(posterior_mean(part) - posterior_mean(whole)).mean() < 0.03


def test_a_fit_that_still_rises_is_an_error(monkeypatch):
    from capeval_pipeline.errors import ConvergenceError

    monkeypatch.setattr(topic_model, "_LEAST_ITERATIONS", 1)
    monkeypatch.setattr(topic_model, "_MOST_ITERATIONS", 2)
    monkeypatch.setattr(topic_model, "_RISE_PER_ITEM", 1e-12)
    _, right, total = world_counts("heterogeneous", 200, 6, 4, 9)
    with pytest.raises(ConvergenceError, match="still rose"):
        fit_topic_model(right, total, topic_counts=(3,))


def test_the_grid_of_difficulties_is_as_fine_as_the_draws_can_tell():
    # 60 draws tell a difficulty to 1/√9 = .33, 2.6 times that is .87: 13 classes .83 apart will do.
    assert len(difficulty_grid(60)) == 13
    assert len(difficulty_grid(200)) == 25
    assert len(difficulty_grid(500)) == 49


def test_many_draws_of_equal_models_leave_no_luck():
    world, right, total = world_counts("equal_means", 300, 10, 50, 10)
    fit = fit_topic_model(right, total)
    drawn = np.mean([fit.draw(np.random.default_rng(seed)).max(axis=1).mean() for seed in range(10)])
    assert abs(drawn - world.success_probability.max(axis=1).mean()) < 0.006
