"""Every oracle estimator: hand-worked figures, bias in planted worlds, and refusal with one draw a cell."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from capeval_pipeline.methods.debiasing import DEBIASERS, DrawTable, OracleProblem
from capeval_pipeline.methods.debiasing.extrapolation import fitted_exponent, intercept_weights
from capeval_pipeline.methods.debiasing.model_based import bracket_ratio, corrected_value
from capeval_pipeline.methods.debiasing.posterior import BiasSimulation
from capeval_pipeline.methods.debiasing.shock import SharedShock, shock_factor
from capeval_pipeline.methods.synthetic import make_generation_world


def problem(kind, seed, *, n_generations=5, n_items=600, shared_shock=0.0, n_models=10):
    world = make_generation_world(
        kind,
        n_items=n_items,
        n_models=n_models,
        n_generations=n_generations,
        rng=np.random.default_rng(seed),
        shared_shock=shared_shock,
    )
    truth = float(world.success_probability.max(axis=1).mean())
    return OracleProblem(DrawTable(world.scores), n_simulations=20, n_refits=3), truth


def test_extrapolations_of_two_points_by_hand(shared):
    case = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]["extrapolation"]
    curve = np.array(case["curve"])
    assert intercept_weights(2, 0.5) @ curve == pytest.approx(case["half"], abs=1e-12)
    assert 2 * curve[1] - curve[0] == pytest.approx(case["jackknife"], abs=1e-12)


def test_extrapolation_recovers_a_curve_of_its_own_kind():
    g = np.arange(1, 9)
    assert intercept_weights(8, 0.5) @ (0.7 + 0.2 * g**-0.5) == pytest.approx(0.7, abs=1e-12)
    assert fitted_exponent(0.7 + 0.2 * g**-0.4) == pytest.approx(0.4, abs=1e-9)


def test_shock_factors_by_hand(shared):
    cases = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]["shared_shock_factor"]["cases"]
    for case in cases:
        factor = shock_factor(aligned=case["aligned"], independent=case["independent"], naive=case["naive"])
        assert factor == pytest.approx(case["factor"], abs=1e-12)


@pytest.mark.parametrize("kind", ["heterogeneous", "equal_means", "near_01"])
def test_the_bracket_holds_the_truth_and_the_correction_beats_the_naive_oracle(kind):
    case, truth = problem(kind, 3)
    value = {name: DEBIASERS[name](case).value for name in ("naive", "cross_fit", "bias_corrected")}
    # Single draws of the bracket's ends scatter by about .01 at 600 items.
    assert value["cross_fit"] - 0.02 < truth < value["naive"] + 0.005
    assert abs(value["bias_corrected"] - truth) < 0.5 * (value["naive"] - truth) + 0.005


def test_independent_posteriors_are_worse_than_naive_where_difficulty_is_shared():
    case, truth = problem("heterogeneous", 4)
    assert DEBIASERS["beta_binomial"](case).value > DEBIASERS["naive"](case).value > truth


@pytest.mark.parametrize("name", sorted(set(DEBIASERS) - {"naive"}))
def test_with_one_draw_a_cell_only_the_naive_value_exists(name):
    case, _ = problem("heterogeneous", 5, n_generations=1, n_items=120)
    assert not math.isnan(DEBIASERS["naive"](case).value)
    with pytest.raises(ValueError, match="draw"):
        DEBIASERS[name](case)


def test_graded_scores_are_corrected_too():
    case, truth = problem("graded", 6)
    naive, corrected = DEBIASERS["naive"](case).value, DEBIASERS["bias_corrected"](case).value
    assert naive > truth + 0.01
    assert abs(corrected - truth) < 0.5 * (naive - truth)
    assert abs(DEBIASERS["gaussian"](case).value - truth) < 0.6 * (naive - truth)


def test_a_shared_shock_is_seen_and_sized():
    shocked, _ = problem("heterogeneous", 7, shared_shock=0.5)
    assert shocked.shock.z < -3
    assert 0 < shocked.shock.factor < 1
    calm, _ = problem("heterogeneous", 7)
    assert abs(calm.shock.z) < 4
    assert calm.shock.factor == 1.0


def test_made_up_order_of_draws_has_no_shock_test():
    case, _ = problem("heterogeneous", 8, n_items=150)
    made_up = OracleProblem(DrawTable(case.draws.scores, has_true_generations=False))
    assert math.isnan(made_up.shock.z)


def test_counts_expanded_with_right_answers_first_give_the_same_naive_value_and_no_luck():
    case, _ = problem("heterogeneous", 9, n_items=200)
    ordered = OracleProblem(DrawTable(-np.sort(-case.draws.scores, axis=2), has_true_generations=False))
    assert ordered.naive_items == pytest.approx(case.naive_items)
    cross_fit = DEBIASERS["cross_fit"](ordered).value
    assert abs(cross_fit - DEBIASERS["cross_fit"](case).value) < 0.03


def test_ragged_draws_are_cut_to_the_smallest_number_and_single_draws_are_no_option():
    scores = np.array([[[1.0, 0.0, 1.0], [1.0, 1.0, np.nan]], [[0.0, np.nan, np.nan], [0.0, 1.0, 1.0]]])
    draws = DrawTable(scores)
    assert draws.n_generations == 2
    assert draws.is_option.tolist() == [[True, True], [False, True]]
    assert draws.mean_quality[0].tolist() == [0.5, 1.0]
    assert np.isnan(draws.mean_quality[1, 0])


def test_an_item_without_an_option_is_refused():
    scores = np.array([[[1.0, 0.0]], [[np.nan, 1.0]]])
    with pytest.raises(ValueError, match="item 1 has no model with 2 draws"):
        DrawTable(scores)


def test_the_same_problem_gives_the_same_bytes():
    first, _ = problem("heterogeneous", 10, n_items=150)
    second, _ = problem("heterogeneous", 10, n_items=150)
    for name, estimate in DEBIASERS.items():
        assert estimate(first).value == estimate(second).value, name


def test_reference_figures_on_planted_draws(shared):
    import pandas as pd

    for world, oracle_limit in (("hetero", 0.0117), ("homog", 0.030), ("corr", 0.015)):
        folder = shared / "cases" / f"frontier_{world}"
        truth = json.loads((folder / "truth.json").read_text())
        results = pd.read_parquet(folder / "results.parquet").sort_values(["item_id", "model", "generation"])
        scores = results["score"].to_numpy(dtype=float).reshape(1000, 12, 5)
        case = OracleProblem(DrawTable(scores), n_refits=3)
        reference = truth["reference"]
        assert DEBIASERS["naive"](case).value == pytest.approx(reference["oracle_estimates"]["naive"], abs=1e-6)
        assert case.curve_items.mean(axis=0) == pytest.approx(reference["oracle_curve"], abs=1e-6)
        for name in ("extrapolation_half", "jackknife"):
            assert DEBIASERS[name](case).value == pytest.approx(reference["oracle_estimates"][name], abs=1e-4)
        assert abs(DEBIASERS["bias_corrected"](case).value - truth["oracle"]["true"]) < oracle_limit
        assert 0.85 < bracket_ratio(case) < 1.15


@pytest.mark.parametrize(
    ("bias", "factor", "expected"),
    [
        (0.05, 1.0, 0.75),  # 0.8 - 0.05
        (0.05, 0.5, 0.775),  # a shared shock leaves half the bias
        (0.3, 1.0, 0.7),  # below the cross-fitted end: that end
        (-0.1, 1.0, 0.8),  # above the naive end: that end
    ],
)
def test_a_correction_never_leaves_the_bracket(bias, factor, expected):
    def items(value):
        return np.full(4, value)

    simulation = BiasSimulation(
        items(0.75), items(bias), items(0.05), np.full((10, 4), 0.75), np.full(10, 0.8), np.full(10, 0.7)
    )
    planted = SimpleNamespace(
        naive_items=items(0.8), cross_fit_items=items(0.7), simulation=simulation, shock=SharedShock(0.0, factor)
    )
    assert corrected_value(planted) == pytest.approx(expected, abs=1e-12)
