"""The exact frontier: hand-worked cases, the linear program it solves, and its duality."""

import json

import numpy as np
import pytest
from scipy.optimize import linprog

from capeval_pipeline.methods.frontier import (
    Frontier,
    best_single_model,
    constant_mixture,
    cost_until_success,
    exact_frontier,
    exact_frontier_reference,
    frontier_cost_at,
    frontier_quality_at,
    frontier_slopes,
    quality_by_conjugation,
    retry_options,
    success_of_k_draws,
    support_function,
)

# Three prompts, a cheap and a dear model. Cheapest everywhere: cost 3/3, quality 1.6/3. Steps: +.6 for +2 (slope .3),
# +.1 for +1 (slope .1), none for the third.
QUALITY = np.array([[0.2, 0.8], [0.5, 0.6], [0.9, 0.4]])
COST = np.array([[1.0, 3.0], [1.0, 2.0], [1.0, 2.0]])


def random_instance(rng, *, n_items=7, n_models=5, grid=None):
    quality, cost = rng.random((n_items, n_models)), rng.lognormal(0, 1.5, (n_items, n_models))
    if grid:
        quality, cost = np.round(quality * grid) / grid, np.floor(cost * grid) / grid  # ties and costs of zero
    quality[rng.random(quality.shape) < 0.15] = np.nan
    quality[np.isnan(quality).all(axis=1), 0] = 0.5
    return quality, cost


def linear_program(quality, cost, budget):
    n_items, n_models = quality.shape
    is_option = ~np.isnan(quality).ravel()
    one_model_an_item = np.repeat(np.eye(n_items), n_models, axis=1)[:, is_option]
    found = linprog(
        -quality.ravel()[is_option] / n_items,
        A_ub=cost.ravel()[is_option][None, :] / n_items,
        b_ub=[budget],
        A_eq=one_model_an_item,
        b_eq=np.ones(n_items),
        method="highs",
    )
    return -found.fun if found.status == 0 else np.nan


def test_three_prompts_and_two_models_by_hand():
    frontier = exact_frontier(QUALITY, COST)
    assert frontier.cost_usd == pytest.approx([1, 5 / 3, 2], abs=1e-12)
    assert frontier.quality == pytest.approx([1.6 / 3, 2.2 / 3, 2.3 / 3], abs=1e-12)
    at = frontier_quality_at(frontier, [0.9, 1.0, 4 / 3, 5.0])
    assert np.isnan(at[0])
    assert at[1:] == pytest.approx([1.6 / 3, 1.9 / 3, 2.3 / 3], abs=1e-12)


def test_least_cost_of_a_quality_is_the_inverse_of_the_frontier():
    frontier = exact_frontier(QUALITY, COST)
    # .6 lies (.6 - 1.6/3)/(.6/3) = 1/3 along the first piece, which is 2/3 wide.
    assert frontier_cost_at(frontier, [0.6]) == pytest.approx([1 + 2 / 9], abs=1e-12)
    assert frontier_cost_at(frontier, [0.1]) == pytest.approx([1.0])
    assert np.isnan(frontier_cost_at(frontier, [0.77])[0])


def test_on_a_flat_piece_the_least_cost_is_its_left_end():
    flat = Frontier(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.6]))
    assert frontier_cost_at(flat, [0.6]).tolist() == [2.0]


@pytest.mark.parametrize("grid", [None, 4])
def test_frontier_equals_the_linear_program(grid):
    rng = np.random.default_rng(11)
    for _ in range(25):
        quality, cost = random_instance(rng, grid=grid)
        frontier = exact_frontier(quality, cost)
        start, end = frontier.cost_usd[0], frontier.cost_usd[-1]
        for budget in np.linspace(start, end * 1.1 + 0.1, 7):
            expected = linear_program(quality, cost, budget + 1e-12)
            assert frontier_quality_at(frontier, budget) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("grid", [None, 3])
def test_fast_frontier_equals_the_plain_one(grid):
    rng = np.random.default_rng(12)
    for _ in range(100):
        quality, cost = random_instance(rng, grid=grid)
        fast, plain = exact_frontier(quality, cost), exact_frontier_reference(quality, cost)
        budgets = np.linspace(plain.cost_usd[0], plain.cost_usd[-1], 20)
        assert frontier_quality_at(fast, budgets) == pytest.approx(frontier_quality_at(plain, budgets), abs=1e-12)


def test_single_precision_gives_the_same_frontier(rng):
    quality, cost = random_instance(rng, n_items=200)
    single = exact_frontier(quality.astype(np.float32), cost.astype(np.float32))
    double = exact_frontier(quality, cost)
    budgets = np.linspace(double.cost_usd[0] * 1.001, double.cost_usd[-1], 30)
    assert frontier_quality_at(single, budgets) == pytest.approx(frontier_quality_at(double, budgets), abs=1e-5)


def test_frontier_rises_and_bends_downwards(rng):
    frontier = exact_frontier(*random_instance(rng, n_items=300))
    assert (np.diff(frontier.quality) > 0).all()
    assert (np.diff(frontier_slopes(frontier)) <= 1e-9 * frontier_slopes(frontier)[:-1]).all()


