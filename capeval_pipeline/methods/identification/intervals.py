"""Confidence limits for an arm's mean from the trace of its draws; valid while the draws are chosen adaptively.

The residual R = S - lam p lies in [-lam, 1]; under a supposed mean mu its mean over the unseen items is (n mu - C) / m
with C = sum_O S + lam sum_U p. One-sided failures take alpha / 2 each. Means that the answers themselves rule out,
sum_O / n <= mu <= (sum_O + m) / n, are always cut off, and a fully read arm has its mean for an interval.

* betting: two wealth processes, valid at all counts together, the reported one
* empirical Bernstein: valid at all counts together, for comparison
* Freedman: with estimated variances (not a theorem) or the true ones (a replay only), alpha split over all counts

A trace is the (k, 9) array of one arm's draws, columns as in `estimator`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.estimator import (
    T_DRAW_RATIO,
    T_KNOWN,
    T_LAM,
    T_PREDICTION,
    T_RATIO,
    T_SCORE,
    T_SCORE_VARIANCE,
    T_TAU,
    T_TRUE_VARIANCE,
)
from capeval_pipeline.methods.identification.records import FloatArray, IntArray, OrderArray

INTERVALS = ("betting", "empirical_bernstein", "freedman_plugin", "freedman_oracle")
LARGEST_BET = 0.75
BISECTIONS = 44  # 2^-44 of a width of at most 1
UP, DOWN = 0, 1


@njit(nogil=True, cache=True)
def bets_of(trace: FloatArray, n_items: int, alpha: float) -> FloatArray:
    """Columns per draw: eta before caps, R / (pi m), C, (1 + lam) / tau, lam / tau; (k, 5).

    eta_k = (n/m) sqrt(2 L / (s^2 n (k+1)/(n-k-1) log(k+2))), L = log(2 / alpha), looks at past draws only.
    """
    n_draws = trace.shape[0]
    out = np.empty((n_draws, 5))
    log_term = math.log(2.0 / alpha)
    past_sum, squares = 0.0, 0.0
    for k in range(n_draws):
        m = n_items - k
        lam, tau = trace[k, T_LAM], trace[k, T_TAU]
        mean = (0.5 + past_sum) / (k + 1)
        variance = (1.0 + squares) / (k + 4)
        eta = 0.0
        if m > 1:
            eta = n_items / m * math.sqrt(2.0 * log_term * (m - 1) / (variance * n_items * (k + 1) * math.log(k + 2.0)))
        residual = (trace[k, T_SCORE] - lam * trace[k, T_PREDICTION]) / trace[k, T_DRAW_RATIO]
        out[k, 0] = eta
        out[k, 1] = residual
        out[k, 2] = trace[k, T_KNOWN]
        out[k, 3] = (1.0 + lam) / tau
        out[k, 4] = lam / tau
        x = (residual + lam / tau) * tau / (1.0 + lam)
        squares += (x - mean) * (x - mean)
        past_sum += x
    return out


@njit(nogil=True, cache=True)
def first_crossing(bets: FloatArray, n_items: int, mu: float, side: int, threshold: float, n_draws: int) -> int:
    """Number of draws after which the log wealth of one side first reached the threshold under mean mu; -1 if never."""
    wealth, log_wealth = 1.0, 0.0
    wealth_threshold = math.exp(threshold)
    for k in range(n_draws):
        scale = bets[k, 3]
        x = (bets[k, 1] + bets[k, 4]) / scale
        null = ((n_items * mu - bets[k, 2]) / (n_items - k) + bets[k, 4]) / scale
        null = min(max(null, 0.0), 1.0)
        eta = bets[k, 0]
        if side == UP:
            wealth *= 1.0 + (eta if eta * null <= LARGEST_BET else LARGEST_BET / null) * (x - null)
        else:
            rest = 1.0 - null
            wealth *= 1.0 - (eta if eta * rest <= LARGEST_BET else LARGEST_BET / rest) * (x - null)
        # Products are cheap and logs are not: the log is taken only where the product would leave the range of floats.
        if log_wealth == 0.0:
            if wealth >= wealth_threshold:
                return k + 1
        elif log_wealth + math.log(wealth) >= threshold:
            return k + 1
        if wealth < 1e-100:
            log_wealth += math.log(wealth)
            wealth = 1.0
    return -1


@njit(nogil=True, cache=True)
def possible_means(trace: FloatArray, n_items: int, n_draws: int) -> tuple[float, float]:
    """Smallest and largest mean that the first `n_draws` answers leave possible."""
    total = 0.0
    for k in range(n_draws):
        total += trace[k, T_SCORE]
    return total / n_items, (total + n_items - n_draws) / n_items


@njit(nogil=True, cache=True)
def betting_limits(
    trace: FloatArray, bets: FloatArray, n_items: int, n_draws: int, alpha: float
) -> tuple[float, float]:
    """Lower and upper limit after `n_draws` answers, intersected over all counts up to there.

    Both wealths are monotone in mu at every count, hence so is their largest value over counts: bisection finds the
    limit, and its excluded end is returned, so that rounding widens the interval.
    """
    low, high = possible_means(trace, n_items, n_draws)
    if n_draws == n_items:
        return low, low
    threshold = math.log(2.0 / alpha)
    lower, upper = low, high
    if first_crossing(bets, n_items, low, UP, threshold, n_draws) > 0:
        excluded, inside = low, high
        for _ in range(BISECTIONS):
            middle = 0.5 * (excluded + inside)
            if first_crossing(bets, n_items, middle, UP, threshold, n_draws) > 0:
                excluded = middle
            else:
                inside = middle
        lower = excluded
    if first_crossing(bets, n_items, high, DOWN, threshold, n_draws) > 0:
        excluded, inside = high, low
        for _ in range(BISECTIONS):
            middle = 0.5 * (excluded + inside)
            if first_crossing(bets, n_items, middle, DOWN, threshold, n_draws) > 0:
                excluded = middle
            else:
                inside = middle
        upper = excluded
    return lower, upper


@njit(nogil=True, cache=True)
def bernstein_path(trace: FloatArray, n_items: int, alpha: float) -> FloatArray:
    """Empirical-Bernstein limits after each draw, intersected over counts; (k, 2)."""
    n_draws = trace.shape[0]
    path = np.empty((n_draws, 2))
    bets = bets_of(trace, n_items, alpha)
    log_term = math.log(2.0 / alpha)
    gains = weighted = psi = total = past_sum = 0.0
    lower, upper = 0.0, 1.0
    for k in range(n_draws):
        m = n_items - k
        eta = min(bets[k, 0], LARGEST_BET)
        gain = eta * n_items / (bets[k, 3] * m)
        theta = (bets[k, 2] + bets[k, 1] * m) / n_items
        x = (bets[k, 1] + bets[k, 4]) / bets[k, 3]
        gap = x - (0.5 + past_sum) / (k + 1)
        past_sum += x
        psi += gap * gap * (-math.log(1.0 - eta) - eta)
        gains += gain
        weighted += gain * theta
        total += trace[k, T_SCORE]
        if gains > 0.0:
            half = (log_term + psi) / gains
            lower, upper = max(lower, weighted / gains - half), min(upper, weighted / gains + half)
        lower, upper = max(lower, total / n_items), min(upper, (total + m - 1) / n_items)
        path[k, 0], path[k, 1] = lower, upper
    if n_draws == n_items:
        path[n_draws - 1, :] = total / n_items
    return path


@njit(nogil=True, cache=True)
def freedman_path(trace: FloatArray, n_items: int, alpha: float, is_oracle: bool) -> FloatArray:
    """Freedman limits after each draw, intersected over counts; (k, 2). `alpha` is used as given, at every count.

    Half width (R L/3 + sqrt((R L/3)^2 + 2 Q L)) / sum w with R = max w (m/n)(1 + lam)/tau and Q = sum w^2 Var(theta).
    """
    n_draws = trace.shape[0]
    path = np.empty((n_draws, 2))
    log_term = math.log(2.0 / alpha)
    weights = weighted = largest = variance_sum = total = 0.0
    lower, upper = 0.0, 1.0
    for k in range(n_draws):
        m = n_items - k
        lam, ratio = trace[k, T_LAM], trace[k, T_RATIO]
        total += trace[k, T_SCORE]
        if m > 1:
            residual = (trace[k, T_SCORE] - lam * trace[k, T_PREDICTION]) / trace[k, T_DRAW_RATIO]
            weight = 1.0 / (float(m) * (m - 1.0) * ratio)
            variance = trace[k, T_TRUE_VARIANCE] if is_oracle else ratio * trace[k, T_SCORE_VARIANCE]
            weights += weight
            weighted += weight * (trace[k, T_KNOWN] + residual * m) / n_items
            largest = max(largest, weight * m / n_items * (1.0 + lam) / trace[k, T_TAU])
            variance_sum += weight * weight * variance * (m / n_items) ** 2
            reach = largest * log_term / 3.0
            half = (reach + math.sqrt(reach * reach + 2.0 * variance_sum * log_term)) / weights
            lower, upper = max(lower, weighted / weights - half), min(upper, weighted / weights + half)
        lower, upper = max(lower, total / n_items), min(upper, (total + m - 1) / n_items)
        path[k, 0], path[k, 1] = lower, upper
    if n_draws == n_items:
        path[n_draws - 1, :] = total / n_items
    return path


@njit(nogil=True, cache=True)
def first_miss(path: FloatArray, mu: float) -> int:
    """Number of draws after which the limits first left out mu; -1 if never. Rounding is given 1e-12."""
    for k in range(path.shape[0]):
        if mu < path[k, 0] - 1e-12 or mu > path[k, 1] + 1e-12:
            return k + 1
    return -1


@njit(nogil=True, cache=True)
def group_by_arm(trace_arms: OrderArray, n_arms: int) -> tuple[IntArray, IntArray]:
    """(starts, places): arm a's draws are rows places[starts[a]:starts[a + 1]] of the trace, in order."""
    starts = np.zeros(n_arms + 1, dtype=np.int64)
    for arm in trace_arms:
        starts[arm + 1] += 1
    for arm in range(n_arms):
        starts[arm + 1] += starts[arm]
    following = starts[:-1].copy()
    places = np.empty(trace_arms.shape[0], dtype=np.int64)
    for place in range(trace_arms.shape[0]):
        arm = trace_arms[place]
        places[following[arm]] = place
        following[arm] += 1
    return starts, places


