"""The numba kernels against the plain reference: same pulls, same numbers to 1e-9."""

import dataclasses

import numpy as np
import pytest

from capeval_pipeline.methods.identification import intervals, plain
from capeval_pipeline.methods.identification.estimator import T_TAU
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.race import DEPTH, new_race, play_round
from capeval_pipeline.methods.identification.records import Predictor, ReplaySettings, make_draws
from capeval_pipeline.methods.identification.replay import replay_policy
from capeval_pipeline.methods.item_factors import PairMoments
from tests.methods.identification.worlds import small_world

INDEX_POLICIES = [name for name, policy in POLICIES.items() if policy.kind == "index"]
SEEDS = range(20)


def trace_row(step: plain.Step) -> list[float]:
    return [
        step.score,
        step.prediction,
        step.control_weight,
        step.known,
        step.draw_ratio,
        step.uniform_share,
        step.residual_ratio,
        step.score_variance,
    ]


@pytest.mark.parametrize("name", INDEX_POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_index_policies_pull_and_estimate_as_the_plain_reference(name, seed):
    scores, predictor, draws, settings = small_world(seed)
    fast = replay_policy(POLICIES[name], scores, draws, settings, predictor)
    slow = plain.run_index_policy(POLICIES[name], scores, draws, predictor, settings)
    assert fast.trace_arms.tolist() == [arm for arm, _ in slow.pulls]
    assert fast.recommended.tolist() == slow.recommended
    for arm, state in enumerate(slow.arms):
        rows = fast.trace[fast.trace_arms == arm]
        expected = np.array([trace_row(step) for step in state.steps]).reshape(-1, 8)
        np.testing.assert_allclose(rows[:, :8], expected, rtol=0, atol=1e-9)
        if POLICIES[name].draws != "active":
            variances = [step.conditional_variance for step in state.steps]
            np.testing.assert_allclose(rows[:, 8], variances, rtol=0, atol=1e-9)


@pytest.mark.parametrize("is_useful", [True, False])
def test_active_draws_agree_once_the_gate_has_opened(is_useful):
    # The gate needs 300 draws, more than the small worlds have; predictions near 0 and 1 are what opens it.
    rng = np.random.default_rng(8)
    n_arms, n = 6, 90
    _, predictor, _, _ = small_world(2, n_items=n)
    logits = 3 * predictor.item_factors @ predictor.prior_mean
    chance = 1 / (1 + np.exp(-logits)) if is_useful else np.full(n, 0.5)
    scores = (rng.random((n_arms, n)) < chance).astype(float)
    draws = make_draws(rng, n_arms, n)
    settings = ReplaySettings(batch=3, pull_budgets=np.array([400, 540]))
    fast = replay_policy(POLICIES["pulse_active"], scores, draws, settings, predictor)
    slow = plain.run_index_policy(POLICIES["pulse_active"], scores, draws, predictor, settings)
    assert fast.trace_arms.tolist() == [arm for arm, _ in slow.pulls]
    for arm, state in enumerate(slow.arms):
        expected = np.array([trace_row(step) for step in state.steps])
        np.testing.assert_allclose(fast.trace[fast.trace_arms == arm][:, :8], expected, rtol=0, atol=1e-9)
    if is_useful:
        assert fast.trace[:, T_TAU].min() < 1
        arm = int(fast.trace_arms[fast.trace[:, T_TAU].argmin()])
        assert_same_intervals(fast.trace[fast.trace_arms == arm], slow.arms[arm].steps, n, has_oracle=False)


def assert_same_intervals(trace, steps, n, *, has_oracle, alpha=0.1):
    """Every interval after a few counts, the last two among them."""
    bets = intervals.bets_of(trace, n, alpha)
    np.testing.assert_allclose(bets[:, 0], plain.predictable_bets(steps, n, alpha), rtol=1e-9, atol=1e-9)
    bernstein = intervals.bernstein_path(trace, n, alpha)
    plug_in, oracle = (intervals.freedman_path(trace, n, alpha, is_oracle) for is_oracle in (False, True))
    estimated = [
        dataclasses.replace(step, conditional_variance=step.residual_ratio * step.score_variance) for step in steps
    ]
    for count in sorted({1, len(steps) // 2, len(steps) - 1, len(steps)} - {0}):
        limits = intervals.betting_limits(trace, bets, n, count, alpha)
        assert limits == pytest.approx(plain.betting_interval(steps[:count], n, alpha), abs=1e-9)
        assert bernstein[count - 1] == pytest.approx(plain.bernstein_interval(steps[:count], n, alpha), abs=1e-9)
        assert plug_in[count - 1] == pytest.approx(plain.freedman_interval(estimated[:count], n, alpha), abs=1e-9)
        if has_oracle:
            assert oracle[count - 1] == pytest.approx(plain.freedman_interval(steps[:count], n, alpha), abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_successive_rejects_agree(seed):
    scores, _, draws, settings = small_world(seed)
    rejects = replay_policy(POLICIES["successive_rejects_shared"], scores, draws, settings)
    expected = [
        plain.run_successive_rejects(scores, draws.shared_order, int(budget)) for budget in settings.pull_budgets
    ]
    assert rejects.recommended.tolist() == expected


def races(scores, order, settings, predictor):
    """The kernel's race played to its end, with the calls it made, and the plain one."""
    states = new_race(scores.copy(), order.copy(), predictor)
    n_items, pulls = scores.shape[1], 0
    while states.is_left.sum() > 1 and states.progress[DEPTH] < n_items:
        following = min(n_items, int(states.progress[DEPTH]) + settings.batch)
        pulls += int(states.is_left.sum()) * (following - int(states.progress[DEPTH]))
        l2 = predictor.l2 if predictor else 1.0
        play_round(states, following, settings.delta, l2, settings.pseudo_pairs)
    return states, pulls, plain.run_race(scores, order, settings, predictor)


def assert_same_race(states, pulls, slow):
    assert np.flatnonzero(states.is_left).tolist() == slow.alive
    assert pulls == slow.n_pulls
    rivals = slow.rivals
    np.testing.assert_allclose(states.wealth, [rival.wealths for rival in rivals], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(states.peak, [rival.peak for rival in rivals], rtol=1e-9, atol=1e-9)
    control = [(rival.control_weight, rival.lowest) for rival in rivals]
    np.testing.assert_allclose(states.control, control, rtol=0, atol=1e-9)


@pytest.mark.parametrize("has_predictor", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_races_agree(seed, has_predictor):
    scores, predictor, draws, settings = small_world(seed)
    used = predictor if has_predictor else None
    states, pulls, slow = races(scores, draws.shared_order, settings, used)
    assert_same_race(states, pulls, slow)
    replay = replay_policy(POLICIES["race"], scores, draws, settings, used)
    assert replay.certified_arms.tolist() == slow.alive
    assert replay.n_pulls == slow.n_pulls


@pytest.mark.parametrize("has_predictor", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_races_that_drop_early_agree(seed, has_predictor):
    # Gaps of .6 on 30 items: rivals go before the end, so the wealths and not the final means decide.
    rng = np.random.default_rng([3, seed])
    factors = rng.normal(size=(30, 2))
    chance = 1 / (
        1 + np.exp(-np.array([[3.0], [2.5], [-1.0], [-1.5], [-2.0]]) - 2 * rng.normal(size=(5, 2)) @ factors.T)
    )
    scores = (rng.random((5, 30)) < chance).astype(float)
    predictor = Predictor(factors, np.zeros(2), 1.0, PairMoments(0.1, 0.1, 0.2)) if has_predictor else None
    settings = ReplaySettings(batch=2, pull_budgets=np.array([150]), delta=0.3)
    states, pulls, slow = races(scores, make_draws(rng, 5, 30).shared_order, settings, predictor)
    assert_same_race(states, pulls, slow)
    assert min(slow.dropped_at) < 30
    if has_predictor:
        assert max(rival.control_weight for rival in slow.rivals) > 0


@pytest.mark.parametrize("name", ["ucb_e", "pulse", "pulse_active"])
@pytest.mark.parametrize("seed", SEEDS)
def test_interval_kernels_agree(name, seed):
    scores, predictor, draws, settings = small_world(seed)
    n = scores.shape[1]
    fast = replay_policy(POLICIES[name], scores, draws, settings, predictor)
    slow = plain.run_index_policy(POLICIES[name], scores, draws, predictor, settings)
    arm = int(fast.trace_arms[0])
    assert_same_intervals(
        fast.trace[fast.trace_arms == arm], slow.arms[arm].steps, n, has_oracle=name != "pulse_active"
    )


@pytest.mark.parametrize("seed", range(6))
def test_betting_crossings_are_where_the_plain_wealth_reaches_the_threshold(seed):
    scores, predictor, draws, settings = small_world(6 * seed + 5)
    n = scores.shape[1]
    fast = replay_policy(POLICIES["pulse"], scores, draws, settings, predictor)
    slow = plain.run_index_policy(POLICIES["pulse"], scores, draws, predictor, settings)
    trace, steps = fast.trace[fast.trace_arms == 0], slow.arms[0].steps[: n - 1]
    bets, threshold = intervals.bets_of(trace, n, 0.2), np.log(2 / 0.2)
    for mu in (0.05, 0.3, 0.62, 0.97):
        wealths = plain.log_wealths(steps, n, mu, plain.predictable_bets(steps, n, 0.2))
        for side in (0, 1):
            reached = [k + 1 for k, pair in enumerate(wealths) if pair[side] >= threshold]
            crossing = intervals.first_crossing(bets, n, mu, side, threshold, len(steps))
            assert crossing == (reached[0] if reached else -1)
