"""Policies that pull from the arm with the largest index, or from one arm after the other."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.allocation.base import Allocation, AllocationSettings, absorb_answered
from capeval_pipeline.methods.identification.estimator import (
    TAU,
    ArmStates,
    choose_item,
    open_batch,
    remove_from_trees,
    spread_of,
)
from capeval_pipeline.methods.identification.records import Draws, FloatArray, IntArray, OrderArray, Policy, Predictor
from capeval_pipeline.methods.identification.replay import BONUS_CODES, index_of, pooling_of


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
            done = absorb_answered(
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
