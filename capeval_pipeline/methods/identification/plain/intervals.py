"""Confidence limits of one arm from its draws; the reference of `intervals`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_BET = 0.75


@dataclass(frozen=True)
class Step:
    """One draw of an arm as the intervals see it.

    known : C = sum_O S + lam sum_U p before the draw; residual : R = S - lam p; draw_ratio : pi m (1 for uniform draws)
    """

    score: float
    control_weight: float
    known: float
    residual: float
    draw_ratio: float = 1.0
    uniform_share: float = 1.0
    residual_ratio: float = 1.0
    conditional_variance: float = math.nan  # of the residual over U
    score_variance: float = 0.25  # as estimated before the batch
    prediction: float = 0.0
    item: int = -1


def log_wealths(steps: Sequence[Step], n: int, mu: float, bets: Sequence[float]) -> list[tuple[float, float]]:
    """Log wealth (up, down) after each draw under the supposed mean mu; infinite once mu is impossible."""
    out = []
    up = down = 0.0
    for k, (step, bet) in enumerate(zip(steps, bets, strict=True)):
        lam, tau, m = step.control_weight, step.uniform_share, n - k
        x = (step.residual / step.draw_ratio + lam / tau) * tau / (1 + lam)
        null = ((n * mu - step.known) / m + lam / tau) * tau / (1 + lam)
        null = min(max(null, 0.0), 1.0)
        bet_up = bet if null <= 0 else min(bet, LARGEST_BET / null)
        bet_down = bet if null >= 1 else min(bet, LARGEST_BET / (1 - null))
        up += math.log(1 + bet_up * (x - null))
        down += math.log(1 - bet_down * (x - null))
        out.append((up, down))
    return out


def predictable_bets(steps: Sequence[Step], n: int, alpha: float) -> list[float]:
    """eta_k of each draw, before any cap."""
    log_term = math.log(2 / alpha)
    seen: list[float] = []
    squares = 0.0
    out = []
    for k, step in enumerate(steps):
        m = n - k
        mean = (0.5 + sum(seen)) / (k + 1)
        variance = (1 + squares) / (k + 4)
        out.append(
            0.0
            if m == 1
            else (n / m) * math.sqrt(2 * log_term / (variance * n * (k + 1) / (n - k - 1) * math.log(k + 2)))
        )
        lam, tau = step.control_weight, step.uniform_share
        x = (step.residual / step.draw_ratio + lam / tau) * tau / (1 + lam)
        squares += (x - mean) ** 2
        seen.append(x)
    return out


def betting_interval(steps: Sequence[Step], n: int, alpha: float) -> tuple[float, float]:
    """Means that neither wealth has ruled out at any count so far, inside what the answers leave possible."""
    total, k = sum(step.score for step in steps), len(steps)
    low, high = total / n, (total + n - k) / n
    if k == n:
        return low, low
    bets, threshold = predictable_bets(steps, n, alpha), math.log(2 / alpha)

    def ruled_out(mu: float, side: int) -> bool:
        return any(pair[side] >= threshold for pair in log_wealths(steps, n, mu, bets))

    lower, upper = low, high
    if ruled_out(low, 0):
        inside, outside = high, low
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if ruled_out(middle, 0) else (middle, outside)
        lower = outside
    if ruled_out(high, 1):
        inside, outside = low, high
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if ruled_out(middle, 1) else (middle, outside)
        upper = outside
    return lower, upper


def bernstein_interval(steps: Sequence[Step], n: int, alpha: float) -> tuple[float, float]:
    """Empirical-Bernstein limits, intersected over counts."""
    lower, upper = 0.0, 1.0
    bets = [min(bet, LARGEST_BET) for bet in predictable_bets(steps, n, alpha)]
    gains = weighted = psi = total = 0.0
    seen: list[float] = []
    for k, step in enumerate(steps):
        lam, tau, m = step.control_weight, step.uniform_share, n - k
        x = (step.residual / step.draw_ratio + lam / tau) * tau / (1 + lam)
        gain = bets[k] * n * tau / ((1 + lam) * m)
        theta = (step.known + step.residual * m / step.draw_ratio) / n
        psi += (x - (0.5 + sum(seen)) / (k + 1)) ** 2 * (-math.log(1 - bets[k]) - bets[k])
        seen.append(x)
        gains, weighted, total = gains + gain, weighted + gain * theta, total + step.score
        if gains > 0:
            half = (math.log(2 / alpha) + psi) / gains
            lower, upper = max(lower, weighted / gains - half), min(upper, weighted / gains + half)
        lower, upper = max(lower, total / n), min(upper, (total + m - 1) / n)
    return (total / n, total / n) if len(steps) == n else (lower, upper)


def freedman_half_width(
    weights: Sequence[float], ranges: Sequence[float], conditional_variances: Sequence[float], alpha: float
) -> float:
    """Half width about sum w theta / sum w; ranges are (m/n)(1 + lam)/tau, variances those of theta."""
    log_term = math.log(2 / alpha)
    largest = max(w * r for w, r in zip(weights, ranges, strict=True))
    total_variance = sum(w * w * v for w, v in zip(weights, conditional_variances, strict=True))
    reach = largest * log_term / 3
    return (reach + math.sqrt(reach**2 + 2 * total_variance * log_term)) / sum(weights)


def freedman_interval(steps: Sequence[Step], n: int, alpha: float) -> tuple[float, float]:
    """Freedman limits with the variances in the steps, intersected over counts."""
    lower, upper, total = 0.0, 1.0, 0.0
    weights: list[float] = []
    ranges: list[float] = []
    variances: list[float] = []
    weighted = 0.0
    for k, step in enumerate(steps):
        m = n - k
        total += step.score
        if m > 1:
            weights.append(1 / (m * (m - 1) * step.residual_ratio))
            ranges.append(m / n * (1 + step.control_weight) / step.uniform_share)
            variances.append((m / n) ** 2 * step.conditional_variance)
            weighted += weights[-1] * (step.known + step.residual * m / step.draw_ratio) / n
            half = freedman_half_width(weights, ranges, variances, alpha)
            lower, upper = max(lower, weighted / sum(weights) - half), min(upper, weighted / sum(weights) + half)
        lower, upper = max(lower, total / n), min(upper, (total + m - 1) / n)
    return (total / n, total / n) if len(steps) == n else (lower, upper)
