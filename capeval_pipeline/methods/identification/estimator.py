"""What is known of every arm, and the three moves on it: open a batch, choose an item, take in an answer.

The replay of the study is these moves in a loop; a live session makes the same moves one command at a time. All of
them are numba kernels on `ArmStates`, a tuple of arrays that they change in place. `plain.py` is the readable form.

Words: O are the revealed items of an arm, U the rest, m = |U|. One draw of item j with probability pi gives
    theta = (sum_O S + lam sum_U p + (S_j - lam p_j) / pi) / n,    E[theta | history] = mean of the arm,
for every control weight lam and every prediction p fixed before the draw.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.records import (
    ACTIVE_FLOOR,
    ACTIVE_GAIN_NEEDED,
    DRAWS_BEFORE_ACTIVE,
    NEWTON_STEPS_PER_REFIT,
    REFIT_GROWTH,
    SMALLEST_RESIDUAL_RATIO,
    UNIFORM_SHARES,
    FloatArray,
    IntArray,
    OrderArray,
    Predictor,
)
from capeval_pipeline.methods.item_factors import update_row

# How an estimate is made of an arm's answers.
SAMPLE_MEAN, FILLED_WITH_PREDICTIONS, WEIGHTED_STEPS, AVERAGED_STEPS = 0, 1, 2, 3
ESTIMATE_CODES = {
    "sample_mean": SAMPLE_MEAN,
    "filled_with_predictions": FILLED_WITH_PREDICTIONS,
    "weighted_steps": WEIGHTED_STEPS,
    "averaged_steps": AVERAGED_STEPS,
}

# Columns of ArmStates.batch: what is frozen for the draws of a batch.
LAM, RATIO, SCORE_VARIANCE, TAU = 0, 1, 2, 3
# Columns of ArmStates.pairs: weighted Welford moments of (score, prediction held before).
PAIR_WEIGHT, MEAN_SCORE, MEAN_PREDICTION, CENTRED_SCORES, CENTRED_PREDICTIONS, CENTRED_CROSS = 0, 1, 2, 3, 4, 5
# Columns of a trace row.
(T_SCORE, T_PREDICTION, T_LAM, T_KNOWN, T_DRAW_RATIO, T_TAU, T_RATIO, T_SCORE_VARIANCE, T_TRUE_VARIANCE) = range(9)
N_TRACE_COLUMNS = 9

_SHARES = np.array(UNIFORM_SHARES)


class ArmStates(NamedTuple):
    """State of all arms, changed in place.

    scores, predictions : (n_arms, n_items); a live session fills scores as they are told
    item_factors (n_items, rank), prior_mean (rank,), rows (n_arms, rank); rank 0 without a predictor
    items : (n_arms, n_items) the order drawn; its first counts[arm] entries are answered
    batch : (n_arms, 4) frozen for the batch: lam, residual ratio, score variance, uniform share
    pairs : (n_arms, 6) moments of (score, prediction held before the score was seen)
    sums : (n_arms, 6) of scores, unseen predictions, weights, weighted thetas, thetas, draws whose lam was not 0
    unseen : (n_arms, 5) sums over U of S, S^2, p, p^2, S p: what only a replay knows, for oracle variances
    share_memory : (n_shares + 2,) draws so far, second moments by uniform share, weighted residuals
    spread_tree, count_tree : (n_arms, n_items + 1) Fenwick trees for active draws, else empty
    spread_totals : (n_arms,)
    """

    scores: FloatArray
    predictions: FloatArray
    item_factors: FloatArray
    prior_mean: FloatArray
    rows: FloatArray
    items: OrderArray
    counts: IntArray
    fitted_at: IntArray
    batch: FloatArray
    pairs: FloatArray
    sums: FloatArray
    unseen: FloatArray
    share_memory: FloatArray
    spread_tree: FloatArray
    count_tree: FloatArray
    spread_totals: FloatArray


def new_states(scores: FloatArray, items: OrderArray, predictor: Predictor | None, *, is_active: bool) -> ArmStates:
    """States before any answer; `items` (n_arms, n_items) holds the orders, or is filled by active draws.

    scores and items are kept, not copied: they must be writable and in C order.
    """
    n_arms, n_items = scores.shape
    if predictor is None:
        factors, prior = np.zeros((n_items, 0)), np.zeros(0)
    else:
        factors, prior = np.array(predictor.item_factors, order="C"), np.array(predictor.prior_mean)
    tree_shape = (n_arms, n_items + 1) if is_active else (0, 0)
    states = ArmStates(
        scores=scores,
        predictions=np.zeros((n_arms, n_items)),
        item_factors=factors,
        prior_mean=prior,
        rows=np.tile(prior, (n_arms, 1)),
        items=items,
        counts=np.zeros(n_arms, dtype=np.int64),
        fitted_at=np.zeros(n_arms, dtype=np.int64),
        batch=np.tile(np.array([0.0, 1.0, 0.25, 1.0]), (n_arms, 1)),
        pairs=np.zeros((n_arms, 6)),
        sums=np.zeros((n_arms, 6)),
        unseen=np.zeros((n_arms, 5)),
        share_memory=np.zeros(len(UNIFORM_SHARES) + 2),
        spread_tree=np.zeros(tree_shape),
        count_tree=np.zeros(tree_shape),
        spread_totals=np.zeros(n_arms if is_active else 0),
    )
    initialise(states, predictor is not None, is_active)
    return states


@njit(nogil=True, cache=True)
def initialise(states: ArmStates, has_predictor: bool, is_active: bool) -> None:
    n_arms, n_items = states.scores.shape
    if has_predictor:
        for item in range(n_items):
            states.predictions[0, item] = _predict_one(states.rows[0], states.item_factors, item)
        for arm in range(1, n_arms):
            states.predictions[arm, :] = states.predictions[0, :]
    for arm in range(n_arms):
        _sum_unseen_from_scratch(states, arm)
        if is_active:
            _build_trees(states, arm)


@njit(nogil=True, cache=True)
def open_batch(
    states: ArmStates,
    arm: int,
    l2: float,
    pseudo_pairs: float,
    is_pooled: bool,
    held_out: FloatArray,
    is_active: bool,
) -> None:
    """Refit the arm's row if it is due, then freeze control weight, residual ratio and uniform share for the batch."""
    n_items = states.scores.shape[1]
    count = states.counts[arm]
    is_due = states.fitted_at[arm] == 0 or count >= REFIT_GROWTH * states.fitted_at[arm]
    if states.prior_mean.shape[0] > 0 and 0 < count < n_items and is_due:
        update_row(
            states.rows[arm],
            states.item_factors,
            states.prior_mean,
            l2,
            states.items[arm],
            count,
            states.scores[arm],
            NEWTON_STEPS_PER_REFIT,
        )
        for item in range(n_items):
            states.predictions[arm, item] = _predict_one(states.rows[arm], states.item_factors, item)
        states.fitted_at[arm] = count
        _sum_unseen_from_scratch(states, arm)
        if is_active:
            _build_trees(states, arm)
    lam, ratio, score_variance = shrunk_moments(states, arm, pseudo_pairs, is_pooled, held_out)
    states.batch[arm, LAM] = lam
    states.batch[arm, SCORE_VARIANCE] = score_variance
    states.batch[arm, TAU] = 1.0
    if is_active:
        tau, variance_ratio = _choose_uniform_share(states.share_memory)
        states.batch[arm, TAU] = tau
        ratio *= variance_ratio
    states.batch[arm, RATIO] = ratio


