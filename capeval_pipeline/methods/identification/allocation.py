"""A policy as an object that decides the next draws and takes in answers as they come: what a live session asks.

`select` decides a batch, `update` takes in answers in whatever order they arrive, and nothing else changes the state.
The moves are the kernels of the study's replay, so that a session whose answers all arrive before the next decision
makes exactly the pulls of the replay with the same draws.

An answer counts in the order in which it was drawn: an arm's estimate uses the longest answered prefix of its draws, in
the policies that keep arms abreast the longest prefix of items that all survivors have. What comes back first (short,
easy, right) must not decide what counts. An arm has at most one open batch: control weight and predictions are frozen
for it, and the policy decides anew once it is answered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.estimator import (
    ESTIMATE_CODES,
    N_TRACE_COLUMNS,
    TAU,
    ArmStates,
    absorb,
    choose_item,
    estimate_of,
    new_states,
    open_batch,
    recommend,
    remove_from_trees,
    spread_of,
)
from capeval_pipeline.methods.identification.intervals import bets_of, betting_limits
from capeval_pipeline.methods.identification.race import new_race, play_round
from capeval_pipeline.methods.identification.records import (
    Draws,
    FloatArray,
    IntArray,
    OrderArray,
    Policy,
    Predictor,
)
from capeval_pipeline.methods.identification.replay import BONUS_CODES, index_of, pooling_of

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


class IndexAllocation(Allocation):
    """Policies that pull a batch from the arm with the largest index, or from one arm after the other."""

    def __init__(
        self, policy: Policy, draws: Draws, settings: AllocationSettings, predictor: Predictor | None = None
    ) -> None:
        used = predictor if policy.needs_predictor else None
        super().__init__(policy, draws, settings, used)
        self._uniforms = draws.uniforms if self._is_active else np.zeros((self.n_arms, 0))
        self._is_pooled, self._held_out = pooling_of(policy, used)
        self._l2 = 1.0 if used is None else used.l2
        self._bonus = BONUS_CODES[policy.bonus]
        self._index = np.full(self.n_arms, math.inf)
        self._is_open = np.zeros(self.n_arms, dtype=np.bool_)
        self._last = -1

    @property
    def next_arm(self) -> int:
        is_free = ~self._is_open & (self.counts < self.n_items)
        if not is_free.any():
            return -1
        if self.policy.selection == "round_robin":
            turn = (np.arange(self.n_arms) + self._last + 1) % self.n_arms
            return int(turn[is_free[turn]][0])
        return int(np.argmax(np.where(is_free, self._index, -math.inf)))

    @property
    def is_finished(self) -> bool:
        return bool((self.counts == self.n_items).all())

    def _items_of(self, arm: int, n_most: int) -> OrderArray:
        count = int(self.counts[arm])
        n_draws = min(self.settings.batch, self.n_items - count, n_most)
        if not self._is_active:
            return self._states.items[arm, count : count + n_draws].copy()
        self._freeze(arm)
        items = np.zeros(n_draws, dtype=np.int32)
        _draw_ahead(self._states, arm, self._uniforms[arm, count : count + n_draws].copy(), items)
        return items

    def open(self, arm: int, items: OrderArray) -> None:
        self._freeze(arm)
        count = int(self.counts[arm])
        if self._is_active:
            probabilities = np.zeros(items.size)
            _probabilities_ahead(self._states, arm, items, probabilities)
        else:
            probabilities = 1.0 / (self.n_items - np.arange(count, count + items.size, dtype=np.float64))
        self._open[arm], self._probabilities[arm], self._n_done[arm] = items, probabilities, 0
        self._is_open[arm] = True
        self._last = arm

    def _freeze(self, arm: int) -> None:
        open_batch(
            self._states,
            arm,
            self._l2,
            self.settings.pseudo_pairs,
            self._is_pooled,
            self._held_out,
            self._is_active,
        )

    def _advance(self, arms: IntArray) -> None:
        for arm in arms.tolist():
            items = self._open[arm]
            if items is None:
                raise ValueError(f"arm {arm} has no open batch")
            done = int(self._n_done[arm])
            trace = self._room_in_trace(arm, items.size - done)
            done = _absorb_answered(
                self._states, arm, items, self._probabilities[arm], done, self.is_told, self._is_active, trace
            )
            self._n_done[arm] = done
            if done == items.size:
                self._open[arm], self._is_open[arm] = None, False
                self._index[arm] = index_of(
                    self._states,
                    arm,
                    self._estimate,
                    self._bonus,
                    self.settings.exploration,
                    self.settings.pseudo_pairs,
                    self._is_pooled,
                    self._held_out,
                )


class RoundAllocation(Allocation):
    """Policies whose survivors answer the same items, round after round; arms are dropped between rounds.

    survivors : (n_arms,) bool; depth : items every survivor has been asked in finished rounds
    """

    def __init__(self, policy: Policy, draws: Draws, settings: AllocationSettings) -> None:
        super().__init__(policy, draws, settings, None)
        self.survivors = np.ones(self.n_arms, dtype=np.bool_)
        self.depth = 0
        self._order = draws.shared_order.copy()
        self._ready = np.zeros(self.n_arms, dtype=np.int64)
        self._drawn = np.zeros(self.n_arms, dtype=np.int64)
        self._following = 0
        self._begin_round()

    @property
    def leader(self) -> int:
        alive = np.flatnonzero(self.survivors)
        if self.counts[alive[0]] == 0:
            return -1
        return int(alive[np.argmax(self._states.sums[alive, 0])])

    @property
    def next_arm(self) -> int:
        if self.is_finished:
            return -1
        # In the order of arms; one whose batch a budget cut short comes again.
        awaited = np.flatnonzero(self.survivors & (self._drawn < self._following))
        return int(awaited[0]) if awaited.size else -1

    def _items_of(self, arm: int, n_most: int) -> OrderArray:
        start = int(self._drawn[arm])
        return self._order[start : min(self._following, start + n_most)].copy()

    def open(self, arm: int, items: OrderArray) -> None:
        self._drawn[arm] += items.size

    def _advance(self, arms: IntArray) -> None:
        for arm in arms.tolist():
            ready = int(self._ready[arm])
            while ready < self._drawn[arm] and self.is_told[arm, self._order[ready]]:
                ready += 1
            self._ready[arm] = ready
        alive = np.flatnonzero(self.survivors)
        common = int(self._ready[alive].min())
        if common > self.counts[alive[0]]:
            start = int(self.counts[alive[0]])
            probabilities = 1.0 / (self.n_items - np.arange(start, common, dtype=np.float64))
            for arm in alive.tolist():
                trace = self._room_in_trace(arm, common - start)
                items = self._order[start:common].copy()
                _absorb_answered(self._states, arm, items, probabilities, 0, self.is_told, False, trace)
        if common == self._following and not self.is_finished:
            self.depth = common
            self._end_round()
            if not self.is_finished:
                self._begin_round()

    @abstractmethod
    def _begin_round(self) -> None:
        """Set `_following`, the depth that the round goes to."""

    @abstractmethod
    def _end_round(self) -> None:
        """Drop arms at `depth`."""


class RaceAllocation(RoundAllocation):
    """Certified stopping: after each round an arm goes that is proved not to be the best one."""

    def __init__(
        self, policy: Policy, draws: Draws, settings: AllocationSettings, predictor: Predictor | None = None
    ) -> None:
        super().__init__(policy, draws, settings)
        self._race = new_race(self._states.scores, self._order, predictor)
        self._l2 = 1.0 if predictor is None else predictor.l2

    @property
    def candidates(self) -> IntArray:
        return np.flatnonzero(self.survivors)

    @property
    def is_certified(self) -> bool:
        return self.is_finished

    @property
    def is_finished(self) -> bool:
        return int(self.survivors.sum()) == 1 or self.depth == self.n_items

    def _begin_round(self) -> None:
        self._following = min(self.n_items, self.depth + self.settings.batch)

    def _end_round(self) -> None:
        play_round(self._race, self.depth, self.settings.delta, self._l2, self.settings.pseudo_pairs)
        self.survivors[:] = self._race.is_left


class SuccessiveRejectsAllocation(RoundAllocation):
    """Successive rejects for one pull budget, which must be known beforehand; drops the lowest mean after each phase.

    Raises ValueError without a pull budget of at least one answer an arm.
    """

    def __init__(self, policy: Policy, draws: Draws, settings: AllocationSettings) -> None:
        if settings.pull_budget is None or settings.pull_budget < draws.own_orders.shape[0]:
            raise ValueError("successive rejects needs a pull budget of at least one answer an arm")
        self._pull_budget = settings.pull_budget
        self._phase = 1
        super().__init__(policy, draws, settings)

    @property
    def is_finished(self) -> bool:
        return int(self.survivors.sum()) == 1

    def _begin_round(self) -> None:
        log_bar = 0.5 + sum(1.0 / i for i in range(2, self.n_arms + 1))
        n_more = self._pull_budget - self.n_arms
        answers = math.ceil(n_more / (log_bar * (self.n_arms + 1 - self._phase)))
        self._following = min(self.n_items, max(1, int(answers)))

    def _end_round(self) -> None:
        while True:
            alive, sums = np.flatnonzero(self.survivors), self._states.sums[:, 0]
            # Of equal lowest means the last arm goes.
            lowest = alive[np.flatnonzero(sums[alive] == sums[alive].min())[-1]]
            self.survivors[lowest] = False
            self._phase += 1
            if self.is_finished:
                return
            self._begin_round()
            if self._following > self.depth:
                return


def make_allocation(
    policy: Policy, draws: Draws, settings: AllocationSettings, predictor: Predictor | None = None
) -> Allocation:
    """The object that plays a policy live.

    Raises ValueError where the policy needs a predictor or a pull budget that is not given.
    """
    if policy.needs_predictor and predictor is None:
        raise ValueError(f"policy {policy.name!r} needs item factors of training models")
    if policy.kind == "race":
        return RaceAllocation(policy, draws, settings, predictor)
    if policy.kind == "successive_rejects":
        return SuccessiveRejectsAllocation(policy, draws, settings)
    return IndexAllocation(policy, draws, settings, predictor)


@njit(nogil=True, cache=True)
def _absorb_answered(
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


@njit(nogil=True, cache=True)
def _draw_ahead(states: ArmStates, arm: int, uniforms: FloatArray, items: OrderArray) -> None:
    """Active draws of a whole batch: they hang on predictions and uniforms, never on the answers of the batch."""
    spread, count_tree = states.spread_tree[arm].copy(), states.count_tree[arm].copy()
    total, count = states.spread_totals[arm], states.counts[arm]
    for k in range(items.shape[0]):
        item, _ = choose_item(states, arm, uniforms[k])
        items[k] = item
        remove_from_trees(states, arm, item, states.predictions[arm, item])
        states.counts[arm] += 1
    states.spread_tree[arm, :] = spread
    states.count_tree[arm, :] = count_tree
    states.spread_totals[arm] = total
    states.counts[arm] = count


@njit(nogil=True, cache=True)
def _probabilities_ahead(states: ArmStates, arm: int, items: OrderArray, probabilities: FloatArray) -> None:
    """Probability of each draw of a batch, given those before it."""
    n_items = states.scores.shape[1]
    tau, count, total = states.batch[arm, TAU], states.counts[arm], states.spread_totals[arm]
    for k in range(items.shape[0]):
        m = n_items - count - k
        spread = spread_of(states.predictions[arm, items[k]])
        probabilities[k] = 1.0 if m == 1 else (1.0 - tau) / total * spread + tau / m
        total -= spread
