"""Single steps are unbiased whatever the predictions, and their weighted mean is the sample mean without them."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.methods.identification import intervals, plain
from capeval_pipeline.methods.identification.estimator import (
    ESTIMATE_CODES,
    T_LAM,
    T_RATIO,
    _choose_uniform_share,
    absorb,
    choose_item,
    estimate_of,
    new_states,
    open_batch,
)
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import Draws, Predictor, ReplaySettings, make_draws
from capeval_pipeline.methods.identification.replay import replay_policy
from capeval_pipeline.methods.identification.study import StudyWorld, run_study
from capeval_pipeline.methods.identification.summaries import pulls_for_target, standardised_mean
from capeval_pipeline.methods.item_factors import PairMoments
from tests.methods.identification.worlds import small_world

NO_MOMENTS = np.zeros(3)


@pytest.fixture
def cases(shared: Path) -> dict:
    return {case["name"]: case for case in json.loads((shared / "cases" / "pulse_small.json").read_text())["cases"]}


def answered(scores: list[float], order: list[int]):
    """States of one arm without predictor after the given draws, and its trace."""
    items = np.array([order + [i for i in range(len(scores)) if i not in order]], dtype=np.int32)
    states = new_states(np.array([scores], dtype=float), items, None, is_active=False)
    open_batch(states, 0, 1.0, 10.0, True, NO_MOMENTS, False)
    trace = np.zeros((len(order), 9))
    for k, item in enumerate(order):
        absorb(states, 0, item, float(scores[item]), 1 / (len(scores) - k), False, trace[k])
    return states, trace


# ---------------------------------------------------------------- one draw


@pytest.mark.parametrize("name", ["single_step_expectation_uniform", "single_step_expectation_active"])
def test_single_steps_of_the_hand_worked_cases(cases, name):
    case, expect = cases[name], cases[name]["expect"]
    unseen = [int(item) for item in case["draw_probabilities"]]
    thetas = {
        item: plain.single_step_estimate(
            [case["scores"][i] for i in case["observed"]],
            [case["predictions"][i] for i in unseen],
            score=case["scores"][item],
            prediction=case["predictions"][item],
            probability=case["draw_probabilities"][str(item)],
            control_weight=case["control_weight"],
        )
        for item in unseen
    }
    for item in unseen:
        assert thetas[item] == pytest.approx(expect["theta_by_drawn_item"][str(item)], abs=1e-9)
    mean = sum(case["draw_probabilities"][str(item)] * thetas[item] for item in unseen)
    variance = sum(case["draw_probabilities"][str(item)] * (thetas[item] - mean) ** 2 for item in unseen)
    assert mean == pytest.approx(expect["mean_of_scores"], abs=1e-12)
    assert variance == pytest.approx(expect["variance"], abs=1e-12)


def test_uniform_variance_is_that_of_the_residuals_left(cases):
    case = cases["single_step_expectation_uniform"]
    residuals = [case["scores"][i] - 0.75 * case["predictions"][i] for i in (1, 2, 4, 5)]
    expected = (4 / 6) ** 2 * np.var(residuals)
    assert expected == pytest.approx(case["expect"]["variance_formula"]["value"], abs=1e-12)


@pytest.mark.parametrize("name", ["pulse", "pulse_active"])
def test_the_expectation_of_every_single_step_is_the_mean_by_enumeration(name):
    # All orders of 5 items are equally likely histories under uniform draws; for active draws the kernel's own
    # probabilities weigh the next item. Either way sum over next items of pi theta must be mu, after any history.
    policy = POLICIES[name]
    is_active = policy.draws == "active"
    rng = np.random.default_rng(4)
    n = 5
    scores = rng.random((1, n))
    predictor = Predictor(rng.normal(size=(n, 2)), rng.normal(size=2), 1.0, PairMoments(0.1, 0.1, 0.2))
    for length in range(n):
        for history in itertools.permutations(range(n), length):
            rest = [item for item in range(n) if item not in history]
            expectation = total_probability = 0.0
            for item in rest:
                items = np.array([list(history) + [item] + [i for i in rest if i != item]], dtype=np.int32)
                states = new_states(scores.copy(), items, predictor, is_active=is_active)
                row = np.zeros(9)
                for k, seen in enumerate((*history, item)):
                    open_batch(states, 0, 1.0, 10.0, True, NO_MOMENTS, is_active)
                    # The gate needs 300 draws; here every draw shall be a non-uniform one.
                    tau = 0.25 if is_active else 1.0
                    states.batch[0, 3] = tau
                    probability = 1 / (n - k)
                    if is_active:
                        unseen = [i for i in range(n) if i not in history[:k]]
                        spread = np.sqrt(states.predictions[0] * (1 - states.predictions[0]) + 1e-4)
                        probability = (1 - tau) * spread[seen] / spread[unseen].sum() + tau / (n - k)
                    before = states.sums[0, 4]
                    absorb(states, 0, seen, scores[0, seen], probability, is_active, row)
                expectation += probability * (states.sums[0, 4] - before)
                total_probability += probability
            assert total_probability == pytest.approx(1, abs=1e-12)
            assert expectation == pytest.approx(scores.mean(), abs=1e-12)


def test_active_choice_follows_its_probabilities():
    rng = np.random.default_rng(5)
    n = 7
    predictor = Predictor(rng.normal(size=(n, 2)), rng.normal(size=2), 1.0, PairMoments(0.1, 0.1, 0.2))
    states = new_states(np.ones((1, n)), np.zeros((1, n), np.int32), predictor, is_active=True)
    states.batch[0, 3] = 0.25
    absorb(states, 0, 2, 1.0, 1 / n, True, np.zeros(9))
    grid = (np.arange(20_000) + 0.5) / 20_000
    chosen = [choose_item(states, 0, u) for u in grid]
    for item in range(n):
        share = np.mean([place == item for place, _ in chosen])
        stated = {probability for place, probability in chosen if place == item}
        if item == 2:
            assert share == 0
        else:
            # An even grid misses the length of an interval by at most one step.
            assert share == pytest.approx(stated.pop(), abs=1 / 20_000)


@pytest.mark.parametrize(
    ("n_draws", "gain", "share"), [(400, 0.029, 1.0), (400, 0.031, 0.5), (400, 0.2, 0.5), (299, 0.2, 1.0)]
)
def test_the_gate_opens_after_300_draws_for_a_gain_of_3_percent(n_draws, gain, share):
    # Second moments at uniform shares .25, .5, .75, 1, and the mean residual; half the draws uniform gains most.
    moments = np.array([0.30, 0.2 * (1 - gain), 0.2, 0.2])
    mean = 0.1
    memory = n_draws * np.array([1.0, *moments, mean])
    chosen, ratio = _choose_uniform_share(memory)
    assert chosen == share
    assert ratio == pytest.approx((0.2 * (1 - gain) - 0.01) / (0.2 - 0.01) if share < 1 else 1.0)


# ---------------------------------------------------------------- combination


def test_without_control_weight_the_estimate_is_the_sample_mean_at_every_count():
    rng = np.random.default_rng(6)
    for n in (2, 3, 30, 2000):
        scores = rng.random(n)
        order = rng.permutation(n)
        items = order[None, :].astype(np.int32)
        states = new_states(scores[None, :].copy(), items, None, is_active=False)
        for k, item in enumerate(order):
            absorb(states, 0, int(item), scores[item], 1 / (n - k), False, np.zeros(9))
            expected = pytest.approx(scores[order[: k + 1]].mean(), abs=1e-12)
            assert estimate_of(states, 0, ESTIMATE_CODES["weighted_steps"]) == expected
            if k < n - 1:
                # The weights themselves say so, not only the shortcut for arms without control weight.
                assert states.sums[0, 3] / states.sums[0, 2] == expected


def test_zero_control_weight_case(cases):
    case, expect = (
        cases["zero_control_weight_is_the_sample_mean"],
        cases["zero_control_weight_is_the_sample_mean"]["expect"],
    )
    states, trace = answered(case["scores"], case["draw_order"])
    n = len(case["scores"])
    weights = [1 / ((n - k) * (n - k - 1)) for k in range(len(trace))]
    assert weights == pytest.approx([float(Fraction(text)) for text in expect["weights_up_to_a_factor"]], abs=1e-12)
    assert states.sums[0, 2] == pytest.approx(sum(weights), abs=1e-12)
    thetas = [(row[3] + row[0] * (n - k)) / n for k, row in enumerate(trace)]
    assert thetas == pytest.approx(expect["theta"], abs=1e-12)
    assert estimate_of(states, 0, ESTIMATE_CODES["weighted_steps"]) == pytest.approx(expect["estimate"], abs=1e-12)
    assert estimate_of(states, 0, ESTIMATE_CODES["sample_mean"]) == pytest.approx(expect["sample_mean"], abs=1e-12)
    literal = estimate_of(states, 0, ESTIMATE_CODES["averaged_steps"])
    assert literal == pytest.approx(expect["paper_literal"], abs=1e-12)


def test_exhausted_arm_case(cases):
    case, expect = cases["exhausted_arm_is_exact"], cases["exhausted_arm_is_exact"]["expect"]
    states, trace = answered(case["scores"], case["draw_order"])
    assert estimate_of(states, 0, ESTIMATE_CODES["weighted_steps"]) == expect["estimate"]
    thetas = [(row[3] + row[0] * (6 - k)) / 6 for k, row in enumerate(trace)]
    assert thetas == pytest.approx(expect["theta"], abs=1e-12)
    assert np.mean(thetas) == pytest.approx(expect["paper_literal"], abs=1e-12)
    limits = intervals.betting_limits(trace, intervals.bets_of(trace, 6, 0.1), 6, 6, 0.1)
    assert limits == (expect["lower"], expect["upper"])


@pytest.mark.parametrize("name", ["pulse", "pulse_shared_order", "pulse_active", "paper_literal"])
def test_an_arm_read_to_the_end_has_its_exact_mean(name):
    for seed in range(12):
        scores, predictor, draws, settings = small_world(seed)
        replay = replay_policy(POLICIES[name], scores, draws, settings, predictor)
        best = scores.mean(axis=1)
        assert best[replay.recommended[-1]] == pytest.approx(best.max(), abs=1e-12)


def test_pulse_is_ucb_e_when_no_prediction_varies():
    # Constant predictions: lam stays 0, and every pull and recommendation is that of UCB-E.
    rng = np.random.default_rng(9)
    scores = (rng.random((5, 40)) < 0.6).astype(float)
    predictor = Predictor(np.zeros((40, 2)), np.zeros(2), 1.0, PairMoments(0.0, 0.0, 0.2))
    draws = make_draws(rng, 5, 40)
    settings = ReplaySettings(batch=4, pull_budgets=np.arange(5, 201, 5))
    pulse, ucb_e = (replay_policy(POLICIES[name], scores, draws, settings, predictor) for name in ("pulse", "ucb_e"))
    assert (pulse.trace[:, T_LAM] == 0).all()
    assert (pulse.trace[:, T_RATIO] == 1).all()
    assert pulse.trace_arms.tolist() == ucb_e.trace_arms.tolist()
    assert pulse.recommended.tolist() == ucb_e.recommended.tolist()


# ---------------------------------------------------------------- control weight


def test_control_weight_case(cases):
    case, expect = (
        cases["control_weight_with_pooled_shrinkage"],
        cases["control_weight_with_pooled_shrinkage"]["expect"],
    )
    own = plain.centred_sums(case["scores_seen"], case["predictions_held_before"])
    assert own[:3] == pytest.approx(
        [expect["centred_cross_sum"], expect["centred_prediction_sum"], expect["centred_score_sum"]], abs=1e-9
    )
    pool = case["pool_per_pair"]
    shrunk = plain.shrink(own, (pool["cov"], pool["var_prediction"], pool["var_score"]), case["pseudo_pairs"])
    assert shrunk.control_weight == pytest.approx(expect["control_weight"], abs=1e-9)
    assert shrunk.score_variance == pytest.approx(expect["score_variance"], abs=1e-9)
    assert shrunk.residual_ratio * shrunk.score_variance == pytest.approx(expect["residual_variance"], abs=1e-9)


def test_control_weight_is_clipped(cases):
    for words, expected in cases["control_weight_clips"]["expect"].items():
        numbers = [float(word.rstrip(",")) for word in words.split() if word.rstrip(",").lstrip("-")[0].isdigit()]
        covariance, variance = numbers if len(numbers) == 2 else (0.01, numbers[0])
        assert plain.control_weight(covariance, variance) == expected


# ---------------------------------------------------------------- intervals


def test_freedman_case(cases):
    case, expect = cases["freedman_fixed_variance"], cases["freedman_fixed_variance"]["expect"]
    n, variance = case["n_items"], case["variance_used"]
    weights, ranges, variances, thetas = [], [], [], []
    total = 0.0
    for k, (answer, step) in enumerate(zip(case["answers"], expect["steps"], strict=True)):
        m = n - k
        weights.append((n / m) ** 2 / variance)
        ranges.append(m / n)
        variances.append((m / n) ** 2 * variance)
        thetas.append((total + m * answer) / n)
        total += answer
        assert (weights[-1], thetas[-1]) == pytest.approx((step["weight"], step["theta"]), abs=1e-9)
        estimate = sum(w * t for w, t in zip(weights, thetas, strict=True)) / sum(weights)
        assert estimate == pytest.approx(step["estimate"], abs=1e-9)
        half = plain.freedman_half_width(weights, ranges, variances, case["delta"])
        assert half == pytest.approx(step["half_width"], abs=1e-9)


def test_betting_wealth_case(cases):
    case, expect = cases["betting_wealth_fixed_bet"], cases["betting_wealth_fixed_bet"]["expect"]
    n, total, steps = case["n_items"], 0.0, []
    for answer in case["answers"]:
        steps.append(plain.Step(score=answer, control_weight=0.0, known=total, residual=answer))
        total += answer
    assert math.log(2 / case["alpha"]) == pytest.approx(expect["threshold_log"], abs=1e-9)
    rows = np.array([[0.5, step.residual, step.known, 1.0, 0.0] for step in steps])
    for mu, reference in expect["by_hypothesised_mean"].items():
        wealths = plain.log_wealths(steps, n, float(mu), [case["bet"]] * len(steps))
        assert [up for up, _ in wealths] == pytest.approx(reference["log_wealth_up"], abs=1e-9)
        assert [down for _, down in wealths] == pytest.approx(reference["log_wealth_down"], abs=1e-9)
        for side, log_wealth in enumerate(("log_wealth_up", "log_wealth_down")):
            peak = max(reference[log_wealth])
            # The kernel must cross just below the largest wealth and not above it.
            assert intervals.first_crossing(rows, n, float(mu), side, peak - 1e-9, len(steps)) > 0
            assert intervals.first_crossing(rows, n, float(mu), side, peak + 1e-9, len(steps)) == -1


def test_impossible_means_case(cases):
    case, expect = cases["impossible_means_leave_the_set"], cases["impossible_means_leave_the_set"]["expect"]
    _, trace = answered([*case["answers"], 0.0], list(range(len(case["answers"]))))
    n, alpha = case["n_items"], case["alpha"]
    limits = intervals.betting_limits(trace, intervals.bets_of(trace, n, alpha), n, len(case["answers"]), alpha)
    assert limits == pytest.approx((expect["lower"], expect["upper"]), abs=1e-9)


def test_paired_e_value_case(cases):
    case = cases["paired_e_value_shared_order"]
    for k, step in enumerate(case["expect"]["steps"]):
        log_e = plain.paired_log_e(
            case["leader_answers"][: k + 1], case["rival_answers"][: k + 1], case["n_items"], case["bet"]
        )
        assert log_e == pytest.approx(step["log_e"], abs=1e-9)
    assert math.exp(log_e) == pytest.approx(case["expect"]["e_value"], abs=1e-9)


def test_pulls_for_target_case(cases):
    case = cases["pulls_for_target_isotonic"]
    budgets, accuracy = np.array(case["pull_budgets"], float), np.array(case["accuracy"])
    assert pulls_for_target(budgets, accuracy, case["target"]) == pytest.approx(
        case["expect"]["pulls_for_target"], abs=1e-9
    )


def test_ties_case(cases):
    means = cases["ties_count_as_hits"]["arm_means"]
    scores = np.array([np.r_[np.ones(round(4 * mean)), np.zeros(4 - round(4 * mean))] for mean in means.values()])
    settings = ReplaySettings(batch=1, pull_budgets=np.array([12]))
    runs = run_study(StudyWorld(scores, settings, n_arms=3), ["uniform", "race"], 12)
    for record in (*runs["uniform"].runs, *runs["race"].runs):
        assert record.best_gap == cases["ties_count_as_hits"]["expect"]["best_gap"]
        assert record.is_hit[-1]
        assert record.recommended[-1] in (0, 1)
    # Never a alone: a race that ends has both tied arms, read to the end.
    replay = replay_policy(POLICIES["race"], scores, make_draws(np.random.default_rng(0), 3, 4), settings)
    assert replay.certified_arms.tolist() == [0, 1]


@pytest.mark.parametrize("alpha", [0.6, 0.3, 0.15])
@pytest.mark.parametrize("is_graded", [True, False])
def test_the_share_of_all_orders_in_which_a_betting_interval_ever_misses_is_at_most_alpha(alpha, is_graded):
    # Exact: the 5,040 orders of 7 items are equally likely, and control weights follow the answers of each order.
    rng = np.random.default_rng(31)
    n, n_missed = 7, 0
    scores = (rng.random((1, n)) if is_graded else (np.arange(n) < 3).astype(float)[None, :]).copy()
    predictor = Predictor(rng.normal(size=(n, 2)), np.zeros(2), 1.0, PairMoments(0.1, 0.1, 0.2))
    settings = ReplaySettings(batch=1, pull_budgets=np.array([n]), pseudo_pairs=1.0)
    starts, means = np.array([0, n]), scores.mean(axis=1)
    has_weight = False
    for order in itertools.permutations(range(n)):
        draws = Draws(np.array([order], dtype=np.int32), np.array(order, dtype=np.int32), np.zeros((1, n)))
        trace = replay_policy(POLICIES["pulse"], scores, draws, settings, predictor).trace
        has_weight |= bool((trace[:, T_LAM] > 0).any())
        bets = intervals.grouped_bets(trace, starts, n, alpha)
        n_missed += int(intervals.betting_misses(bets, starts, n, means, alpha)[0] > 0)
    assert has_weight
    assert n_missed / math.factorial(n) <= alpha


@pytest.mark.parametrize("alpha", [0.1, 0.02])
@pytest.mark.parametrize("is_useful", [True, False])
def test_betting_intervals_miss_at_any_count_no_more_often_than_allowed(alpha, is_useful):
    rng = np.random.default_rng(11)
    n_arms, n_items, n_runs = 60, 60, 60
    factors, rows = rng.normal(size=(n_items, 2)), rng.normal(size=(n_arms, 2))
    chance = 1 / (1 + np.exp(-2 * rows @ factors.T)) if is_useful else np.full((n_arms, n_items), 0.7)
    scores = (rng.random((n_arms, n_items)) < chance).astype(float)
    predictor = Predictor(2 * factors, np.zeros(2), 1.0, PairMoments(0.1, 0.1, 0.2))
    settings = ReplaySettings(batch=5, pull_budgets=np.array([n_arms * n_items]))
    n_missed = 0
    for seed in range(n_runs):
        draws = make_draws(np.random.default_rng([11, seed]), n_arms, n_items)
        replay = replay_policy(POLICIES["pulse"], scores, draws, settings, predictor)
        starts, places = intervals.group_by_arm(replay.trace_arms, n_arms)
        bets = intervals.grouped_bets(replay.trace[places], starts, n_items, alpha)
        n_missed += (intervals.betting_misses(bets, starts, n_items, scores.mean(axis=1), alpha) > 0).sum()
    n = n_arms * n_runs
    # Four standard errors above the level; measured .02 to .07 of .1.
    assert n_missed / n < alpha + 4 * math.sqrt(alpha * (1 - alpha) / n)


@pytest.mark.parametrize("name", ["paper_literal", "pulse", "pulse_shared_order", "pulse_active"])
@pytest.mark.parametrize("is_useful", [True, False])
def test_single_steps_have_no_bias_under_adaptive_stopping(name, is_useful):
    rng = np.random.default_rng(12)
    n_arms, n_items = 8, 60
    factors, rows = rng.normal(size=(n_items, 2)), rng.normal(size=(n_arms, 2))
    chance = 1 / (1 + np.exp(-2 * rows @ factors.T))
    scores = (rng.random((n_arms, n_items)) < chance).astype(float)
    shown = 2 * factors if is_useful else 2 * rng.permutation(factors)
    predictor = Predictor(shown, np.zeros(2), 1.0, PairMoments(0.1, 0.1, 0.2))
    settings = ReplaySettings(batch=4, pull_budgets=np.array([n_arms * n_items]))
    runs = run_study(StudyWorld(scores, settings, n_arms=n_arms, predictor=predictor), [name], 400)
    # A normal z beyond 3.5 has probability .0005; the seeds are fixed.
    assert abs(standardised_mean(np.array([run.step_error_sum for run in runs[name].runs]))) < 3.5