@njit(nogil=True, cache=True)
def shrunk_moments(
    states: ArmStates, arm: int, pseudo_pairs: float, is_pooled: bool, held_out: FloatArray
) -> tuple[float, float, float]:
    """(control weight, residual variance ratio, score variance) of an arm, shrunk by pseudo-pairs.

    The pseudo-pairs have the moments of all arms pooled, or `held_out` = (covariance, prediction variance, score
    variance) of training models where arms must not learn from each other.
    """
    covariance, prediction_variance, score_variance = held_out[0], held_out[1], held_out[2]
    if is_pooled:
        weight = covariance = prediction_variance = score_variance = 0.0
        for other in range(states.pairs.shape[0]):
            weight += states.pairs[other, PAIR_WEIGHT]
            covariance += states.pairs[other, CENTRED_CROSS]
            prediction_variance += states.pairs[other, CENTRED_PREDICTIONS]
            score_variance += states.pairs[other, CENTRED_SCORES]
        if weight <= 0.0:
            return 0.0, 1.0, 0.25
        covariance /= weight
        prediction_variance /= weight
        score_variance /= weight
    total = states.pairs[arm, PAIR_WEIGHT] + pseudo_pairs
    if total <= 0.0:
        return 0.0, 1.0, 0.25
    covariance = (states.pairs[arm, CENTRED_CROSS] + pseudo_pairs * covariance) / total
    prediction_variance = (states.pairs[arm, CENTRED_PREDICTIONS] + pseudo_pairs * prediction_variance) / total
    score_variance = (states.pairs[arm, CENTRED_SCORES] + pseudo_pairs * score_variance) / total
    if prediction_variance <= 0.0 or covariance <= 0.0:
        return 0.0, 1.0, score_variance
    lam = min(covariance / prediction_variance, 1.0)
    if score_variance <= 0.0:
        return lam, 1.0, score_variance
    residual = score_variance - 2.0 * lam * covariance + lam * lam * prediction_variance
    return lam, min(max(residual / score_variance, SMALLEST_RESIDUAL_RATIO), 1.0), score_variance


