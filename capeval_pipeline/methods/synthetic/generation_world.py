"""Worlds of several draws a cell with noisy costs: topics, difficulty and cell noise behind the scores.

A world knows its own truth (`success_probability`, `expected_cost_usd`), so an estimator's error can be measured.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, ndtr, ndtri

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
WorldKind = Literal["heterogeneous", "equal_means", "near_01", "graded", "equal_skill"]
WORLD_KINDS: tuple[str, ...] = get_args(WorldKind)

_LEAST_COST_USD = 1e-4
_GRADED_PRECISION = 6.0
_COST_RANGE = 400.0  # the dearest model costs this many times the cheapest


@dataclass(frozen=True)
class GenerationWorld:
    """A planted benchmark.

    topic : (n_items,) index of the item's topic
    success_probability : (n_items, n_models), expected quality of one draw, 0…1
    expected_cost_usd : (n_items, n_models)
    scores : (n_items, n_models, n_generations), 0…1; 0 or 1 except in a graded world
    cost_usd, latency_s : (n_items, n_models, n_generations)
    """

    topic: IntArray
    success_probability: FloatArray
    expected_cost_usd: FloatArray
    scores: FloatArray
    cost_usd: FloatArray
    latency_s: FloatArray


def make_generation_world(
    kind: WorldKind,
    *,
    n_items: int,
    n_models: int,
    n_generations: int,
    rng: np.random.Generator,
    n_topics: int = 6,
    shared_shock: float = 0.0,
    cost_noise: float = 0.25,
    topic_weights: FloatArray | None = None,
) -> GenerationWorld:
    """Draw a benchmark whose cells' true qualities and costs are known.

    kind : "heterogeneous" topics, difficulty and cell noise; "equal_means" every model equally good on an item, so
        that the naive oracle is luck alone; "near_01" most cells at .015 or .985; "graded" as heterogeneous with
        scores Beta-distributed about the cell's quality; "equal_skill" as heterogeneous with models that are equally
        good on the whole and differ by topic and cell only
    shared_shock : correlation (0…1) of the draws of all models that share an item and a generation, on the probit
        scale; each draw keeps its own probability
    cost_noise : coefficient of variation of the costs inside a cell
    topic_weights : (n_topics,) shares of the topics, sum 1; drawn when not given

    Returns a GenerationWorld. Raises ValueError for a size below 1 or a shock outside 0…1.
    """
    if min(n_items, n_models, n_generations, n_topics) < 1:
        raise ValueError("a world needs at least one item, model, generation and topic")
    if not 0.0 <= shared_shock <= 1.0:
        raise ValueError(f"shared_shock is {shared_shock}; expected a correlation between 0 and 1")
    weights = rng.dirichlet(np.full(n_topics, 2.0)) if topic_weights is None else topic_weights
    topic = rng.choice(n_topics, size=n_items, p=weights).astype(np.int64)
    skill = rng.normal(0.4, 0.0 if kind == "equal_skill" else 0.8, n_models)
    probability = _success_probability(kind, topic, skill, n_topics, rng)
    expected_cost = _expected_cost(skill, n_items, rng)
    world = GenerationWorld(topic, probability, expected_cost, *[np.empty((*probability.shape, 0))] * 3)
    return observe_world(
        world,
        np.arange(n_items),
        kind,
        n_generations=n_generations,
        rng=rng,
        shared_shock=shared_shock,
        cost_noise=cost_noise,
    )


def observe_world(
    world: GenerationWorld,
    items: IntArray,
    kind: WorldKind,
    *,
    n_generations: int,
    rng: np.random.Generator,
    shared_shock: float = 0.0,
    cost_noise: float = 0.25,
) -> GenerationWorld:
    """Fresh draws of some items of a world: a benchmark whose items stand for a population that is known too.

    items : (n_items,) indices; the other arguments as in `make_generation_world`
    """
    probability, expected_cost = world.success_probability[items], world.expected_cost_usd[items]
    shape = (*probability.shape, n_generations)
    scores = _draw_scores(kind, probability, n_generations, shared_shock, rng)
    log_sd = np.sqrt(np.log1p(cost_noise**2))
    cost = expected_cost[:, :, None] * np.exp(rng.normal(0.0, 1.0, shape) * log_sd - log_sd**2 / 2)
    # Dear models are slower, with a tail inside a cell as of a loaded server.
    latency_base = 0.4 + 3.0 * (expected_cost / _LEAST_COST_USD) ** 0.35
    latency = latency_base[:, :, None] * np.exp(rng.normal(0.0, 0.35, shape)) / 3.0
    return GenerationWorld(world.topic[items], probability, expected_cost, scores, cost, latency)


def _success_probability(
    kind: WorldKind, topic: IntArray, skill: FloatArray, n_topics: int, rng: np.random.Generator
) -> FloatArray:
    n_items, n_models = len(topic), len(skill)
    difficulty = rng.normal(0.0, 1.7, n_items)
    if kind == "equal_means":
        per_item: FloatArray = np.asarray(expit(0.6 - difficulty))
        return np.repeat(per_item[:, None], n_models, axis=1)
    aptitude = skill[:, None] + rng.normal(0.0, 0.9, (n_models, n_topics))
    logit = aptitude[:, topic].T - difficulty[:, None] + rng.normal(0.0, 0.5, (n_items, n_models))
    probability = expit(logit)
    if kind == "near_01":
        is_extreme = rng.random((n_items, n_models)) < 0.6
        is_right = rng.random((n_items, n_models)) < probability
        probability = np.where(is_extreme, np.where(is_right, 0.985, 0.015), probability)
    return probability


def _expected_cost(skill: FloatArray, n_items: int, rng: np.random.Generator) -> FloatArray:
    """Log-normal item and cell factors on a geometric ladder of prices that follows skill, with exceptions."""
    n_models = skill.shape[0]
    ladder = _LEAST_COST_USD * _COST_RANGE ** (np.arange(n_models) / max(n_models - 1, 1))
    rank = np.argsort(np.argsort(skill + rng.normal(0.0, 0.4, n_models), kind="stable"), kind="stable")
    item_factor = rng.normal(0.0, 0.45, (n_items, 1))
    cell_factor = rng.normal(0.0, 0.1, (n_items, n_models))
    return ladder[rank][None, :] * np.exp(item_factor + cell_factor)


def _draw_scores(
    kind: WorldKind, probability: FloatArray, n_generations: int, shared_shock: float, rng: np.random.Generator
) -> FloatArray:
    shape = (*probability.shape, n_generations)
    own = rng.normal(0.0, 1.0, shape)
    if shared_shock > 0.0:
        shared = rng.normal(0.0, 1.0, (probability.shape[0], 1, n_generations))
        own = np.sqrt(shared_shock) * shared + np.sqrt(1.0 - shared_shock) * own
    if kind == "graded":
        # By quantile, so that a shared shock reaches graded scores too; a Beta keeps each cell's mean exactly.
        mean = np.clip(probability, 1e-6, 1.0 - 1e-6)[:, :, None]
        return np.asarray(betaincinv(_GRADED_PRECISION * mean, _GRADED_PRECISION * (1.0 - mean), ndtr(own)))
    return (own < ndtri(probability)[:, :, None]).astype(np.float64)
