"""Records that the replay, the plain reference and the study share: what is drawn, what predicts, what a policy is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.item_factors import PairMoments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
OrderArray = NDArray[np.int32]

Selection = Literal["round_robin", "largest_index"]
Estimate = Literal["sample_mean", "filled_with_predictions", "weighted_steps", "averaged_steps"]
Bonus = Literal["none", "count", "variance"]
DrawRule = Literal["own_order", "shared_order", "active"]
Kind = Literal["index", "successive_rejects", "race"]

# Shares of uniform draws in the active rule; the last one is plain uniform drawing.
UNIFORM_SHARES = (0.25, 0.5, 0.75, 1.0)
DRAWS_BEFORE_ACTIVE = 300
ACTIVE_GAIN_NEEDED = 0.03
ACTIVE_FLOOR = 1e-4
SMALLEST_RESIDUAL_RATIO = 0.05
REFIT_GROWTH = 1.1
NEWTON_STEPS_PER_REFIT = 2


@dataclass(frozen=True)
class Policy:
    """A rule that decides what is asked next and what is recommended.

    kind : index policies share one replay; the other two have their own
    interval : name of the certified interval ('' where the policy makes none)
    """

    name: str
    summary: str
    kind: Kind = "index"
    selection: Selection = "largest_index"
    estimate: Estimate = "sample_mean"
    bonus: Bonus = "none"
    draws: DrawRule = "own_order"
    interval: str = "betting"

    @property
    def needs_predictor(self) -> bool:
        return self.estimate != "sample_mean"

    @property
    def has_single_steps(self) -> bool:
        """Whether the estimate is made of single-step estimates, whose unbiasedness can be tested."""
        return self.estimate in ("weighted_steps", "averaged_steps")


@dataclass(frozen=True)
class Predictor:
    """Frozen item factors (n_items, rank), the prior of a new row (rank,), the ridge, and held-out pair moments.

    The moments stand in for other arms where arms must not learn from each other (shared order).
    """

    item_factors: FloatArray
    prior_mean: FloatArray
    l2: float
    held_out_moments: PairMoments


@dataclass(frozen=True)
class Draws:
    """All randomness of one run, drawn before it starts.

    own_orders : (n_arms, n_items) an order of the items for each arm; shared_order : (n_items,) one order for all;
    uniforms : (n_arms, n_items) in [0, 1), used by active drawing only
    """

    own_orders: OrderArray
    shared_order: OrderArray
    uniforms: FloatArray


@dataclass(frozen=True)
class ReplaySettings:
    """batch : pulls per decision; exploration : a of the bonus sqrt(a / N); pseudo_pairs : c0 of the control weight;
    delta : failure probability of certificates over all arms; pull_budgets : (n_budgets,) ascending."""

    batch: int
    pull_budgets: IntArray
    exploration: float = 1.0
    pseudo_pairs: float = 10.0
    delta: float = 0.1


def make_draws(rng: np.random.Generator, n_arms: int, n_items: int) -> Draws:
    """Draw orders and uniforms of a run; always the same numbers in the same sequence, whatever the policy."""
    shared = rng.permutation(n_items).astype(np.int32)
    own = rng.permuted(np.tile(np.arange(n_items, dtype=np.int32), (n_arms, 1)), axis=1)
    return Draws(own, shared, rng.random((n_arms, n_items)))


def default_batch(n_items: int) -> int:
    """Pulls per decision: a fortieth of the items, at least 5 and at most 32."""
    return int(min(32, max(5, round(n_items / 40))))


def default_pull_budgets(n_arms: int, n_items: int, batch: int, n_budgets: int = 24) -> IntArray:
    """Budgets from one batch an arm to every cell, evenly spaced on the log scale, repeats removed."""
    first, last = n_arms * min(batch, n_items), n_arms * n_items
    spaced = np.exp(np.linspace(math.log(first), math.log(last), n_budgets))
    budgets = np.unique(np.rint(spaced).astype(np.int64))
    budgets[-1] = last
    return budgets