@njit(nogil=True, cache=True)
def choose_item(states: ArmStates, arm: int, uniform: float) -> tuple[int, float]:
    """Active draw: (item, its probability) from (1 - tau) q / sum q + tau / m over the unseen items of the arm."""
    n_items = states.scores.shape[1]
    m = n_items - states.counts[arm]
    tau = states.batch[arm, TAU]
    spread_share = (1.0 - tau) / states.spread_totals[arm]
    count_share = tau / m
    step = 1
    while 2 * step <= n_items:
        step *= 2
    position, rest = 0, uniform
    while step > 0:
        following = position + step
        if following <= n_items:
            mass = spread_share * states.spread_tree[arm, following] + count_share * states.count_tree[arm, following]
            if mass <= rest:
                rest -= mass
                position = following
        step //= 2
    # Rounding may leave us past the last unseen item, or on one that has just been seen.
    item = min(position, n_items - 1)
    while item < n_items and _is_seen(states, arm, item):
        item += 1
    if item == n_items:
        item = n_items - 1
        while _is_seen(states, arm, item):
            item -= 1
    probability = 1.0 if m == 1 else spread_share * spread_of(states.predictions[arm, item]) + count_share
    return item, probability


@njit(nogil=True, cache=True)
def absorb(
    states: ArmStates, arm: int, item: int, score: float, probability: float, is_active: bool, trace_row: FloatArray
) -> None:
    """Take in one answer. `probability` is that of the draw, 1/m for draws in order; `trace_row` receives the draw."""
    n_items = states.scores.shape[1]
    count = states.counts[arm]
    m = n_items - count
    lam, ratio, tau = states.batch[arm, LAM], states.batch[arm, RATIO], states.batch[arm, TAU]
    prediction = states.predictions[arm, item]
    residual = score - lam * prediction
    known = states.sums[arm, 0] + lam * states.sums[arm, 1]
    draw_ratio = probability * m if is_active else 1.0
    theta = (known + residual * m / draw_ratio) / n_items
    trace_row[T_SCORE] = score
    trace_row[T_PREDICTION] = prediction
    trace_row[T_LAM] = lam
    trace_row[T_KNOWN] = known
    trace_row[T_DRAW_RATIO] = draw_ratio
    trace_row[T_TAU] = tau
    trace_row[T_RATIO] = ratio
    trace_row[T_SCORE_VARIANCE] = states.batch[arm, SCORE_VARIANCE]
    trace_row[T_TRUE_VARIANCE] = _true_residual_variance(states, arm, lam, m) if not is_active else math.nan
    if m > 1:
        weight = 1.0 / (float(m) * (m - 1.0) * ratio)
        states.sums[arm, 2] += weight
        states.sums[arm, 3] += weight * theta
    states.sums[arm, 4] += theta
    states.sums[arm, 5] += lam > 0.0
    states.sums[arm, 0] += score
    states.sums[arm, 1] = states.sums[arm, 1] - prediction if m > 1 else 0.0
    states.unseen[arm, 0] -= score
    states.unseen[arm, 1] -= score * score
    states.unseen[arm, 2] -= prediction
    states.unseen[arm, 3] -= prediction * prediction
    states.unseen[arm, 4] -= score * prediction
    _add_pair(states.pairs[arm], score, prediction, 1.0 / draw_ratio)
    states.items[arm, count] = item
    if is_active:
        _remember_shares(states, arm, prediction, residual, probability, m)
        remove_from_trees(states, arm, item, prediction)
    states.counts[arm] = count + 1