@njit(nogil=True, cache=True)
def step_error_sum(trace: FloatArray, trace_arms: OrderArray, n_items: int, means: FloatArray) -> float:
    """Sum over all draws and arms of theta - mu: its expectation is 0 whatever the policy did."""
    counts = np.zeros(means.shape[0], dtype=np.int64)
    total = 0.0
    for place in range(trace_arms.shape[0]):
        arm = trace_arms[place]
        m = n_items - counts[arm]
        counts[arm] += 1
        residual = (trace[place, T_SCORE] - trace[place, T_LAM] * trace[place, T_PREDICTION]) / trace[
            place, T_DRAW_RATIO
        ]
        total += (trace[place, T_KNOWN] + residual * m) / n_items - means[arm]
    return total


@njit(nogil=True, cache=True)
def betting_misses(bets: FloatArray, starts: IntArray, n_items: int, means: FloatArray, alpha: float) -> IntArray:
    """For each arm the number of draws after which its betting interval first left out its mean, -1 if never.

    bets : of all arms, grouped by `starts`.
    """
    n_arms = means.shape[0]
    out = np.full(n_arms, -1, dtype=np.int64)
    threshold = math.log(2.0 / alpha)
    for arm in range(n_arms):
        own = bets[starts[arm] : starts[arm + 1]]
        for side in range(2):
            # At the last draw the interval is the mean itself.
            n_draws = min(own.shape[0], n_items - 1)
            crossing = first_crossing(own, n_items, means[arm], side, threshold, n_draws)
            if crossing > 0 and (out[arm] < 0 or crossing < out[arm]):
                out[arm] = crossing
    return out


