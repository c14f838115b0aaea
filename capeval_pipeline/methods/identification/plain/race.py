"""Paired tests and the certified race in loops; the reference of `race`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from capeval_pipeline.methods.identification.plain.draws import newton_step
from capeval_pipeline.methods.identification.records import (
    NEWTON_STEPS_PER_REFIT,
    REFIT_GROWTH,
    FloatArray,
    Predictor,
    ReplaySettings,
)

GAPS = (0.03, 0.07, 0.15, 0.3)


def paired_log_e(leader: Sequence[float], rival: Sequence[float], n: int, bet: float) -> float:
    """Log e-value of one bet against 'mean of the leader <= mean of the rival' over their common answers."""
    log_e = 0.0
    for k, (a, b) in enumerate(zip(leader, rival, strict=True)):
        difference = a - b
        null = (sum(rival[:k]) - sum(leader[:k])) / (n - k)
        if null > 1:
            return -math.inf
        if null < -1 - 1e-9:
            return math.inf
        if null <= -1 + 1e-9:
            if difference > -1 + 1e-9:
                return math.inf
            continue
        log_e += math.log(1 + bet * (difference - null) / (null + 1))
    return log_e


@dataclass
class Rival:
    """What is held against one arm's claim to be a best one."""

    wealths: list[float] = field(default_factory=lambda: [1.0] * len(GAPS))
    peak: float = 1.0
    differences: list[float] = field(default_factory=list)
    control_weight: float = 0.0
    lowest: float = -1.0


@dataclass(frozen=True)
class PlainRace:
    """alive : arms left; n_pulls; dropped_at : depth at which each arm was dropped, else n; rivals : final states."""

    alive: list[int]
    n_pulls: int
    dropped_at: list[int]
    rivals: list[Rival]


def run_race(
    scores: FloatArray, order: Sequence[int], settings: ReplaySettings, predictor: Predictor | None = None
) -> PlainRace:
    """Certified race on a full score matrix (n_arms, n_items) in the order given."""
    n_arms, n = scores.shape
    answers = scores[:, np.asarray(order)]  # by place, not by item
    factors = np.zeros((n, 0)) if predictor is None else predictor.item_factors[np.asarray(order)]
    rows = [np.zeros(0) if predictor is None else predictor.prior_mean for _ in range(n_arms)]
    predictions = np.array([_predict(row, factors) for row in rows])
    held = np.zeros((n_arms, n))
    rivals = [Rival() for _ in range(n_arms)]
    alive, depth, pulls, fitted_at, paired_leader = list(range(n_arms)), 0, 0, 0, -1
    dropped_at = [n] * n_arms
    while len(alive) > 1 and depth < n:
        following = min(n, depth + settings.batch)
        pulls += len(alive) * (following - depth)
        leader = _leader(answers, alive, depth)
        if predictor is not None and depth > 0:
            is_due = fitted_at == 0 or depth >= REFIT_GROWTH * fitted_at
            if is_due:
                for arm in alive:
                    for _ in range(NEWTON_STEPS_PER_REFIT):
                        seen = factors[:depth], predictor.prior_mean, predictor.l2, answers[arm, :depth]
                        rows[arm] = newton_step(rows[arm], *seen)
                    predictions[arm] = _predict(rows[arm], factors)
                fitted_at = depth
            if is_due or leader != paired_leader:
                for arm in [arm for arm in alive if arm != leader]:
                    _set_control(rivals[arm], answers, predictions, held, leader, arm, depth, settings.pseudo_pairs)
                paired_leader = leader
        for place in range(depth, following):
            if depth == 0:
                leader = _leader(answers, alive, place)
            held[:, place] = predictions[:, place]
            for arm in alive:
                if place > 0 and arm != leader and answers[arm, :place].sum() <= answers[leader, :place].sum():
                    _bet(rivals[arm], answers, predictions, leader, arm, place)
        depth = following
        leader = _leader(answers, alive, depth)
        for arm in [arm for arm in alive if arm != leader]:
            is_lower = answers[arm].sum() < answers[leader].sum() - 1e-9
            if is_lower if depth == n else rivals[arm].peak >= 1 / settings.delta:
                alive.remove(arm)
                dropped_at[arm] = depth
    return PlainRace(alive, pulls, dropped_at, rivals)


def _predict(row: FloatArray, factors: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-factors @ row))


def _leader(answers: FloatArray, alive: Sequence[int], depth: int) -> int:
    return min(alive, key=lambda arm: (-answers[arm, :depth].sum(), arm))


def _set_control(
    rival: Rival,
    answers: FloatArray,
    predictions: FloatArray,
    held: FloatArray,
    leader: int,
    arm: int,
    depth: int,
    pseudo_pairs: float,
) -> None:
    scores = answers[leader, :depth] - answers[arm, :depth]
    expected = held[leader, :depth] - held[arm, :depth]
    scores, expected = scores - scores.mean(), expected - expected.mean()
    cross, squares = float(scores @ expected), float(expected @ expected)
    rival.control_weight, rival.lowest = 0.0, -1.0
    if cross > 0 and squares > 0:
        rival.control_weight = min(1.0, cross / (squares + pseudo_pairs * squares / depth))
        gaps = predictions[arm, depth:] - predictions[leader, depth:]
        rival.lowest = -1 + rival.control_weight * float(gaps.min())


def _bet(rival: Rival, answers: FloatArray, predictions: FloatArray, leader: int, arm: int, place: int) -> None:
    """One draw against 'mean of the leader <= mean of the arm', which the arm's being a best one implies."""
    n, lam = answers.shape[1], rival.control_weight
    m = n - place
    known = [answers[a, :place].sum() + lam * predictions[a, place:].sum() for a in (leader, arm)]
    null = (known[1] - known[0]) / m
    residuals = [answers[a, place] - lam * predictions[a, place] for a in (leader, arm)]
    difference = residuals[0] - residuals[1]
    past = np.array(rival.differences)
    rival.differences.append(difference)
    if null < rival.lowest - 1e-9:
        rival.peak = math.inf
    elif null <= rival.lowest + 1e-9:
        if difference > rival.lowest + 1e-9:
            rival.peak = math.inf
    else:
        squares = float(((past - past.mean()) ** 2).sum()) if past.size else 0.0
        variance = (10 * 0.25 + squares) / (10 + past.size)
        scale = null - rival.lowest
        stakes = [min(0.9, gap * (n / m) * scale / variance) for gap in GAPS]
        rival.wealths = [
            wealth * (1 + stake * (difference - null) / scale)
            for wealth, stake in zip(rival.wealths, stakes, strict=True)
        ]
        rival.peak = max(rival.peak, sum(rival.wealths) / len(GAPS))
