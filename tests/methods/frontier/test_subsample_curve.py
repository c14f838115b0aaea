"""Closed forms of the naive oracle against enumeration of every subset of draws."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from capeval_pipeline.methods.frontier import expected_naive_oracle, subsample_cost_curve, subsample_oracle_curve


def enumerated(successes, n_generations, n_taken, costs):
    """Mean best share and mean cost of the cheapest best model, over all subsets taken independently per model."""
    draws = [[1] * right + [0] * (n_generations - right) for right in successes]
    subsets = [list(itertools.combinations(model, n_taken)) for model in draws]
    best_sum = cost_sum = 0.0
    total = 0
    for choice in itertools.product(*subsets):
        right = [sum(subset) for subset in choice]
        best_sum += max(right) / n_taken
        cost_sum += min(cost for cost, count in zip(costs, right, strict=True) if count == max(right))
        total += 1
    return best_sum / total, cost_sum / total


def test_curves_equal_enumeration(rng):
    n_generations = 4
    successes = rng.integers(0, n_generations + 1, size=(12, 3))
    costs = rng.permuted(np.tile([1.0, 2.0, 5.0], (12, 1)), axis=1)
    quality = subsample_oracle_curve(successes, n_generations)
    cost = subsample_cost_curve(successes, n_generations, costs)
    for item, g in itertools.product(range(12), range(1, n_generations + 1)):
        expected = enumerated(successes[item], n_generations, g, costs[item])
        assert quality[item, g - 1] == pytest.approx(expected[0], abs=1e-10)
        assert cost[item, g - 1] == pytest.approx(expected[1], abs=1e-10)


def test_curve_falls_and_ends_at_the_naive_oracle(rng):
    successes = rng.integers(0, 9, size=(200, 6))
    curve = subsample_oracle_curve(successes, 8)
    assert (np.diff(curve, axis=1) <= 1e-12).all()
    assert curve[:, -1] == pytest.approx(successes.max(axis=1) / 8, abs=1e-12)


def test_missing_cells_are_no_option():
    assert subsample_oracle_curve([[1, np.nan, 1]], 2) == pytest.approx(subsample_oracle_curve([[1, 1]], 2))
    assert np.isnan(subsample_oracle_curve([[-1, -1]], 2)).all()


def test_graded_scores_have_no_closed_form():
    with pytest.raises(ValueError, match="whole numbers"):
        subsample_oracle_curve([[0.5, 1.0]], 2)
    with pytest.raises(ValueError, match="3 right of 2"):
        subsample_oracle_curve([[3, 1]], 2)


def test_expected_naive_equals_the_sum_over_all_counts(rng):
    probability = rng.random((5, 3))
    probability[0, 1], probability[1, 0], probability[2, 2] = 0.0, 1.0, np.nan
    for n_generations in (1, 2, 6):
        expected = 0.0
        for row in probability:
            p = row[~np.isnan(row)]
            at_most = np.prod(binom.cdf(np.arange(n_generations + 1)[None, :], n_generations, p[:, None]), axis=0)
            mass = np.diff(np.concatenate(([0.0], at_most)))
            expected += float(mass @ np.arange(n_generations + 1)) / n_generations / len(probability)
        assert expected_naive_oracle(probability, n_generations) == pytest.approx(expected, abs=1e-12)


def test_with_equal_means_the_bias_is_that_of_normal_maxima():
    # e_21 = E max of 21 standard normals; at G = 4000 the binomial is nearly normal.
    p, n_generations, normal_maximum = 0.5, 4000, 1.8891679149213108
    bias = expected_naive_oracle(np.full(21, p), n_generations) - p
    assert bias * math.sqrt(n_generations) / math.sqrt(p * (1 - p)) == pytest.approx(normal_maximum, rel=2e-3)


def test_decay_is_half_for_equal_means_and_nearly_one_for_separated_ones(rng):
    equal = np.full((1, 21), 0.5)
    bias = [expected_naive_oracle(equal, g) - 0.5 for g in (50, 400)]
    assert -math.log(bias[1] / bias[0]) / math.log(8) == pytest.approx(0.5, abs=0.05)


def test_hand_worked_cases(shared):
    cases = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]
    for case in cases["subsample_curve_by_enumeration"]["cases"]:
        curve = subsample_oracle_curve([case["successes"]], case["n_generations"])[0]
        assert curve == pytest.approx(case["curve"], abs=1e-9)
    case = cases["cost_of_the_subsampled_choice"]
    cost = subsample_cost_curve([case["successes"]], case["n_generations"], case["cost_usd"])[0]
    assert cost == pytest.approx(case["cost_by_g"], abs=1e-9)
    for case in cases["expected_naive_oracle"]["cases"]:
        assert expected_naive_oracle(case["p"], case["n_generations"]) == pytest.approx(case["value"], abs=1e-9)
