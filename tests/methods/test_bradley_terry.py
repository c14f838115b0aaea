"""Bradley-Terry: closed forms, symmetries, the hand-worked cases, and the size the pipeline promises."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import (
    _derivatives,
    comparison_components,
    derivatives_reference,
    fit_bradley_terry,
    separated_models,
)


def random_wins(rng: np.random.Generator, n_fits: int, n_models: int) -> np.ndarray:
    wins = rng.poisson(3.0, size=(n_fits, n_models, n_models)).astype(float)
    wins[:, range(n_models), range(n_models)] = 0.0
    return wins


def test_two_models_have_log_odds_as_strength_gap():
    fit = fit_bradley_terry(wins=np.array([[0.0, 3.0], [1.0, 0.0]]), ridge=0.0)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(math.log(3 / 1), abs=1e-9)


def test_hand_worked_cases_hold(shared: Path):
    cases = json.loads((shared / "cases" / "bt_small.json").read_text())["cases"]
    n_checked = 0
    for case in cases:
        if "wins" not in case:
            continue
        wins = np.array(case["wins"], dtype=float)
        ridge = case.get("ridge", 0)
        if "strengths" in case:
            fit = fit_bradley_terry(wins, ridge=ridge, prior=case["prior"])
            assert fit.strengths == pytest.approx(case["strengths"], abs=2e-6), case["name"]
            assert fit.max_gradient <= 1e-6
            n_checked += 1
        if "limit_of_small_ridge" in case:
            assert fit_bradley_terry(wins, ridge=0).strengths == pytest.approx(case["limit_of_small_ridge"], abs=2e-6)
            small = fit_bradley_terry(wins, ridge=1e-7)
            assert small.strengths == pytest.approx(case["limit_of_small_ridge"], abs=2e-6)
            n_checked += 1
        if "component_of_model" in case:
            assert comparison_components(wins).tolist() == case["component_of_model"]
        if "is_separated" in case:
            won, lost = separated_models(wins)
            assert (won | lost).tolist() == case["is_separated"]
            with pytest.raises(ConvergenceError):
                fit_bradley_terry(wins, ridge=0)
        if "at_zero" in case:
            gradient, hessian = np.empty(len(wins)), np.empty_like(wins)
            _derivatives(wins, np.zeros(len(wins)), 0.0, np.zeros(len(wins)), gradient, hessian)
            assert gradient.tolist() == case["at_zero"]["gradient"]
            assert hessian.tolist() == case["at_zero"]["hessian"]
    assert n_checked >= 8


def test_kernel_equals_the_formula(rng: np.random.Generator):
    wins, strengths, prior = random_wins(rng, 1, 9)[0], rng.normal(size=9), rng.normal(size=9)
    wins[2, 5] = wins[5, 2] = 0.0
    gradient, hessian = np.empty(9), np.empty((9, 9))
    loss = _derivatives(wins, strengths, 0.7, prior, gradient, hessian)
    expected_loss, expected_gradient, expected_hessian = derivatives_reference(wins, strengths, 0.7, prior)
    assert loss == pytest.approx(expected_loss, rel=1e-13)
    assert gradient == pytest.approx(expected_gradient, abs=1e-12)
    assert hessian == pytest.approx(expected_hessian, abs=1e-12)


def test_a_batch_equals_its_fits_one_by_one(rng: np.random.Generator):
    wins = random_wins(rng, 5, 8)
    prior = rng.normal(size=(5, 8))
    batch = fit_bradley_terry(wins, ridge=1.0, prior=prior)
    for k in range(5):
        alone = fit_bradley_terry(wins[k], ridge=1.0, prior=prior[k])
        assert batch.strengths[k] == pytest.approx(alone.strengths, abs=1e-9)
    assert batch.max_gradient.max() <= 1e-6


def test_without_a_ridge_scaling_all_wins_changes_nothing(rng: np.random.Generator):
    wins = random_wins(rng, 1, 7)[0] + 0.5
    assert fit_bradley_terry(17.0 * wins, ridge=0).strengths == pytest.approx(
        fit_bradley_terry(wins, ridge=0).strengths, abs=1e-8
    )


def test_exchanging_winners_and_losers_turns_strengths_round(rng: np.random.Generator):
    wins = random_wins(rng, 1, 7)[0]
    forward, backward = fit_bradley_terry(wins, ridge=1), fit_bradley_terry(wins.T, ridge=1)
    assert backward.strengths == pytest.approx(-forward.strengths, abs=1e-9)


def test_permuting_models_permutes_strengths(rng: np.random.Generator):
    wins, order = random_wins(rng, 1, 7)[0], rng.permutation(7)
    permuted = fit_bradley_terry(wins[np.ix_(order, order)], ridge=0.1)
    assert permuted.strengths == pytest.approx(fit_bradley_terry(wins, ridge=0.1).strengths[order], abs=1e-9)


def test_no_wins_give_the_prior():
    assert fit_bradley_terry(np.zeros((2, 2)), ridge=1, prior=[1, -1]).strengths.tolist() == [1.0, -1.0]


def test_a_heavily_separated_model_is_finite_and_solved():
    wins = np.array([[0, 1e6, 1e6], [0, 0, 10], [0, 12, 0]], dtype=float)
    fit = fit_bradley_terry(wins, ridge=0.1)
    assert fit.max_gradient <= 1e-6
    # Stationarity of the first model: ridge * t = 1e6 * (sigma(u - t) + sigma(v - t)), t far above u and v.
    t, u, v = fit.strengths
    assert 0.1 * t == pytest.approx(1e6 * (1 / (1 + math.exp(t - u)) + 1 / (1 + math.exp(t - v))), rel=1e-5)


def test_a_fit_that_did_not_get_there_is_an_error(rng: np.random.Generator):
    with pytest.raises(ConvergenceError, match=r"largest gradient entry of fit 1 .* after 1 steps"):
        fit_bradley_terry(np.stack([np.zeros((6, 6)), 50 * random_wins(rng, 1, 6)[0]]), ridge=0.1, max_steps=1)


def test_negative_wins_are_refused():
    with pytest.raises(ValueError, match="negative"):
        fit_bradley_terry(np.array([[0.0, -1.0], [1.0, 0.0]]), ridge=1)


def test_many_models_use_the_iterative_solver_and_agree_with_the_direct_one(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    truth = rng.normal(size=120)
    share = 1 / (1 + np.exp(truth[None, :] - truth[:, None]))
    wins = rng.binomial(20, share).astype(float)
    wins[3, :] += wins[:, 3]
    wins[:, 3] = 0.0  # model 3 always won
    direct = fit_bradley_terry(wins, ridge=0.1)
    monkeypatch.setattr("capeval_pipeline.methods.bradley_terry.LARGEST_DIRECT_SOLVE", 50)
    iterative = fit_bradley_terry(wins, ridge=0.1)
    assert iterative.max_gradient <= 1e-6
    assert iterative.strengths == pytest.approx(direct.strengths, abs=1e-6)


def votes_of(wins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(winner, loser) of single votes that add up to the wins."""
    winner, loser = np.nonzero(wins)
    counts = wins[winner, loser].astype(int)
    return np.repeat(winner, counts), np.repeat(loser, counts)