@njit(nogil=True, cache=True)
def grouped_bets(trace: FloatArray, starts: IntArray, n_items: int, alpha: float) -> FloatArray:
    """`bets_of` for every arm of a trace already grouped by arm."""
    out = np.empty((trace.shape[0], 5))
    for arm in range(starts.shape[0] - 1):
        out[starts[arm] : starts[arm + 1]] = bets_of(trace[starts[arm] : starts[arm + 1]], n_items, alpha)
    return out


@njit(nogil=True, cache=True)
def certificate_time(
    trace: FloatArray,
    bets: FloatArray,
    starts: IntArray,
    places: IntArray,
    n_items: int,
    alpha: float,
    leader: int,
    is_tied: np.ndarray,
    check_order: IntArray,
) -> int:
    """Pulls after which the leader's lower limit first was above every other arm's upper limit; -1 if never.

    Limits only move inwards, so once certified an arm stays certified, and the moment is found by bisection over the
    run. Arms of `is_tied` (equal true means) need not be beaten once they and the leader are read to the end.
    check_order : other arms, the likeliest to object first.
    """
    first, last = 1, places.shape[0]
    if not _is_certified(trace, bets, starts, places, n_items, alpha, leader, is_tied, check_order, last):
        return -1
    while first < last:
        middle = (first + last) // 2
        if _is_certified(trace, bets, starts, places, n_items, alpha, leader, is_tied, check_order, middle):
            last = middle
        else:
            first = middle + 1
    return last


@njit(nogil=True, cache=True)
def _is_certified(
    trace: FloatArray,
    bets: FloatArray,
    starts: IntArray,
    places: IntArray,
    n_items: int,
    alpha: float,
    leader: int,
    is_tied: np.ndarray,
    check_order: IntArray,
    n_pulls: int,
) -> bool:
    begin, end = starts[leader], starts[leader + 1]
    count = int(np.searchsorted(places[begin:end], n_pulls))
    if count == 0:
        return False
    # What the wealth had ruled out before the last answer stays ruled out after it: otherwise a wrong certificate
    # would vanish with the run that made it.
    lower, _ = betting_limits(trace[begin:end], bets[begin:end], n_items, min(count, n_items - 1), alpha)
    is_read = count == n_items
    if is_read:
        lower = max(lower, possible_means(trace[begin:end], n_items, count)[0])
    threshold = math.log(2.0 / alpha)
    for arm in check_order:
        if arm == leader:
            continue
        begin, end = starts[arm], starts[arm + 1]
        count = int(np.searchsorted(places[begin:end], n_pulls))
        if is_tied[leader] and is_tied[arm] and is_read and count == n_items:
            continue
        if count == 0:
            return False
        _, high = possible_means(trace[begin:end], n_items, count)
        if high < lower - 1e-12:
            continue
        n_bets = min(count, n_items - 1)
        if first_crossing(bets[begin:end], n_items, lower, DOWN, threshold, n_bets) < 0:
            return False
    return True
