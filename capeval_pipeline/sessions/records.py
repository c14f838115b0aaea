"""What a session is set to and what it answers: frozen records, each with its JSON form where a command prints it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

StopReason = Literal["certified", "pull_budget", "cost_budget", "exhausted"]
RejectionCode = Literal["unknown_ask", "conflict", "out_of_range", "not_a_number", "bad_line"]

MAX_ATTEMPTS = 4
"""A call that failed is handed out again three times; then the item counts as answered in the worst way."""


@dataclass(frozen=True)
class SessionChoices:
    """What is chosen when a session is made; `Session.create` says what each means."""

    arms: Sequence[str]
    items: Collection[str] | None = None
    policy: str = "pulse"
    delta: float = 0.05
    batch: int | None = None
    seed: int = 0
    pull_budget: int | None = None
    cost_budget: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionConfig:
    """Everything that is frozen when a session is made.

    arms : ascending model ids. prices : arm → USD per call, where known. score_low, score_high, higher_is_better : how
    told scores become quality on 0…1. predictor_version : hash of the item factors, None without a predictor, and then
    `no_predictor` says why. n_training_models, rank : of the predictor.
    """

    session: str
    benchmark_id: str
    policy: str
    arms: tuple[str, ...]
    n_items: int
    items_version: str
    batch: int
    delta: float
    seed: int
    exploration: float
    pseudo_pairs: float
    score_low: float
    score_high: float
    higher_is_better: bool
    pull_budget: int | None = None
    cost_budget: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    predictor_version: str | None = None
    n_training_models: int = 0
    rank: int | None = None
    l2: float = 1.0
    no_predictor: str | None = None

    @property
    def n_cells(self) -> int:
        """(model, item) pairs that can be asked at most."""
        return len(self.arms) * self.n_items

    def quality_of(self, score: float) -> float:
        """A score of the declared range as quality: 0…1, larger is better."""
        share = (score - self.score_low) / (self.score_high - self.score_low)
        return min(1.0, max(0.0, share if self.higher_is_better else 1.0 - share))

    def as_json(self) -> dict[str, Any]:
        """All fields under their names, as `session.json` holds them."""
        return {**asdict(self), "arms": list(self.arms), "prices": dict(self.prices)}


@dataclass(frozen=True)
class SessionItem:
    """An item of a session; prompt and category are None where the benchmark has none."""

    item_id: str
    prompt: str | None = None
    category: str | None = None


@dataclass(frozen=True)
class Ask:
    """One call to make."""

    ask_id: str
    model_id: str
    item_id: str
    prompt: str | None
    generation_id: int = 0


@dataclass(frozen=True)
class AskReply:
    """Calls to make now. No asks without `stop` means: tell first."""

    session: str
    asks: tuple[Ask, ...]
    n_pending: int
    stop: bool
    reason: StopReason | None

    def as_json(self) -> dict[str, Any]:
        """What `capeval identify ask --json` prints."""
        asks = [
            {
                "ask_id": ask.ask_id,
                "model_id": ask.model_id,
                "item_id": ask.item_id,
                "generation_id": ask.generation_id,
                "prompt": ask.prompt,
            }
            for ask in self.asks
        ]
        return {
            "session": self.session,
            "asks": asks,
            "n_pending": self.n_pending,
            "stop": self.stop,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class RejectedLine:
    """A told line that was refused; lines count from 1."""

    line: int
    ask_id: str | None
    code: RejectionCode
    message: str


@dataclass(frozen=True)
class TellReply:
    """What became of told lines. Good lines count even where others are refused."""

    accepted: int
    already_recorded: int
    rejected: tuple[RejectedLine, ...]
    n_pending: int

    def as_json(self) -> dict[str, Any]:
        """What `capeval identify tell --json` prints."""
        return {
            "accepted": self.accepted,
            "already_recorded": self.already_recorded,
            "rejected": [asdict(line) for line in self.rejected],
            "n_pending": self.n_pending,
        }


@dataclass(frozen=True)
class ArmStatus:
    """An arm as far as its answers count; estimate and limits on 0…1, the estimate NaN before the first answer."""

    model_id: str
    n_answers: int
    estimate: float
    lower: float
    upper: float
    is_candidate: bool


@dataclass(frozen=True)
class SessionStatus:
    """What can be said now.

    n_told : answers recorded, of which n_waiting do not count yet, since one drawn before them is missing
    spent_usd : NaN where the cost of a call is not known. best : the leader; once certified, all best arms
    candidates : arms that cannot be ruled out as the best at delta
    """

    session: str
    policy: str
    n_told: int
    n_pending: int
    n_waiting: int
    spent_usd: float
    certified: bool
    best: tuple[str, ...]
    candidates: tuple[str, ...]
    delta: float
    sentence: str
    arms: tuple[ArmStatus, ...]
    stop: bool
    reason: StopReason | None

    def as_json(self) -> dict[str, Any]:
        """What `capeval identify status --json` prints; an unknown cost or estimate is null."""
        return {
            "session": self.session,
            "policy": self.policy,
            "n_told": self.n_told,
            "n_pending": self.n_pending,
            "n_waiting": self.n_waiting,
            "spent_usd": _known(self.spent_usd),
            "certified": self.certified,
            "best": list(self.best),
            "candidates": list(self.candidates),
            "delta": self.delta,
            "sentence": self.sentence,
            "arms": [{**asdict(arm), "estimate": _known(arm.estimate)} for arm in self.arms],
            "stop": self.stop,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class SessionExport:
    """What an export wrote."""

    session: str
    folder: Path
    benchmark: str
    n_results: int

    def as_json(self) -> dict[str, Any]:
        """What `capeval identify export --json` prints."""
        return {**asdict(self), "folder": str(self.folder)}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
