"""The estimator, the intervals and the policies in plain Python: slow, readable, the reference of the kernels.

Only tests use this module. It favours the shape of the formulas over speed and shares no arithmetic with the kernels.

Words: an arm has n items; O are the revealed ones, U the rest, m = |U|, k = n - m; S are scores, p predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from capeval_pipeline.methods.identification.records import (
    ACTIVE_FLOOR,
    ACTIVE_GAIN_NEEDED,
    DRAWS_BEFORE_ACTIVE,
    NEWTON_STEPS_PER_REFIT,
    REFIT_GROWTH,
    SMALLEST_RESIDUAL_RATIO,
    UNIFORM_SHARES,
    Draws,
    FloatArray,
    Policy,
    Predictor,
    ReplaySettings,
)

LARGEST_BET = 0.75
E_VALUE_BETS = (0.02, 0.04, 0.07, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9)


# ---------------------------------------------------------------- one draw and their combination


def single_step_estimate(
    observed_scores: Sequence[float],
    unseen_predictions: Sequence[float],
    *,
    score: float,
    prediction: float,
    probability: float,
    control_weight: float,
) -> float:
    """theta of one draw; `unseen_predictions` are those of U before the draw, the drawn item's included."""
    n = len(observed_scores) + len(unseen_predictions)
    known = sum(observed_scores) + control_weight * sum(unseen_predictions)
    return (known + (score - control_weight * prediction) / probability) / n


@dataclass(frozen=True)
class Shrunk:
    """Shrunk moments of an arm's pairs and what follows from them."""

    control_weight: float
    residual_ratio: float
    score_variance: float


def centred_sums(
    scores: Sequence[float], predictions: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[float, float, float, float]:
    """Sums of (cross, prediction, score) products about the weighted means, and the sum of weights."""
    if not scores:
        return 0.0, 0.0, 0.0, 0.0
    w = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=float)
    s, p = np.asarray(scores, dtype=float), np.asarray(predictions, dtype=float)
    s, p = s - (w @ s) / w.sum(), p - (w @ p) / w.sum()
    # Equal values leave a rounding rest in the mean; it must not pass for variance.
    s[np.abs(s) < 1e-14], p[np.abs(p) < 1e-14] = 0.0, 0.0
    return float(w @ (s * p)), float(w @ (p * p)), float(w @ (s * s)), float(w.sum())


def shrink(
    own: tuple[float, float, float, float], pool_per_pair: tuple[float, float, float], pseudo_pairs: float
) -> Shrunk:
    """Control weight, residual variance ratio and score variance; pool_per_pair = (cov, var prediction, var score)."""
    total = own[3] + pseudo_pairs
    if total <= 0.0:
        return Shrunk(0.0, 1.0, 0.25)
    covariance, prediction_variance, score_variance = (
        (own[i] + pseudo_pairs * pool_per_pair[i]) / total for i in range(3)
    )
    weight = control_weight(covariance, prediction_variance)
    if weight == 0.0 or score_variance <= 0.0:
        return Shrunk(weight, 1.0, score_variance)
    residual = score_variance - 2 * weight * covariance + weight**2 * prediction_variance
    return Shrunk(weight, min(max(residual / score_variance, SMALLEST_RESIDUAL_RATIO), 1.0), score_variance)


def control_weight(covariance: float, prediction_variance: float) -> float:
    """lam = clip(cov / var, 0, 1), 0 where predictions do not vary."""
    if prediction_variance <= 0.0:
        return 0.0
    return min(max(covariance / prediction_variance, 0.0), 1.0)


def combine(thetas: Sequence[float], residual_ratios: Sequence[float], n: int, exact_mean: float) -> float:
    """Weighted mean of single-step estimates; the exact mean once all n items are read."""
    if len(thetas) == n:
        return exact_mean
    weights = [1 / ((n - k) * (n - k - 1) * residual_ratios[k]) for k in range(len(thetas))]
    return sum(w * t for w, t in zip(weights, thetas, strict=True)) / sum(weights)


def newton_step(row: FloatArray, factors: FloatArray, prior: FloatArray, l2: float, scores: FloatArray) -> FloatArray:
    """One Newton step of the ridge-logistic fit, at most 3 long; factors (k, rank) of the answered items."""
    predicted = 1 / (1 + np.exp(-factors @ row))
    gradient = factors.T @ (scores - predicted) + l2 * (prior - row)
    hessian = (factors.T * (predicted * (1 - predicted))) @ factors + l2 * np.eye(row.size)
    step = np.linalg.solve(hessian, gradient)
    return row + step * min(1.0, 3.0 / max(float(np.linalg.norm(step)), 1e-300))


# ---------------------------------------------------------------- intervals


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


def paired_e_value(leader: Sequence[float], rival: Sequence[float], n: int) -> float:
    """Average over bets of the paired e-value."""
    return float(np.mean([math.exp(paired_log_e(leader, rival, n, bet)) for bet in E_VALUE_BETS]))


# ---------------------------------------------------------------- policies


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


def run_race(scores: FloatArray, order: Sequence[int], batch: int, delta: float) -> tuple[list[int], int, list[int]]:
    """Certified race: (arms left, pulls made, depth at which each arm was dropped or n)."""
    n_arms, n = scores.shape
    alive, depth, pulls = list(range(n_arms)), 0, 0
    dropped_at = [n] * n_arms
    while len(alive) > 1 and depth < n:
        pulls += len(alive) * min(batch, n - depth)
        depth = min(n, depth + batch)
        answers = {arm: [float(scores[arm, item]) for item in order[:depth]] for arm in alive}
        sums = {arm: sum(answers[arm]) for arm in alive}
        leader = min(alive, key=lambda arm: (-sums[arm], arm))
        for rival in [arm for arm in alive if arm != leader]:
            if depth == n:
                is_dropped = sums[rival] < sums[leader] - 1e-9
            else:
                peak = max(
                    np.mean(
                        [math.exp(paired_log_e(answers[leader][:k], answers[rival][:k], n, b)) for b in E_VALUE_BETS]
                    )
                    for k in range(1, depth + 1)
                )
                is_dropped = peak >= (n_arms - 1) / delta
            if is_dropped:
                alive.remove(rival)
                dropped_at[rival] = depth
    return alive, pulls, dropped_at
