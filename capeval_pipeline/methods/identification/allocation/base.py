"""What policies have in common as they are played live: answers, prefixes, estimates, limits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.estimator import (
    ESTIMATE_CODES,
    N_TRACE_COLUMNS,
    ArmStates,
    absorb,
    estimate_of,
    new_states,
    recommend,
)
from capeval_pipeline.methods.identification.intervals import bets_of, betting_limits
from capeval_pipeline.methods.identification.records import (
    Draws,
    FloatArray,
    IntArray,
    OrderArray,
    Policy,
    Predictor,
)

LIMIT_TOLERANCE = 1e-12


@dataclass(frozen=True)
class AllocationSettings:
    """What is fixed for a whole session: draws per decision, error probability delta over all arms, exploration a of
    the bonus sqrt(a / N), pseudo-pairs of the control weight; pull_budget is read by successive rejects alone."""

    batch: int
    delta: float = 0.05
    exploration: float = 1.0
    pseudo_pairs: float = 10.0
    pull_budget: int | None = None


@dataclass(frozen=True)
class Batch:
    """One decision: draws of one arm, in the order in which they will count."""

    arm: int
    items: OrderArray


class Allocation(ABC):
    """Common to all policies: answers, prefixes, estimates, betting limits.

    counts : (n_arms,) answers that count so far; is_told : (n_arms, n_items) answers that have arrived
    """

    def __init__(
        self,
        policy: Policy,
        draws: Draws,
        settings: AllocationSettings,
        predictor: Predictor | None,
    ) -> None:
        self.policy = policy
        self.settings = settings
        self.n_arms, self.n_items = draws.own_orders.shape
        self._is_active = policy.draws == "active"
        if policy.draws == "shared_order":
            items = np.tile(draws.shared_order, (self.n_arms, 1))
        else:
            items = np.zeros_like(draws.own_orders) if self._is_active else draws.own_orders.copy()
        scores = np.zeros((self.n_arms, self.n_items))
        self._states: ArmStates = new_states(scores, items, predictor, is_active=self._is_active)
        self.is_told = np.zeros((self.n_arms, self.n_items), dtype=np.bool_)
        self._estimate = ESTIMATE_CODES[policy.estimate]
        self._open: list[OrderArray | None] = [None] * self.n_arms
        self._probabilities: list[FloatArray] = [np.zeros(0)] * self.n_arms
        self._n_done = np.zeros(self.n_arms, dtype=np.int64)
        self._traces = [np.zeros((0, N_TRACE_COLUMNS)) for _ in range(self.n_arms)]
        self._limits = np.tile(np.array([0.0, 1.0]), (self.n_arms, 1))
        self._limits_at = np.zeros(self.n_arms, dtype=np.int64)

    @property
    def counts(self) -> IntArray:
        """Answers of each arm that count so far, (n_arms,); later ones wait for those drawn before them."""
        return self._states.counts

    @property
    def is_order_free(self) -> bool:
        """Whether answers that arrive between two decisions may be taken in together or one by one, to the last bit.

        Not with active draws, whose choice adds up the draws of all arms in the order in which they are taken in.
        """
        return not self._is_active

    @property
    def leader(self) -> int:
        """Arm the policy would recommend now, the first of equals; -1 before the first answer."""
        return int(recommend(self._states, self._estimate))

    @property
    def estimates(self) -> FloatArray:
        """Estimated mean of each arm, NaN before its first answer; exact once all its items are read."""
        values = np.full(self.n_arms, math.nan)
        for arm in np.flatnonzero(self.counts):
            values[arm] = estimate_of(self._states, int(arm), self._estimate)
        return values

    def limits(self) -> FloatArray:
        """Betting limits (n_arms, 2) that hold for all arms at all counts together with probability 1 - delta."""
        alpha = self.settings.delta / self.n_arms
        for arm in np.flatnonzero(self._limits_at != self.counts):
            count = int(self.counts[arm])
            trace = self._traces[arm][:count]
            self._limits[arm] = betting_limits(trace, bets_of(trace, self.n_items, alpha), self.n_items, count, alpha)
            self._limits_at[arm] = count
        return self._limits.copy()

    @property
    def candidates(self) -> IntArray:
        """Arms that cannot be ruled out as the best one at delta, ascending."""
        limits = self.limits()
        return np.flatnonzero(limits[:, 1] >= limits[:, 0].max() - LIMIT_TOLERANCE)

    @property
    def is_certified(self) -> bool:
        """Whether one candidate is left, or all that are left are read to the end and equal."""
        left = self.candidates
        return left.size == 1 or bool((self.counts[left] == self.n_items).all())

    @property
    @abstractmethod
    def next_arm(self) -> int:
        """Arm of the next decision; -1 while none can be made: answers are awaited, or the policy is at its end."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether the policy will never decide again."""

    def select(self, n_most: int) -> Batch | None:
        """Decide the next batch, of at most `n_most` draws; None while none can be decided."""
        arm = self.next_arm
        if arm < 0 or n_most <= 0:
            return None
        items = self._items_of(arm, n_most)
        self.open(arm, items)
        return Batch(arm, items)

    @abstractmethod
    def _items_of(self, arm: int, n_most: int) -> OrderArray:
        """Items of the arm's next batch, before it is opened."""

    @abstractmethod
    def open(self, arm: int, items: OrderArray) -> None:
        """Open a batch that was decided, now or in the past: `select` without its choice."""

    def update(self, arms: IntArray, items: IntArray, scores: FloatArray) -> None:
        """Take in answers to draws of open batches, in any order; scores in [0, 1].

        Raises ValueError for a score outside [0, 1] or an answer that is there already.
        """
        if not ((scores >= 0.0) & (scores <= 1.0)).all():
            raise ValueError("scores must lie in [0, 1]")
        if self.is_told[arms, items].any():
            raise ValueError("an answer is there already")
        self._states.scores[arms, items] = scores
        self.is_told[arms, items] = True
        self._advance(np.unique(arms))

    @abstractmethod
    def _advance(self, arms: IntArray) -> None:
        """Let the answered prefixes of these arms grow."""

    def _room_in_trace(self, arm: int, n_more: int) -> FloatArray:
        needed = int(self.counts[arm]) + n_more
        if self._traces[arm].shape[0] < needed:
            grown = np.zeros((min(self.n_items, max(needed, 2 * self._traces[arm].shape[0])), N_TRACE_COLUMNS))
            grown[: self._traces[arm].shape[0]] = self._traces[arm]
            self._traces[arm] = grown
        return self._traces[arm]


@njit(nogil=True, cache=True)
def absorb_answered(
    states: ArmStates,
    arm: int,
    items: OrderArray,
    probabilities: FloatArray,
    done: int,
    is_told: np.ndarray,
    is_active: bool,
    trace: FloatArray,
) -> int:
    """Absorb the draws of a batch from place `done` up to the first without an answer, which is returned."""
    while done < items.shape[0] and is_told[arm, items[done]]:
        item = items[done]
        row = trace[states.counts[arm]]
        absorb(states, arm, item, states.scores[arm, item], probabilities[done], is_active, row)
        done += 1
    return done
