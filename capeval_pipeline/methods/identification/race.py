"""The certified race: survivors answer the same next items, and an arm goes when it is proved not to be the best.

S are scores, p predictions, O the n - m items that all survivors answered, U the m unseen ones, mu an arm's mean. The
claim tested for each arm b is "b is a best arm". Under it, whatever arm a is held against it,
    d = R_a - R_b,  R = S - lam p,   has over U a mean of at most   d0 = (C_b - C_a) / m,
C = sum_O S + lam sum_U p, because n mu_a = C_a + sum_U R_a, and so for b. With d >= lo, any stake eta in [0, 1) and any
leader a fixed before the draw, the product of 1 + eta (d - d0) / (d0 - lo) is a test supermartingale of the claim:
it reaches 1 / delta with probability at most delta (Ville), at any count. A wrong certificate needs the drop of a best
arm, hence delta need not be shared among rivals. The test is this project's own. What differs from testing each pair
(leader, rival) by itself at (K - 1) / delta for K arms (`benchmarks.identification races` measures the last point):

* one wealth an arm that follows whoever leads, so the threshold is 1 / delta: another leader costs nothing;
* stakes that grow with n / m as the null mean recedes: eta = gap (n / m) (d0 - lo) / variance, averaged over gaps;
* residuals with one control weight a pair, regressed on past differences (0 is reachable), where there is a predictor,
  and the tight bound lo = -1 + min_U lam (p_b - p_a), which p_a = p_b makes the raw -1.

All survivors stand at the same depth, so everything known of the items in O may enter a, lam, p and eta. A study and a
live session make the same moves: `new_race`, then `play_round` whenever every survivor has answered the next items.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.records import (
    NEWTON_STEPS_PER_REFIT,
    REFIT_GROWTH,
    FloatArray,
    IntArray,
    OrderArray,
    Predictor,
)
from capeval_pipeline.methods.item_factors import update_row

# Gaps between the means of leader and rival that the stakes are made for; each about twice the one before.
# Their wealths are averaged, which takes at most a factor of four from whichever suits; any choice is valid.
RACE_GAPS = (0.03, 0.07, 0.15, 0.3)
# A stake of 1 loses all at the lowest difference; this keeps a tenth.
LARGEST_STAKE = 0.9
# The variance of a difference is shrunk to 1/4 by this many draws, so that the first few equal answers do not raise the
# stakes to their limit.
SPREAD_PRIOR_DRAWS, SPREAD_PRIOR = 10.0, 0.25
TOLERANCE = 1e-9

_GAPS = np.array(RACE_GAPS)
# Entries of RaceStates.progress.
DEPTH, FITTED_AT, PAIRED_LEADER = 0, 1, 2
# Columns of RaceStates.control.
CONTROL_WEIGHT, LOWEST = 0, 1


class RaceStates(NamedTuple):
    """State of a race, changed in place.

    scores : (n_arms, n_items); a live session fills in what survivors answer
    order : (n_items,) the one order of items for all
    predictions : (n_arms, n_items) of the current rows; held : (n_arms, n_items) by place in the order, the prediction
        held before that item was answered; rank 0 and unused without a predictor
    rows (n_arms, rank), item_factors (n_items, rank), prior_mean (rank,)
    is_left : (n_arms,) survivors; sums (n_arms,) of scores up to the depth; unseen (n_arms,) sums of predictions over U
    wealth : (n_arms, n_gaps) against "this arm is a best one"; peak : (n_arms,) largest mean wealth so far
    spread : (n_arms, 3) count, mean and centred squares of the differences
    control : (n_arms, 2) control weight of the pair (leader, arm) and its lowest residual difference
    progress : depth reached by all survivors, depth at the last fit, leader whose pairs `control` belongs to
    """

    scores: FloatArray
    order: OrderArray
    predictions: FloatArray
    held: FloatArray
    rows: FloatArray
    item_factors: FloatArray
    prior_mean: FloatArray
    is_left: np.ndarray
    sums: FloatArray
    unseen: FloatArray
    wealth: FloatArray
    peak: FloatArray
    spread: FloatArray
    control: FloatArray
    progress: IntArray


def new_race(scores: FloatArray, order: OrderArray, predictor: Predictor | None = None) -> RaceStates:
    """A race before any answer; scores (n_arms, n_items) and order are kept, not copied: writable and in C order."""
    n_arms, n_items = scores.shape
    rank = 0 if predictor is None else predictor.prior_mean.size
    factors = np.zeros((n_items, 0)) if predictor is None else np.array(predictor.item_factors, order="C")
    prior = np.zeros(0) if predictor is None else np.array(predictor.prior_mean)
    n_predicted = n_items if rank else 0
    return RaceStates(
        scores=scores,
        order=order,
        predictions=np.zeros((n_arms, n_predicted)),
        held=np.zeros((n_arms, n_predicted)),
        rows=np.tile(prior, (n_arms, 1)),
        item_factors=factors,
        prior_mean=prior,
        is_left=np.ones(n_arms, dtype=np.bool_),
        sums=np.zeros(n_arms),
        unseen=np.zeros(n_arms),
        wealth=np.ones((n_arms, len(RACE_GAPS))),
        peak=np.ones(n_arms),
        spread=np.zeros((n_arms, 3)),
        control=np.tile(np.array([0.0, -1.0]), (n_arms, 1)),
        progress=np.array([0, 0, -1], dtype=np.int64),
    )


@njit(nogil=True, cache=True)
def play_round(states: RaceStates, following: int, delta: float, l2: float, pseudo_pairs: float) -> int:
    """Take in the answers of all survivors at places depth to `following` of the order; returns how many are left.

    Leader, predictions and control weights are those before the round. In the first round, where there are none yet,
    the leader is found anew at each place. At full depth whoever is truly lower goes; ties stay, as a set.
    """
    n_arms, n_items = states.scores.shape
    depth = states.progress[DEPTH]
    _prepare(states, l2, pseudo_pairs)
    leader = race_leader(states) if depth > 0 else -1
    for place in range(depth, following):
        item = states.order[place]
        if depth == 0 and place > 0:
            leader = race_leader(states)
        if leader >= 0:
            for rival in range(n_arms):
                # Against the arm that leads nothing can be won by an arm that trails it.
                if states.is_left[rival] and rival != leader and states.sums[rival] <= states.sums[leader]:
                    _bet(states, leader, rival, item, n_items - place)
        for arm in range(n_arms):
            if states.is_left[arm]:
                states.sums[arm] += states.scores[arm, item]
                if states.held.shape[1] > 0:
                    states.held[arm, place] = states.predictions[arm, item]
                    states.unseen[arm] -= states.predictions[arm, item]
    states.progress[DEPTH] = following
    return _drop(states, delta)


@njit(nogil=True, cache=True)
def race_leader(states: RaceStates) -> int:
    """Survivor with the largest sum, the first of equals."""
    best = -1
    for arm in range(states.sums.shape[0]):
        if states.is_left[arm] and (best < 0 or states.sums[arm] > states.sums[best]):
            best = arm
    return best


@njit(nogil=True, cache=True)
def _drop(states: RaceStates, delta: float) -> int:
    n_arms, n_items = states.scores.shape
    leader, n_left = race_leader(states), 0
    for arm in range(n_arms):
        if not states.is_left[arm]:
            continue
        if arm != leader:
            if states.progress[DEPTH] == n_items:
                states.is_left[arm] = states.sums[arm] >= states.sums[leader] - TOLERANCE
            else:
                states.is_left[arm] = states.peak[arm] < 1.0 / delta
        n_left += states.is_left[arm]
    return n_left


@njit(nogil=True, cache=True)
def _bet(states: RaceStates, leader: int, rival: int, item: int, m: int) -> None:
    """One draw against 'the rival is a best arm': the leader's residual minus the rival's, of the same item."""
    n_items = states.scores.shape[1]
    difference = states.scores[leader, item] - states.scores[rival, item]
    null = states.sums[rival] - states.sums[leader]
    lam, lowest = states.control[rival, CONTROL_WEIGHT], states.control[rival, LOWEST]
    if lam > 0.0:
        difference -= lam * (states.predictions[leader, item] - states.predictions[rival, item])
        null += lam * (states.unseen[rival] - states.unseen[leader])
    null /= m
    spread = states.spread[rival]
    if null < lowest - TOLERANCE:
        states.peak[rival] = math.inf
    elif null <= lowest + TOLERANCE:
        # The claim needs the lowest difference at every item left, which is possible until one is higher.
        if difference > lowest + TOLERANCE:
            states.peak[rival] = math.inf
    else:
        variance = (SPREAD_PRIOR_DRAWS * SPREAD_PRIOR + spread[2]) / (SPREAD_PRIOR_DRAWS + spread[0])
        scale = null - lowest
        total = 0.0
        for g in range(_GAPS.shape[0]):
            stake = min(LARGEST_STAKE, _GAPS[g] * n_items / m * scale / variance)
            states.wealth[rival, g] *= 1.0 + stake * (difference - null) / scale
            total += states.wealth[rival, g]
        states.peak[rival] = max(states.peak[rival], total / _GAPS.shape[0])
    spread[0] += 1.0
    gap = difference - spread[1]
    spread[1] += gap / spread[0]
    spread[2] += gap * (difference - spread[1])


@njit(nogil=True, cache=True)
def _prepare(states: RaceStates, l2: float, pseudo_pairs: float) -> None:
    """Before a round: refit rows that are due, and the pairs' control weights after a refit or for a new leader."""
    n_arms = states.scores.shape[0]
    depth, fitted_at = states.progress[DEPTH], states.progress[FITTED_AT]
    if states.held.shape[1] == 0:
        return
    is_due = depth == 0 or fitted_at == 0 or depth >= REFIT_GROWTH * fitted_at
    if is_due:
        for arm in range(n_arms):
            if states.is_left[arm]:
                _refit(states, arm, depth, l2)
        states.progress[FITTED_AT] = depth
    leader = race_leader(states)
    if depth == 0 or not (is_due or leader != states.progress[PAIRED_LEADER]):
        return
    for rival in range(n_arms):
        if states.is_left[rival] and rival != leader:
            _set_control(states, leader, rival, depth, pseudo_pairs)
    states.progress[PAIRED_LEADER] = leader


