"""Planted worlds: the same seed gives the same world, and the draws have the truth as their mean."""

import numpy as np
import pytest

from capeval_pipeline.methods.synthetic import (
    SUPPORT_DESK,
    WORLD_KINDS,
    fill_prompts,
    make_cluster_world,
    make_conversion_questions,
    make_generation_world,
    make_low_rank_world,
)


@pytest.mark.parametrize("kind", WORLD_KINDS)
@pytest.mark.parametrize("shared_shock", [0.0, 0.5])
def test_draws_have_the_planted_quality_as_their_mean(kind, shared_shock, rng):
    world = make_generation_world(kind, n_items=400, n_models=6, n_generations=40, rng=rng, shared_shock=shared_shock)
    error = (world.scores.mean(axis=2) - world.success_probability).mean(axis=0)
    # A model's mean over items: at most .5/sqrt(400 * 40) a draw; with a shock the draws of an item stay independent.
    assert np.abs(error).max() < 4 * 0.5 / np.sqrt(400 * 40)


def test_costs_have_the_planted_cost_as_their_mean(rng):
    world = make_generation_world("heterogeneous", n_items=300, n_models=5, n_generations=30, rng=rng)
    ratio = (world.cost_usd.mean(axis=2) / world.expected_cost_usd).mean(axis=0)
    assert np.abs(ratio - 1).max() < 4 * 0.25 / np.sqrt(300 * 30)


def test_in_a_world_of_equal_means_no_choice_helps(rng):
    world = make_generation_world("equal_means", n_items=50, n_models=7, n_generations=2, rng=rng)
    assert np.ptp(world.success_probability, axis=1).max() == 0.0


def test_a_shared_shock_lets_models_fail_together(rng):
    together = make_generation_world(
        "equal_means", n_items=2000, n_models=2, n_generations=1, rng=rng, shared_shock=0.9
    )
    agree = (together.scores[:, 0, 0] == together.scores[:, 1, 0]).mean()
    apart = (together.success_probability[:, 0] ** 2 + (1 - together.success_probability[:, 0]) ** 2).mean()
    assert agree > apart + 0.1


@pytest.mark.parametrize("make", ["generation", "low_rank", "cluster"])
def test_the_same_seed_gives_the_same_world(make):
    def world(seed):
        rng = np.random.default_rng(seed)
        if make == "generation":
            return make_generation_world("heterogeneous", n_items=20, n_models=3, n_generations=2, rng=rng).scores
        if make == "low_rank":
            return make_low_rank_world(n_items=20, n_models=30, rank=2, rng=rng).scores
        return make_cluster_world(n_items=20, n_models=8, n_capabilities=3, n_topics=4, rng=rng).scores

    assert np.array_equal(world(1), world(1))
    assert not np.array_equal(world(1), world(2))


def test_cluster_embeddings_have_length_one_and_half_the_items_follow_their_topic(rng):
    world = make_cluster_world(n_items=4000, n_models=5, n_capabilities=6, n_topics=8, rng=rng)
    assert np.linalg.norm(world.embeddings, axis=1) == pytest.approx(1.0)
    # Half follow, and of the others one in six does by chance: .5 + .5/6.
    share = (world.capability == world.topic % 6).mean()
    assert share == pytest.approx(0.5 + 0.5 / 6, abs=4 * 0.5 / np.sqrt(4000))


def test_prompts_differ_and_carry_their_topic(rng):
    topic = rng.integers(len(SUPPORT_DESK), size=300)
    prompts = fill_prompts(SUPPORT_DESK, topic, openings=("", "Hello."), rng=rng)
    assert len(set(prompts)) == 300
    assert all("{" not in prompt for prompt in prompts)


def test_conversion_answers_are_right(rng):
    questions = make_conversion_questions(100, rng=rng)
    hours = [question for question in questions if question.question.startswith("How many minutes are there in")]
    assert hours
    assert all(int(q.answer) == 60 * int(q.question.split()[6]) for q in hours)


def test_a_world_of_no_items_is_refused(rng):
    with pytest.raises(ValueError, match="at least one item"):
        make_generation_world("heterogeneous", n_items=0, n_models=2, n_generations=2, rng=rng)