def test_strengths_are_those_of_choix(rng: np.random.Generator):
    """An independent package: its penalty is alpha |t|^2, half of the ridge's, on the same votes."""
    choix = pytest.importorskip("choix")
    wins = random_wins(rng, 1, 8)[0]
    found = choix.opt_pairwise(8, np.column_stack(votes_of(wins)).tolist(), alpha=0.05, method="Newton-CG", tol=1e-12)
    assert fit_bradley_terry(wins, ridge=0.1).strengths == pytest.approx(found, abs=1e-6)
    unpenalised = choix.ilsr_pairwise_dense(wins, tol=1e-10)
    assert fit_bradley_terry(wins, ridge=0.0).strengths == pytest.approx(unpenalised - unpenalised.mean(), abs=1e-6)


def test_strengths_are_those_of_a_logistic_regression_on_the_votes(rng: np.random.Generator):
    from sklearn.linear_model import LogisticRegression

    wins = random_wins(rng, 1, 8)[0]
    winner, loser = votes_of(wins)
    design = np.zeros((len(winner), 8))
    design[range(len(winner)), winner], design[range(len(winner)), loser] = 1.0, -1.0
    # Both orientations of each vote at half weight, so that there are two classes and no intercept.
    model = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    half = np.full(2 * len(winner), 0.5)
    model.fit(np.vstack([design, -design]), np.repeat([1, 0], len(winner)), sample_weight=half)
    assert fit_bradley_terry(wins, ridge=0.7).strengths == pytest.approx(model.coef_[0], abs=1e-6)
