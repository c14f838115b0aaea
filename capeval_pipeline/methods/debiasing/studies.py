"""Studies on planted worlds: how the naive oracle's bias decays, which estimator removes it, what a topic mix does."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.debiasing import DEBIASERS
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.oracle_analysis import local_exponents
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.frontier import expected_naive_oracle
from capeval_pipeline.methods.synthetic import GenerationWorld, make_generation_world
from capeval_pipeline.methods.synthetic.generation_world import WorldKind

FloatArray = NDArray[np.float64]
STUDY_WORLDS: dict[str, tuple[WorldKind, float]] = {
    "equal_means": ("equal_means", 0.0),
    "heterogeneous": ("heterogeneous", 0.0),
    "near_01": ("near_01", 0.0),
    "correlated": ("heterogeneous", 0.5),
    "graded": ("graded", 0.0),
}
DECAY_GENERATIONS: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 20, 50, 100, 200, 400)


@dataclass(frozen=True)
class BiasDecayRow:
    """Naive oracle and its bias in one world with one number of draws a cell."""

    world: str
    n_models: int
    n_generations: int
    true_oracle: float
    naive: float
    bias: float
    local_exponent: float


@dataclass(frozen=True)
class DebiaserRow:
    """Mean error, root mean squared error and coverage of the interval (fixed items) over seeds; NaN without one."""

    world: str
    n_models: int
    n_generations: int
    estimator: str
    bias: float
    rmse: float
    coverage: float


@dataclass(frozen=True)
class TopicEntropyRow:
    """True oracle minus best single model at one mix of topics; entropy in nats."""

    world: str
    mixture: str
    entropy: float
    oracle_gap: float


def study_bias_decay(
    *,
    seed: int,
    n_items: int = 300,
    model_counts: Sequence[int] = (5, 21, 50),
    generations: Sequence[int] = DECAY_GENERATIONS,
) -> list[BiasDecayRow]:
    """Bias of the naive oracle by draws a cell: exact for independent draws, simulated where models share a shock."""
    rows = []
    for number, world_name in enumerate(("equal_means", "heterogeneous", "near_01", "correlated")):
        kind, shock = STUDY_WORLDS[world_name]
        for n_models in model_counts:
            rng = np.random.default_rng([seed, number, n_models])
            n_drawn = max(generations) if shock else 1
            world = make_generation_world(
                kind, n_items=n_items, n_models=n_models, n_generations=n_drawn, rng=rng, shared_shock=shock
            )
            truth = float(world.success_probability.max(axis=1).mean())
            naive = [
                _naive_of_first(world, g) if shock else expected_naive_oracle(world.success_probability, g)
                for g in generations
            ]
            bias = np.array(naive) - truth
            exponents = local_exponents(np.array(generations), bias)
            rows += [
                BiasDecayRow(world_name, n_models, g, truth, value, value - truth, exponent)
                for g, value, exponent in zip(generations, naive, exponents, strict=True)
            ]
    return rows


def _naive_of_first(world: GenerationWorld, n_generations: int) -> float:
    """Mean naive oracle over disjoint runs of draws: the shock is shared inside a generation only."""
    n_runs = world.scores.shape[2] // n_generations
    values = [
        world.scores[:, :, run * n_generations : (run + 1) * n_generations].mean(axis=2).max(axis=1).mean()
        for run in range(n_runs)
    ]
    return float(np.mean(values))


def study_debiasers(
    *,
    seed: int,
    n_items: int = 300,
    n_models: int = 10,
    generations: Sequence[int] = (2, 5, 10, 50),
    n_seeds: int = 6,
    n_simulations: int = 20,
) -> list[DebiaserRow]:
    """Every estimator in every world, those outside the topic model's family too, by draws a cell."""
    rows = []
    for number, (world_name, (kind, shock)) in enumerate(STUDY_WORLDS.items()):
        for n_generations in generations:
            errors: dict[str, list[float]] = {name: [] for name in DEBIASERS}
            covered: dict[str, list[bool]] = {name: [] for name in DEBIASERS}
            for replicate in range(n_seeds):
                world = make_generation_world(
                    kind,
                    n_items=n_items,
                    n_models=n_models,
                    n_generations=n_generations,
                    rng=np.random.default_rng([seed, number, n_generations, replicate]),
                    shared_shock=shock,
                )
                truth = float(world.success_probability.max(axis=1).mean())
                problem = OracleProblem(DrawTable(world.scores), seed=replicate, n_simulations=n_simulations)
                for name, estimator in DEBIASERS.items():
                    try:
                        estimate = estimator(problem)
                    except ConvergenceError:  # counts as no answer, as it would for a reader
                        continue
                    errors[name].append(estimate.value - truth)
                    if not math.isnan(estimate.lower_fixed):
                        covered[name].append(estimate.lower_fixed <= truth <= estimate.upper_fixed)
            rows += [
                DebiaserRow(
                    world_name,
                    n_models,
                    n_generations,
                    name,
                    float(np.mean(errors[name])) if errors[name] else math.nan,
                    float(np.sqrt(np.mean(np.square(errors[name])))) if errors[name] else math.nan,
                    float(np.mean(covered[name])) if covered[name] else math.nan,
                )
                for name in DEBIASERS
            ]
    return rows


def study_topic_entropy(
    *, seed: int, n_topics: int = 4, n_models: int = 10, n_items_a_topic: int = 200, n_mixtures: int = 200
) -> list[TopicEntropyRow]:
    """Oracle gap against the entropy of the topic mix.

    The oracle is linear in the mix and the best single model a maximum of linear functions, so the gap is concave. It
    is monotone in majorisation where topics are exchangeable: world `relabelled` averages over all orders of the
    topics; in `one_labelling` the peak can lie off the even mix.
    """
    rng = np.random.default_rng([seed, 7])
    world = make_generation_world(
        "heterogeneous",
        n_items=n_topics * n_items_a_topic,
        n_models=n_models,
        n_generations=1,
        rng=rng,
        n_topics=n_topics,
        topic_weights=np.full(n_topics, 1.0 / n_topics),
    )
    members = [world.topic == k for k in range(n_topics)]
    best = np.array([world.success_probability[rows].max(axis=1).mean() for rows in members])
    means = np.stack([world.success_probability[rows].mean(axis=0) for rows in members])
    concentrations = np.geomspace(0.1, 20.0, n_mixtures)
    mixtures = [rng.dirichlet(np.full(n_topics, value)) for value in concentrations]
    mixtures += [np.full(n_topics, 1.0 / n_topics), np.eye(n_topics)[0]]
    orders = list(itertools.permutations(range(n_topics)))
    rows = []
    for mixture in mixtures:
        entropy = float(-np.sum(mixture * np.log(np.where(mixture > 0, mixture, 1.0))))
        name = ", ".join(f"{share:.4f}" for share in mixture)
        rows.append(TopicEntropyRow("one_labelling", name, entropy, topic_gap(mixture, best, means)))
        averaged = float(np.mean([topic_gap(mixture[list(order)], best, means) for order in orders]))
        rows.append(TopicEntropyRow("relabelled", name, entropy, averaged))
    return rows


def topic_gap(mixture: FloatArray, best: FloatArray, means: FloatArray) -> float:
    """True oracle minus best single model at a mix of topics.

    mixture : (n_topics,) shares; best : (n_topics,) mean of max_l p; means : (n_topics, n_models) mean qualities
    """
    return float(mixture @ best - (mixture @ means).max())