@njit(nogil=True, cache=True)
def estimate_of(states: ArmStates, arm: int, kind: int) -> float:
    """Estimated mean of an arm that has at least one answer; exact once all its items are read."""
    n_items = states.scores.shape[1]
    count = states.counts[arm]
    if count == n_items:
        return states.sums[arm, 0] / n_items
    if kind == SAMPLE_MEAN:
        return states.sums[arm, 0] / count
    if kind == FILLED_WITH_PREDICTIONS:
        return (states.sums[arm, 0] + states.sums[arm, 1]) / n_items
    if kind == AVERAGED_STEPS:
        return states.sums[arm, 4] / count
    if states.sums[arm, 5] == 0.0:
        # The weighted mean is the sample mean then; said exactly, equal arms stay equal and ties are ties.
        return states.sums[arm, 0] / count
    return states.sums[arm, 3] / states.sums[arm, 2]


@njit(nogil=True, cache=True)
def recommend(states: ArmStates, kind: int) -> int:
    """Arm with the largest estimate among those with answers, the first of equals; -1 while there is none."""
    best, best_value = -1, -math.inf
    for arm in range(states.counts.shape[0]):
        if states.counts[arm] > 0:
            value = estimate_of(states, arm, kind)
            if value > best_value:
                best, best_value = arm, value
    return best


@njit(nogil=True, cache=True)
def spread_of(prediction: float) -> float:
    return math.sqrt(prediction * (1.0 - prediction) + ACTIVE_FLOOR)


@njit(nogil=True, cache=True)
def _predict_one(row: FloatArray, item_factors: FloatArray, item: int) -> float:
    logit = 0.0
    for a in range(row.shape[0]):
        logit += row[a] * item_factors[item, a]
    return 1.0 / (1.0 + math.exp(-logit))


@njit(nogil=True, cache=True)
def _sum_unseen_from_scratch(states: ArmStates, arm: int) -> None:
    n_items = states.scores.shape[1]
    totals = np.zeros(5)
    for item in range(n_items):
        score, prediction = states.scores[arm, item], states.predictions[arm, item]
        totals[0] += score
        totals[1] += score * score
        totals[2] += prediction
        totals[3] += prediction * prediction
        totals[4] += score * prediction
    for k in range(states.counts[arm]):
        item = states.items[arm, k]
        score, prediction = states.scores[arm, item], states.predictions[arm, item]
        totals[0] -= score
        totals[1] -= score * score
        totals[2] -= prediction
        totals[3] -= prediction * prediction
        totals[4] -= score * prediction
    states.unseen[arm, :] = totals
    states.sums[arm, 1] = totals[2]


@njit(nogil=True, cache=True)
def _true_residual_variance(states: ArmStates, arm: int, lam: float, m: int) -> float:
    """Population variance over U of S - lam p; only a replay knows it."""
    unseen = states.unseen[arm]
    mean = (unseen[0] - lam * unseen[2]) / m
    second = (unseen[1] - 2.0 * lam * unseen[4] + lam * lam * unseen[3]) / m
    return max(second - mean * mean, 0.0)


