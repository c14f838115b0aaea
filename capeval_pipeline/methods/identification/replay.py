"""Replay of a policy on a stored score matrix: one call a run, numba inside, all randomness drawn beforehand.

A recommendation at a budget is the one at that very call, also in the middle of a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from capeval_pipeline.methods.identification.estimator import (
    ESTIMATE_CODES,
    N_TRACE_COLUMNS,
    ArmStates,
    absorb,
    choose_item,
    estimate_of,
    new_states,
    open_batch,
    recommend,
    shrunk_moments,
)
from capeval_pipeline.methods.identification.race import RaceStates, new_race, play_round, race_leader
from capeval_pipeline.methods.identification.records import (
    Draws,
    FloatArray,
    IntArray,
    OrderArray,
    Policy,
    Predictor,
    ReplaySettings,
)

BONUS_CODES = {"none": 0, "count": 1, "variance": 2}


@dataclass(frozen=True)
class Replay:
    """One run of a policy.

    recommended : (n_budgets,) arm named at each budget, -1 before the first answer
    n_pulls : answers asked for in the whole run
    trace_arms (n_pulls,), trace (n_pulls, 9) : every draw in order, columns as in `estimator`; empty where the policy
        has no per-arm draws or no trace was asked for
    certified_arms, pulls_to_certificate : of the race only; else empty and -1
    """

    recommended: IntArray
    n_pulls: int
    trace_arms: OrderArray
    trace: FloatArray
    certified_arms: IntArray
    pulls_to_certificate: int = -1


def replay_policy(
    policy: Policy,
    scores: FloatArray,
    draws: Draws,
    settings: ReplaySettings,
    predictor: Predictor | None = None,
    *,
    has_trace: bool = True,
) -> Replay:
    """Run a policy on complete scores (n_arms, n_items) in [0, 1].

    Raises ValueError where the policy needs a predictor and none is given, or budgets do not ascend.
    """
    budgets = np.array(settings.pull_budgets, dtype=np.int64)
    if budgets.size == 0 or (np.diff(budgets) <= 0).any():
        raise ValueError("pull budgets must be given and must ascend")
    if policy.needs_predictor and predictor is None:
        raise ValueError(f"policy {policy.name!r} needs item factors of training models")
    # A copy: a read-only array (from Arrow, from another process) would be another type to numba, and compile anew.
    scores = np.array(scores, dtype=np.float64, order="C")
    nothing = Replay(np.zeros(0, np.int64), 0, np.zeros(0, np.int32), np.zeros((0, N_TRACE_COLUMNS)), np.zeros(0, int))
    if policy.kind == "successive_rejects":
        recommended = _replay_successive_rejects(scores, draws.shared_order.copy(), budgets.copy())
        return _with(nothing, recommended, int(budgets[-1]))
    if policy.kind == "race":
        recommended = np.full(budgets.size, -1, dtype=np.int64)
        states = new_race(scores, draws.shared_order.copy(), predictor)
        l2 = 1.0 if predictor is None else predictor.l2
        pulls, is_certified = _replay_race(
            states, settings.batch, settings.delta, l2, settings.pseudo_pairs, budgets, recommended
        )
        return Replay(
            recommended,
            int(pulls),
            nothing.trace_arms,
            nothing.trace,
            np.flatnonzero(states.is_left) if is_certified else np.zeros(0, dtype=np.int64),
            int(pulls) if is_certified else -1,
        )
    return _replay_index(policy, scores, draws, settings, budgets, predictor, has_trace)


def _with(empty: Replay, recommended: IntArray, n_pulls: int) -> Replay:
    return Replay(recommended, n_pulls, empty.trace_arms, empty.trace, empty.certified_arms)


def _replay_index(
    policy: Policy,
    scores: FloatArray,
    draws: Draws,
    settings: ReplaySettings,
    budgets: IntArray,
    predictor: Predictor | None,
    has_trace: bool,
) -> Replay:
    n_arms, n_items = scores.shape
    used = predictor if policy.needs_predictor else None
    is_active = policy.draws == "active"
    if policy.draws == "shared_order":
        items = np.tile(draws.shared_order, (n_arms, 1))
    else:
        items = np.zeros_like(draws.own_orders) if is_active else draws.own_orders.copy()
    is_pooled, held_out = pooling_of(policy, used)
    states = new_states(scores, items, used, is_active=is_active)
    total = min(int(budgets[-1]), n_arms * n_items)
    trace_arms = np.zeros(total if has_trace else 0, dtype=np.int32)
    trace = np.zeros((total if has_trace else 1, N_TRACE_COLUMNS))
    recommended = np.full(budgets.size, -1, dtype=np.int64)
    _run_index_policy(
        states,
        draws.uniforms.copy() if is_active else np.zeros((0, 0)),
        policy.selection == "round_robin",
        ESTIMATE_CODES[policy.estimate],
        BONUS_CODES[policy.bonus],
        is_active,
        is_pooled,
        held_out,
        used.l2 if used is not None else 1.0,
        settings.batch,
        settings.exploration,
        settings.pseudo_pairs,
        total,
        budgets,
        trace_arms,
        trace,
        recommended,
    )
    return Replay(recommended, total, trace_arms, trace if has_trace else trace[:0], np.zeros(0, dtype=np.int64))


def pooling_of(policy: Policy, predictor: Predictor | None) -> tuple[bool, FloatArray]:
    """Whether control weights are shrunk to those of all arms, and the moments of held-out models where they are not.

    With a shared order pooling would look at other arms' answers to the same items.
    """
    held_out = np.zeros(3)
    if predictor is not None:
        moments = predictor.held_out_moments
        held_out[:] = [moments.covariance, moments.prediction_variance, moments.score_variance]
    return policy.draws != "shared_order" or predictor is None, held_out


@njit(nogil=True, cache=True)
def _run_index_policy(
    states: ArmStates,
    uniforms: FloatArray,
    is_round_robin: bool,
    estimate: int,
    bonus: int,
    is_active: bool,
    is_pooled: bool,
    held_out: FloatArray,
    l2: float,
    batch: int,
    exploration: float,
    pseudo_pairs: float,
    total: int,
    budgets: IntArray,
    trace_arms: OrderArray,
    trace: FloatArray,
    recommended: IntArray,
) -> None:
    n_arms, n_items = states.scores.shape
    has_trace = trace_arms.shape[0] > 0
    index = np.full(n_arms, math.inf)
    pulls, next_budget, arm = 0, 0, -1
    while pulls < total:
        arm = _next_in_turn(states, arm) if is_round_robin else int(np.argmax(index))
        open_batch(states, arm, l2, pseudo_pairs, is_pooled, held_out, is_active)
        for _ in range(min(batch, n_items - states.counts[arm], total - pulls)):
            count = states.counts[arm]
            if is_active:
                item, probability = choose_item(states, arm, uniforms[arm, count])
            else:
                item, probability = int(states.items[arm, count]), 1.0 / (n_items - count)
            row = trace[pulls] if has_trace else trace[0]
            if has_trace:
                trace_arms[pulls] = arm
            absorb(states, arm, item, states.scores[arm, item], probability, is_active, row)
            pulls += 1
            if next_budget < budgets.shape[0] and pulls == budgets[next_budget]:
                recommended[next_budget] = recommend(states, estimate)
                next_budget += 1
        index[arm] = index_of(states, arm, estimate, bonus, exploration, pseudo_pairs, is_pooled, held_out)
    for rest in range(next_budget, budgets.shape[0]):
        recommended[rest] = recommend(states, estimate)


@njit(nogil=True, cache=True)
def _next_in_turn(states: ArmStates, last: int) -> int:
    n_arms, n_items = states.scores.shape
    arm = (last + 1) % n_arms
    while states.counts[arm] == n_items:
        arm = (arm + 1) % n_arms
    return arm


@njit(nogil=True, cache=True)
def index_of(
    states: ArmStates,
    arm: int,
    estimate: int,
    bonus: int,
    exploration: float,
    pseudo_pairs: float,
    is_pooled: bool,
    held_out: FloatArray,
) -> float:
    """Estimate plus bonus of an arm with answers, -inf once all its items are read.

    estimate, bonus : ESTIMATE_CODES, BONUS_CODES; is_pooled, held_out : from `pooling_of`
    """
    n_items = states.scores.shape[1]
    count = states.counts[arm]
    if count == n_items:
        return -math.inf
    value = estimate_of(states, arm, estimate)
    if bonus == 1:
        return value + math.sqrt(exploration / count)
    if bonus == 2:
        # sqrt(4 a V): the same as the count bonus at score variance 1/4 and few answers.
        score_variance = shrunk_moments(states, arm, pseudo_pairs, is_pooled, held_out)[2]
        variance = score_variance / (float(n_items) * n_items * states.sums[arm, 2])
        return value + math.sqrt(4.0 * exploration * variance)
    return value


@njit(nogil=True, cache=True)
def _replay_successive_rejects(scores: FloatArray, order: OrderArray, budgets: IntArray) -> IntArray:
    """Arm left at each budget. The budget must be known beforehand, so each one is a run of its own.

    One answer an arm is the least depth; equal lowest means drop the last arm, as equal largest name the first.
    """
    n_arms, n_items = scores.shape
    sums = np.zeros((n_arms, n_items + 1))
    for arm in range(n_arms):
        for depth in range(n_items):
            sums[arm, depth + 1] = sums[arm, depth] + scores[arm, order[depth]]
    log_bar = 0.5
    for i in range(2, n_arms + 1):
        log_bar += 1.0 / i
    left = np.full(budgets.shape[0], -1, dtype=np.int64)
    alive = np.empty(n_arms, dtype=np.bool_)
    for b in range(budgets.shape[0]):
        if budgets[b] < n_arms:
            continue
        alive[:] = True
        for phase in range(1, n_arms):
            answers = math.ceil((budgets[b] - n_arms) / (log_bar * (n_arms + 1 - phase)))
            depth = min(n_items, max(1, int(answers)))
            lowest = -1
            for arm in range(n_arms):
                if alive[arm] and (lowest < 0 or sums[arm, depth] <= sums[lowest, depth]):
                    lowest = arm
            alive[lowest] = False
        left[b] = int(np.argmax(alive))
    return left


@njit(nogil=True, cache=True)
def _replay_race(
    states: RaceStates,
    batch: int,
    delta: float,
    l2: float,
    pseudo_pairs: float,
    budgets: IntArray,
    recommended: IntArray,
) -> tuple[int, bool]:
    """(calls made, whether the race ended by itself). Within a round the means of unequal counts are compared."""
    n_arms, n_items = states.scores.shape
    answers = np.zeros(n_arms, dtype=np.int64)
    sums = np.zeros(n_arms)
    depth, pulls, next_budget, n_left = 0, 0, 0, n_arms
    total = budgets[-1]
    while n_left > 1 and depth < n_items:
        following = min(n_items, depth + batch)
        for arm in range(n_arms):
            if not states.is_left[arm]:
                continue
            for place in range(depth, following):
                if pulls == total:
                    return pulls, False
                sums[arm] += states.scores[arm, states.order[place]]
                answers[arm] += 1
                pulls += 1
                if next_budget < budgets.shape[0] and pulls == budgets[next_budget]:
                    recommended[next_budget] = _leader_of(sums, answers, states.is_left)
                    next_budget += 1
        depth = following
        n_left = play_round(states, following, delta, l2, pseudo_pairs)
    for rest in range(next_budget, budgets.shape[0]):
        recommended[rest] = race_leader(states)
    return pulls, True


@njit(nogil=True, cache=True)
def _leader_of(sums: FloatArray, answers: IntArray, is_left: np.ndarray) -> int:
    """Survivor with the largest mean among those with answers, the first of equals; -1 while there is none."""
    best, best_mean = -1, -math.inf
    for arm in range(sums.shape[0]):
        if is_left[arm] and answers[arm] > 0 and sums[arm] / answers[arm] > best_mean:
            best, best_mean = arm, sums[arm] / answers[arm]
    return best
