"""Policies whose survivors answer the same items, round after round: the race and successive rejects."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from capeval_pipeline.methods.identification.allocation.base import Allocation, AllocationSettings, absorb_answered
from capeval_pipeline.methods.identification.race import new_race, play_round
from capeval_pipeline.methods.identification.records import Draws, IntArray, OrderArray, Policy, Predictor


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
                absorb_answered(self._states, arm, items, probabilities, 0, self.is_told, False, trace)
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