@njit(nogil=True, cache=True)
def _add_pair(pairs: FloatArray, score: float, prediction: float, weight: float) -> None:
    # Welford's update: equal values leave exactly no variance, where sums of squares leave a rounding rest that
    # would pass for one.
    pairs[PAIR_WEIGHT] += weight
    share = weight / pairs[PAIR_WEIGHT]
    score_gap, prediction_gap = score - pairs[MEAN_SCORE], prediction - pairs[MEAN_PREDICTION]
    pairs[MEAN_SCORE] += share * score_gap
    pairs[MEAN_PREDICTION] += share * prediction_gap
    pairs[CENTRED_SCORES] += weight * score_gap * (score - pairs[MEAN_SCORE])
    pairs[CENTRED_PREDICTIONS] += weight * prediction_gap * (prediction - pairs[MEAN_PREDICTION])
    pairs[CENTRED_CROSS] += weight * score_gap * (prediction - pairs[MEAN_PREDICTION])


@njit(nogil=True, cache=True)
def _choose_uniform_share(memory: FloatArray) -> tuple[float, float]:
    """Share of uniform draws with the least second moment, and its variance over that of uniform draws."""
    n_draws = memory[0]
    if n_draws < DRAWS_BEFORE_ACTIVE:
        return 1.0, 1.0
    last = _SHARES.shape[0] - 1
    best = 0
    for i in range(1, last + 1):
        if memory[1 + i] < memory[1 + best]:
            best = i
    if memory[1 + best] > (1.0 - ACTIVE_GAIN_NEEDED) * memory[1 + last]:
        return 1.0, 1.0
    mean = memory[2 + last] / n_draws
    return _SHARES[best], (memory[1 + best] / n_draws - mean * mean) / (memory[1 + last] / n_draws - mean * mean)


@njit(nogil=True, cache=True)
def _remember_shares(
    states: ArmStates, arm: int, prediction: float, residual: float, probability: float, m: int
) -> None:
    memory = states.share_memory
    memory[0] += 1.0
    spread = spread_of(prediction) / states.spread_totals[arm]
    for i in range(_SHARES.shape[0]):
        other = (1.0 - _SHARES[i]) * spread + _SHARES[i] / m
        memory[1 + i] += residual * residual / (float(m) * m * probability * other)
    memory[1 + _SHARES.shape[0]] += residual / (probability * m)


@njit(nogil=True, cache=True)
def _build_trees(states: ArmStates, arm: int) -> None:
    n_items = states.scores.shape[1]
    spread_tree, count_tree = states.spread_tree[arm], states.count_tree[arm]
    for item in range(n_items):
        spread_tree[item + 1] = spread_of(states.predictions[arm, item])
        count_tree[item + 1] = 1.0
    for k in range(states.counts[arm]):
        spread_tree[states.items[arm, k] + 1] = 0.0
        count_tree[states.items[arm, k] + 1] = 0.0
    total = 0.0
    for place in range(1, n_items + 1):
        total += spread_tree[place]
    states.spread_totals[arm] = total
    for place in range(1, n_items + 1):
        parent = place + (place & -place)
        if parent <= n_items:
            spread_tree[parent] += spread_tree[place]
            count_tree[parent] += count_tree[place]


@njit(nogil=True, cache=True)
def remove_from_trees(states: ArmStates, arm: int, item: int, prediction: float) -> None:
    n_items = states.scores.shape[1]
    spread = spread_of(prediction)
    states.spread_totals[arm] -= spread
    place = item + 1
    while place <= n_items:
        states.spread_tree[arm, place] -= spread
        states.count_tree[arm, place] -= 1.0
        place += place & -place


@njit(nogil=True, cache=True)
def _is_seen(states: ArmStates, arm: int, item: int) -> bool:
    """Whether the item has left the count tree: its own count is a difference of two prefix counts."""
    place, count = item + 1, 0.0
    while place > 0:
        count += states.count_tree[arm, place]
        place -= place & -place
    place = item
    while place > 0:
        count -= states.count_tree[arm, place]
        place -= place & -place
    return count < 0.5