def test_frontier_is_the_conjugate_of_the_support_function(rng):
    quality, cost = random_instance(rng, n_items=60)
    frontier = exact_frontier(quality, cost)
    slopes = np.concatenate((frontier_slopes(frontier), [0.0]))
    budgets = np.linspace(frontier.cost_usd[0], frontier.cost_usd[-1], 25)
    conjugate = quality_by_conjugation(support_function(quality, cost, slopes), slopes, budgets)
    assert conjugate == pytest.approx(frontier_quality_at(frontier, budgets), abs=1e-9)


def test_support_at_price_zero_is_the_oracle():
    assert support_function(QUALITY, COST, [0.0, 0.2, 1.0]) == pytest.approx([2.3 / 3, 0.4, -1.4 / 3], abs=1e-12)


@pytest.mark.parametrize(
    ("quality", "cost", "message"),
    [
        ([[0.1, 0.2]], [[1.0, 2.0], [1.0, 2.0]], "must be"),
        ([[np.nan, np.nan]], [[1.0, 2.0]], "item 0 has no model"),
        ([[0.1, 0.2]], [[1.0, -2.0]], "0 or more"),
        ([[0.1, 0.2]], [[1.0, np.inf]], "finite"),
        (np.empty((0, 2)), np.empty((0, 2)), "no item"),
    ],
)
def test_what_cannot_have_a_frontier_is_refused(quality, cost, message):
    with pytest.raises(ValueError, match=message):
        exact_frontier(quality, cost)


def test_best_single_model_is_the_cheaper_of_two_equals():
    best = best_single_model([0.6, 0.6, 0.1], [3.0, 2.0, 1.0])
    assert (best.index, best.quality, best.cost_usd) == (1, 0.6, 2.0)


def test_constant_mixture_interpolates_between_models():
    hull = constant_mixture([0.2, 0.3, 0.9], [1.0, 2.0, 3.0])
    assert frontier_quality_at(hull, 2.0) == pytest.approx(0.55)  # above the middle model's .3


def test_hand_worked_cases(shared):
    cases = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]
    for name in ("three_prompts_two_models", "hull_skips_what_a_mixture_beats", "no_model_right"):
        frontier = exact_frontier(cases[name]["quality"], cases[name]["cost_usd"])
        assert frontier.cost_usd == pytest.approx([p["cost_usd"] for p in cases[name]["frontier"]], abs=1e-9)
        assert frontier.quality == pytest.approx([p["quality"] for p in cases[name]["frontier"]], abs=1e-9)
    tie = exact_frontier(cases["tie_goes_to_the_cheapest"]["quality"], cases["tie_goes_to_the_cheapest"]["cost_usd"])
    assert (tie.cost_usd.tolist(), tie.quality.tolist()) == ([1.0], [0.5])
    three = cases["three_prompts_two_models"]
    frontier, headline = exact_frontier(three["quality"], three["cost_usd"]), three["headline"]
    means = np.mean(three["quality"], axis=0), np.mean(three["cost_usd"], axis=0)
    best = best_single_model(*means)
    assert three["models"][best.index] == headline["best_model_id"]
    assert best.cost_usd == pytest.approx(headline["best_cost_usd"], abs=1e-9)
    matched = float(frontier_quality_at(frontier, best.cost_usd))
    assert (matched - best.quality) / (1 - best.quality) == pytest.approx(
        headline["matched_cost_error_reduction"], abs=1e-9
    )
    cost = float(frontier_cost_at(frontier, best.quality))
    assert cost == pytest.approx(headline["cost_usd_at_matched_quality"], abs=1e-9)
    assert 1 - cost / best.cost_usd == pytest.approx(headline["matched_quality_cost_saving"], abs=1e-9)
    mixture = three["constant_mixture_at_cost"][0]
    assert frontier_quality_at(constant_mixture(*means), mixture["cost_usd"]) == pytest.approx(
        mixture["quality"], abs=1e-9
    )


def test_hand_worked_retries(shared):
    case = json.loads((shared / "cases" / "frontier_small.json").read_text())["cases"]["draws_of_one_model"]
    for row in case["unbiased_success_of_k"]:
        assert success_of_k_draws(row["successes"], row["n_generations"], row["k"]) == pytest.approx(row["value"])
    pay = case["pay_all"]
    by_k = [np.array([[1 - (1 - pay["p"]) ** k]]) for k in pay["k_allowed"]]
    frontier = exact_frontier(*retry_options(by_k, np.array([[pay["cost_usd"]]]), pay["k_allowed"], pays_all=True))
    assert frontier.cost_usd == pytest.approx([point["cost_usd"] for point in pay["frontier"]])
    assert frontier.quality == pytest.approx([point["quality"] for point in pay["frontier"]])
    stop = case["stop_at_success"]
    assert cost_until_success(stop["p"], stop["cost_usd"], stop["k"]) == pytest.approx(stop["expected_cost_usd"])


def test_more_draws_than_there_are_have_no_value():
    assert np.isnan(success_of_k_draws(2, 3, 4))
    assert success_of_k_draws(3, 3, 2) == 1.0
    assert success_of_k_draws(0, 3, 2) == 0.0
