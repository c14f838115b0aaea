"""Index policies and successive rejects in loops; the reference of `replay`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from capeval_pipeline.methods.identification.plain.draws import (
    Shrunk,
    centred_sums,
    combine,
    newton_step,
    shrink,
    single_step_estimate,
)
from capeval_pipeline.methods.identification.plain.intervals import Step
from capeval_pipeline.methods.identification.records import (
    ACTIVE_FLOOR,
    ACTIVE_GAIN_NEEDED,
    DRAWS_BEFORE_ACTIVE,
    NEWTON_STEPS_PER_REFIT,
    REFIT_GROWTH,
    UNIFORM_SHARES,
    Draws,
    FloatArray,
    Policy,
    Predictor,
    ReplaySettings,
)


@dataclass
class PlainArm:
    """What is known of one arm."""

    n: int
    row: FloatArray
    predictions: FloatArray
    fitted_at: int = 0
    items: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    pair_weights: list[float] = field(default_factory=list)
    thetas: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def unseen(self) -> list[int]:
        return [item for item in range(self.n) if item not in set(self.items)]

    def estimate(self, kind: str) -> float:
        exact = sum(self.scores) / self.n
        if kind == "sample_mean":
            return sum(self.scores) / len(self.scores)
        if kind == "filled_with_predictions":
            return exact + sum(self.predictions[item] for item in self.unseen()) / self.n
        if kind == "averaged_steps":
            return exact if len(self.items) == self.n else sum(self.thetas) / len(self.thetas)
        if len(self.items) < self.n and all(step.control_weight == 0 for step in self.steps):
            # The combination is the sample mean then; said exactly, so that ties stay ties.
            return sum(self.scores) / len(self.scores)
        return combine(self.thetas, self.ratios, self.n, exact)


@dataclass(frozen=True)
class PlainRun:
    """pulls : (arm, item) in the order made; recommended : arm at each budget; arms : final states."""

    pulls: list[tuple[int, int]]
    recommended: list[int]
    arms: list[PlainArm]


def run_index_policy(
    policy: Policy, scores: FloatArray, draws: Draws, predictor: Predictor | None, settings: ReplaySettings
) -> PlainRun:
    """Replay an index policy (or round robin) on a full score matrix (n_arms, n_items)."""
    n_arms, n = scores.shape
    uses_predictor = policy.needs_predictor and predictor is not None
    row = predictor.prior_mean if uses_predictor and predictor else np.zeros(0)
    start = _predict(row, predictor.item_factors) if uses_predictor and predictor else np.zeros(n)
    arms = [PlainArm(n, row.copy(), start.copy()) for _ in range(n_arms)]
    pulls: list[tuple[int, int]] = []
    recommended: list[int] = []
    tau_memory: list[tuple[float, float, list[float]]] = []
    index = [math.inf] * n_arms
    last_arm = -1
    total = min(int(settings.pull_budgets[-1]), n_arms * n)
    while len(pulls) < total:
        if policy.selection == "round_robin":
            arm_id = (last_arm + 1) % n_arms
            while len(arms[arm_id].items) == n:
                arm_id = (arm_id + 1) % n_arms
        else:
            arm_id = int(np.argmax(index))
        last_arm, arm = arm_id, arms[arm_id]
        if uses_predictor and predictor:
            _refit_if_due(arm, predictor)
        shrunk = _shrunk_of(arms, arm, policy, predictor, settings)
        tau, variance_ratio = _choose_uniform_share(tau_memory) if policy.draws == "active" else (1.0, 1.0)
        for _ in range(min(settings.batch, n - len(arm.items), total - len(pulls))):
            item = _pull(arm, arm_id, scores, draws, policy, shrunk, tau, variance_ratio, tau_memory)
            pulls.append((arm_id, item))
            if len(pulls) in settings.pull_budgets:
                recommended.append(_recommend(arms, policy.estimate))
        index[arm_id] = _index_of(arms, arm, policy, predictor, settings)
    recommended += [_recommend(arms, policy.estimate)] * (len(settings.pull_budgets) - len(recommended))
    return PlainRun(pulls, recommended, arms)


def _predict(row: FloatArray, factors: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-factors @ row))


def _refit_if_due(arm: PlainArm, predictor: Predictor) -> None:
    count = len(arm.items)
    if count == 0 or (arm.fitted_at > 0 and count < REFIT_GROWTH * arm.fitted_at):
        return
    factors = predictor.item_factors[arm.items]
    for _ in range(NEWTON_STEPS_PER_REFIT):
        arm.row = newton_step(arm.row, factors, predictor.prior_mean, predictor.l2, np.array(arm.scores))
    arm.predictions = _predict(arm.row, predictor.item_factors)
    arm.fitted_at = count


def _shrunk_of(
    arms: Sequence[PlainArm], arm: PlainArm, policy: Policy, predictor: Predictor | None, settings: ReplaySettings
) -> Shrunk:
    own = centred_sums(arm.scores, arm.held, arm.pair_weights)
    if policy.draws == "shared_order" and predictor is not None:
        moments = predictor.held_out_moments
        pool = (moments.covariance, moments.prediction_variance, moments.score_variance)
        return shrink(own, pool, settings.pseudo_pairs)
    sums = [centred_sums(other.scores, other.held, other.pair_weights) for other in arms]
    n_pairs = sum(entry[3] for entry in sums)
    if n_pairs <= 0:
        return Shrunk(0.0, 1.0, 0.25)
    pool = tuple(sum(entry[i] for entry in sums) / n_pairs for i in range(3))  # type: ignore[assignment]
    return shrink(own, pool, settings.pseudo_pairs)


def _choose_uniform_share(memory: list[tuple[float, float, list[float]]]) -> tuple[float, float]:
    """Share of uniform draws with the least importance-weighted second moment, and its variance over that at 1."""
    if len(memory) < DRAWS_BEFORE_ACTIVE:
        return 1.0, 1.0
    moments = [sum(entry[2][i] for entry in memory) / len(memory) for i in range(len(UNIFORM_SHARES))]
    best = int(np.argmin(moments))
    if moments[best] > (1 - ACTIVE_GAIN_NEEDED) * moments[-1]:
        return 1.0, 1.0
    mean = sum(entry[0] / entry[1] for entry in memory) / len(memory)
    return UNIFORM_SHARES[best], (moments[best] - mean**2) / (moments[-1] - mean**2)


def _pull(
    arm: PlainArm,
    arm_id: int,
    scores: FloatArray,
    draws: Draws,
    policy: Policy,
    shrunk: Shrunk,
    tau: float,
    variance_ratio: float,
    tau_memory: list[tuple[float, float, list[float]]],
) -> int:
    unseen, k = arm.unseen(), len(arm.items)
    m, lam = len(unseen), shrunk.control_weight
    probability = 1 / m
    tau_probabilities = [1 / m] * len(UNIFORM_SHARES)
    if policy.draws == "shared_order":
        item = int(draws.shared_order[k])
    elif policy.draws == "own_order":
        item = int(draws.own_orders[arm_id, k])
    else:
        spread = np.sqrt(arm.predictions[unseen] * (1 - arm.predictions[unseen]) + ACTIVE_FLOOR)
        table = [(1 - share) * spread / spread.sum() + share / m for share in UNIFORM_SHARES]
        chosen = table[UNIFORM_SHARES.index(tau)]
        place = min(int(np.searchsorted(np.cumsum(chosen), draws.uniforms[arm_id, k], side="right")), m - 1)
        item, probability = unseen[place], float(chosen[place])
        tau_probabilities = [float(row[place]) for row in table]
    score, prediction = float(scores[arm_id, item]), float(arm.predictions[item])
    residuals = scores[arm_id, unseen] - lam * arm.predictions[unseen]
    theta = single_step_estimate(
        arm.scores,
        list(arm.predictions[unseen]),
        score=score,
        prediction=prediction,
        probability=probability,
        control_weight=lam,
    )
    ratio = shrunk.residual_ratio * variance_ratio
    arm.steps.append(
        Step(
            score=score,
            control_weight=lam,
            known=sum(arm.scores) + lam * float(arm.predictions[unseen].sum()),
            residual=score - lam * prediction,
            draw_ratio=probability * m,
            uniform_share=tau,
            residual_ratio=ratio,
            conditional_variance=float(residuals.var()),
            score_variance=shrunk.score_variance,
            prediction=prediction,
            item=item,
        )
    )
    arm.thetas.append(theta)
    arm.ratios.append(ratio)
    arm.items.append(item)
    arm.scores.append(score)
    arm.held.append(prediction)
    arm.pair_weights.append(1 / (probability * m))
    if policy.draws == "active":
        residual = score - lam * prediction
        seconds = [residual**2 / (m**2 * probability * other) for other in tau_probabilities]
        tau_memory.append((residual, probability * m, seconds))
    return item


def _index_of(
    arms: Sequence[PlainArm], arm: PlainArm, policy: Policy, predictor: Predictor | None, settings: ReplaySettings
) -> float:
    if len(arm.items) == arm.n:
        return -math.inf
    estimate, count = arm.estimate(policy.estimate), len(arm.items)
    if policy.bonus == "variance":
        score_variance = _shrunk_of(arms, arm, policy, predictor, settings).score_variance
        weights = sum(1 / ((arm.n - k) * (arm.n - k - 1) * arm.ratios[k]) for k in range(count))
        return estimate + math.sqrt(4 * settings.exploration * score_variance / (arm.n**2 * weights))
    return estimate + math.sqrt(settings.exploration / count)


def _recommend(arms: Sequence[PlainArm], kind: str) -> int:
    values = [arm.estimate(kind) if arm.items else -math.inf for arm in arms]
    return int(np.argmax(values))


def run_successive_rejects(scores: FloatArray, order: Sequence[int], pull_budget: int) -> int:
    """Arm left by successive rejects with a shared order, -1 when the budget does not pay one answer an arm."""
    n_arms, n = scores.shape
    if pull_budget < n_arms:
        return -1
    log_bar = 0.5 + sum(1 / i for i in range(2, n_arms + 1))
    alive = list(range(n_arms))
    for phase in range(1, n_arms):
        depth = min(n, max(1, math.ceil((pull_budget - n_arms) / (log_bar * (n_arms + 1 - phase)))))
        sums = {arm: float(sum(scores[arm, item] for item in order[:depth])) for arm in alive}
        alive.remove(max(alive, key=lambda arm: (-sums[arm], arm)))
    return alive[0]
