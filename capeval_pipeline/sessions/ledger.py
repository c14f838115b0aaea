"""What was asked, told, spent: the plain bookkeeping of a session as a function of its journal; no estimates here.

Records of the journal, as JSON:

* `{"kind":"ask","decided":[[arm,[item,…]],…],"given":[[arm,item],…]}`: batches that were decided, and calls handed out
  in that order; asks are numbered through the whole session.
* `{"kind":"tell","answers":[[ask,score,cost],…]}`: a score as told, null for a call that failed; the cost or null.

Arms, items and asks are numbers here; names stay with the session.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from capeval_pipeline.sessions.records import MAX_ATTEMPTS, SessionConfig

WORST = 0.0
COST_TOLERANCE = 1e-9


class Told(NamedTuple):
    """What was told about one ask: a score, or None for a call that failed."""

    score: float | None


class Answer(NamedTuple):
    """A cell that is answered for good, with its quality; `score` is None where all its calls failed."""

    arm: int
    item: int
    quality: float
    score: float | None
    cost: float | None


class Ledger:
    """Everything that was asked and told.

    asked : (arm, item) by ask number. pending : asks that were handed out and not answered, in order. answers : cells
    that are answered for good, in the order told. n_decided : cells in decided batches, each of which is one pull.
    """

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        # Scores that are quality already are by far the most frequent, and a long journal has many.
        is_quality = (config.score_low, config.score_high, config.higher_is_better) == (0.0, 1.0, True)
        self._quality_of = _within_0_and_1 if is_quality else config.quality_of
        self.asked: list[tuple[int, int]] = []
        self._scores: dict[int, float | None] = {}
        self.pending: dict[int, None] = {}
        self.answers: list[Answer] = []
        self.n_decided = 0
        self.queue: deque[tuple[int, int]] = deque()
        self.retries: deque[tuple[int, int]] = deque()
        self._last_ask: dict[tuple[int, int], int] = {}
        self._n_failed: dict[tuple[int, int], int] = {}
        n_arms = len(config.arms)
        self._n_pending = [0] * n_arms
        self._known_costs = [0.0] * n_arms
        self._n_known_costs = [0] * n_arms
        self._n_unknown_costs = [0] * n_arms
        self._prices = [config.prices.get(arm, math.nan) for arm in config.arms]

    def record_ask(self, record: dict[str, Any]) -> list[tuple[int, list[int]]]:
        """Take in a record of an ask; returns the batches that were decided in it."""
        decided = [(arm, items) for arm, items in record["decided"]]
        for arm, items in decided:
            self.n_decided += len(items)
            self.queue.extend((arm, item) for item in items)
        for arm, item in record["given"]:
            cell = (arm, item)
            waiting = self.retries if self.retries and self.retries[0] == cell else self.queue
            if not waiting or waiting.popleft() != cell:
                raise ValueError(f"ask {len(self.asked) + 1} hands out arm {arm}, item {item}, which is not next")
            number = len(self.asked)
            self.asked.append(cell)
            self.pending[number] = None
            self._last_ask[cell] = number
            self._n_pending[arm] += 1
        return decided

    def record_tell(self, record: dict[str, Any]) -> list[Answer]:
        """Take in a record of told answers; returns the cells that are answered for good by it."""
        asked, pending, n_pending = self.asked, self.pending, self._n_pending
        quality_of = self._quality_of
        final = []
        for number, score, cost in record["answers"]:
            arm, item = asked[number]
            del pending[number]
            n_pending[arm] -= 1
            self._scores[number] = score
            if cost is None:
                self._n_unknown_costs[arm] += 1
            else:
                self._known_costs[arm] += cost
                self._n_known_costs[arm] += 1
            if score is None and self._is_tried_again(arm, item):
                continue
            final.append(Answer(arm, item, WORST if score is None else quality_of(score), score, cost))
        self.answers += final
        return final

    def _is_tried_again(self, arm: int, item: int) -> bool:
        """Count one more failed call of a cell, and line it up to be handed out again unless it was the last."""
        cell = (arm, item)
        self._n_failed[cell] = self._n_failed.get(cell, 0) + 1
        if self._n_failed[cell] == MAX_ATTEMPTS:
            return False
        self.retries.append(cell)
        return True

    def told(self, number: int) -> Told | None:
        """What was told about an ask, None if nothing yet."""
        return Told(self._scores[number]) if number in self._scores else None

    def last_ask_of(self, arm: int, item: int) -> int | None:
        """Number of the latest ask for a cell, None if it was never handed out."""
        return self._last_ask.get((arm, item))

    @property
    def next_cell(self) -> tuple[int, int] | None:
        """The cell that is handed out next, without a new decision: failed calls first, they hold others up."""
        if self.retries:
            return self.retries[0]
        return self.queue[0] if self.queue else None

    def price_of(self, arm: int) -> float:
        """Expected cost of a call: the mean of the costs told, before that the given price; NaN if neither is known."""
        if self._n_known_costs[arm]:
            return self._known_costs[arm] / self._n_known_costs[arm]
        return self._prices[arm]

    @property
    def spent_usd(self) -> float:
        """Cost of all calls answered; those told without a cost at their price, NaN where that is not known."""
        total = 0.0
        for arm, n_unknown in enumerate(self._n_unknown_costs):
            total += self._known_costs[arm]
            if n_unknown:
                total += n_unknown * self.price_of(arm)
        return total

    @property
    def has_costs(self) -> bool:
        """Whether any cost was told or any price given."""
        return bool(self._config.prices) or any(self._n_known_costs)

    def is_affordable(self, arm: int, more: float = 0.0) -> bool:
        """Whether one more call of an arm stays within the cost budget, if calls under way cost what is expected.

        more : expected cost of calls that are about to be handed out.
        """
        if self._config.cost_budget is None:
            return True
        reserved = sum(n * self.price_of(other) for other, n in enumerate(self._n_pending) if n)
        total = self.spent_usd + reserved + more + self.price_of(arm)
        return total <= self._config.cost_budget * (1.0 + COST_TOLERANCE)


def _within_0_and_1(score: float) -> float:
    return score if 0.0 <= score <= 1.0 else min(1.0, max(0.0, score))
