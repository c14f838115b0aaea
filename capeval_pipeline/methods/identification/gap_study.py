"""Identification on planted worlds: what a policy finds at a known gap, and what useless item factors do to it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from capeval_pipeline.methods.identification.policies import PLAIN_POLICIES
from capeval_pipeline.methods.identification.records import (
    FloatArray,
    ReplaySettings,
    default_batch,
    default_pull_budgets,
)
from capeval_pipeline.methods.identification.results import CurvePoint, curve_points
from capeval_pipeline.methods.identification.study import StudyWorld, fit_predictor, run_study

LOW_RANK, PERMUTED = "low_rank", "permuted_item_factors"
GAPS = (0.01, 0.02, 0.04)


@dataclass(frozen=True)
class GapPoint:
    """Accuracy of a policy at a budget in a world whose best arm leads by `gap`, as its scores have it.

    wanted_gap : the gap the world was made for; it is off by at most one item
    """

    world: str
    wanted_gap: float
    gap: float
    point: CurvePoint


@dataclass(frozen=True)
class PlantedWorld:
    """training (n_training, n_items) and arms (n_arms, n_items), 0 or 1; the best arm leads the second by `gap`."""

    training: FloatArray
    arms: FloatArray
    gap: float


def make_planted_world(
    *, gap: float, n_training: int, n_arms: int, n_items: int, rank: int, rng: np.random.Generator
) -> PlantedWorld:
    """Rank-`rank` logistic scores with the top two arms `gap` apart, to the nearest item.

    Scores ~ Bernoulli(sigmoid(skill + row . factor - difficulty)), all normal. The best arm then gains, or loses,
    answers at items drawn by how likely that answer was in its own row, so that the planted structure stays.
    Raises ValueError for fewer than two arms or a gap the best arm cannot have.
    """
    if n_arms < 2:
        raise ValueError(f"a gap needs at least 2 arms, not {n_arms}")
    n_models = n_training + n_arms
    skill = rng.normal(0.5, 0.4, n_models)
    difficulty = rng.normal(0.0, 1.2, n_items)
    rows, factors = rng.normal(0.0, 0.8, (n_models, rank - 1)), rng.normal(0.0, 1.0, (n_items, rank - 1))
    # einsum and not a BLAS product: its last bits must not depend on the number of threads.
    chance = 1 / (1 + np.exp(-(skill[:, None] - difficulty[None, :] + np.einsum("mr,nr->mn", rows, factors))))
    scores = (rng.random(chance.shape) < chance).astype(np.float64)
    arms = scores[n_training:]
    order = np.argsort(-arms.mean(axis=1), kind="stable")
    best, second = int(order[0]), int(order[1])
    wanted = round(float(arms[second].sum()) + gap * n_items)
    if wanted > n_items:
        raise ValueError(f"no arm can lead a mean of {arms[second].mean():.3f} by {gap:g}")
    surplus = int(arms[best].sum()) - wanted
    own = chance[n_training + best]
    changing = np.flatnonzero(arms[best] == (1.0 if surplus > 0 else 0.0))
    likely = (1 - own if surplus > 0 else own)[changing]
    chosen = rng.choice(changing, abs(surplus), replace=False, p=likely / likely.sum())
    arms[best, chosen] = 0.0 if surplus > 0 else 1.0
    means = np.sort(arms.mean(axis=1))
    return PlantedWorld(scores[:n_training], arms, float(means[-1] - means[-2]))


def identification_gaps(
    *,
    gaps: Sequence[float] = GAPS,
    n_training: int = 200,
    n_arms: int = 40,
    n_items: int = 500,
    rank: int = 5,
    n_runs: int = 48,
    policies: Sequence[str] = PLAIN_POLICIES,
    seed: int = 0,
    executor: Executor | None = None,
) -> tuple[GapPoint, ...]:
    """Accuracy curves on worlds of each gap, and once more at each gap with the item factors permuted over items."""
    points: list[GapPoint] = []
    for place, gap in enumerate(gaps):
        rng = np.random.default_rng([seed, place])
        planted = make_planted_world(gap=gap, n_training=n_training, n_arms=n_arms, n_items=n_items, rank=rank, rng=rng)
        shuffled = planted.training[:, rng.permutation(n_items)]
        for name, training in ((LOW_RANK, planted.training), (PERMUTED, shuffled)):
            predictor, _ = fit_predictor(training, np.arange(n_training), rng=rng, rank=rank)
            batch = default_batch(n_items)
            settings = ReplaySettings(batch=batch, pull_budgets=default_pull_budgets(n_arms, n_items, batch))
            world = StudyWorld(planted.arms, settings, n_arms=n_arms, predictor=predictor, seed=seed)
            for runs in run_study(world, policies, n_runs, executor).values():
                points += [GapPoint(name, gap, planted.gap, point) for point in curve_points(runs, world)]
    return tuple(points)