@njit(nogil=True, cache=True)
def _refit(states: RaceStates, arm: int, depth: int, l2: float) -> None:
    """Row and predictions of an arm from its first `depth` answers, and the sum of its predictions over U."""
    n_items = states.scores.shape[1]
    if depth > 0:
        update_row(
            states.rows[arm],
            states.item_factors,
            states.prior_mean,
            l2,
            states.order,
            depth,
            states.scores[arm],
            NEWTON_STEPS_PER_REFIT,
        )
    total = 0.0
    for place in range(n_items):
        item = states.order[place]
        logit = 0.0
        for a in range(states.prior_mean.shape[0]):
            logit += states.rows[arm, a] * states.item_factors[item, a]
        states.predictions[arm, item] = 1.0 / (1.0 + math.exp(-logit))
        if place >= depth:
            total += states.predictions[arm, item]
    states.unseen[arm] = total


@njit(nogil=True, cache=True)
def _set_control(states: RaceStates, leader: int, rival: int, depth: int, pseudo_pairs: float) -> None:
    """Control weight of a pair: slope of past score differences on prediction differences held before, shrunk to 0.

    The pseudo-pairs have the pair's own variance and no covariance: predictions must show their worth on this pair.
    """
    mean_score, mean_prediction = 0.0, 0.0
    for place in range(depth):
        item = states.order[place]
        mean_score += states.scores[leader, item] - states.scores[rival, item]
        mean_prediction += states.held[leader, place] - states.held[rival, place]
    mean_score /= depth
    mean_prediction /= depth
    cross, squares = 0.0, 0.0
    for place in range(depth):
        item = states.order[place]
        score_gap = states.scores[leader, item] - states.scores[rival, item] - mean_score
        prediction_gap = states.held[leader, place] - states.held[rival, place] - mean_prediction
        cross += score_gap * prediction_gap
        squares += prediction_gap * prediction_gap
    lam, lowest = 0.0, -1.0
    if cross > 0.0 and squares > 0.0:
        lam = min(1.0, cross / (squares * (1.0 + pseudo_pairs / depth)))
        smallest = math.inf
        for place in range(depth, states.order.shape[0]):
            item = states.order[place]
            smallest = min(smallest, states.predictions[rival, item] - states.predictions[leader, item])
        lowest = -1.0 + lam * smallest
    states.control[rival, CONTROL_WEIGHT] = lam
    states.control[rival, LOWEST] = lowest
