"""marts.budget_choices: what each cost budget buys."""

import numpy as np
import pytest


def curve(estimator, routing, points):
    return [
        {"cost_axis": "usd", "estimator": estimator, "routing": routing, "point": n}
        | dict(zip(("cost_usd", "quality", "lower", "upper"), point, strict=True))
        for n, point in enumerate(points)
    ]


def in_frontier(model, quality, cost, is_in=True):
    row = {"cost_axis": "usd", "model_id": model, "is_in_frontier": is_in}
    return row | {"quality": quality, "cost_usd": cost}


def choices(tables, points, models):
    tables.fill("estimates.frontier_points", points)
    tables.fill("estimates.frontier_models", [in_frontier(*model) for model in models])
    rows = tables.run("marts.budget_choices")
    assert tables.broken_claims("marts.budget_choices") == []
    return rows


MODELS = [("small", 0.5, 1.0), ("waste", 0.25, 10.0), ("big", 0.75, 100.0)]
HEADLINE = curve("headline", "pre_hoc", [(0.5, 0.4, 0.3, 0.5), (50.0, 0.8, 0.7, 0.9), (60.0, 0.9, 0.8, 1.0)])


def test_cost_budgets_run_geometrically_from_the_cheapest_model_to_the_dearest(tables, pick):
    budgets = pick(choices(tables, HEADLINE, MODELS), "cost_budget")
    assert budgets == pytest.approx(np.geomspace(1.0, 100.0, 24), rel=1e-12)
    assert (budgets[0], budgets[-1]) == (1.0, 100.0)


def test_the_best_single_model_is_the_best_that_can_be_paid(tables, pick):
    rows = choices(tables, HEADLINE, MODELS)
    assert set(pick(rows[:-1], "best_single_model_id", "best_single_quality")) == {("small", 0.5)}
    assert rows[-1]["best_single_model_id"] == "big"


def test_between_points_a_frontier_is_linear_and_after_the_last_flat(tables, pick):
    rows = choices(tables, HEADLINE, MODELS)
    budgets = np.array(pick(rows, "cost_budget"))
    for column, values in (("mixture_quality", (0.4, 0.8, 0.9)), ("mixture_lower", (0.3, 0.7, 0.8))):
        assert pick(rows, column) == pytest.approx(np.interp(budgets, [0.5, 50.0, 60.0], values), rel=1e-12)


def test_below_its_first_point_a_frontier_has_no_value(tables, pick):
    rows = choices(tables, curve("naive", "pre_hoc", [(2.0, 0.6, None, None)]), MODELS)
    assert [value is None for value in pick(rows, "naive_quality")] == [
        budget < 2.0 for budget in pick(rows, "cost_budget")
    ]


def test_a_refused_figure_stays_absent_and_its_bracket_stays(tables, pick):
    rows = choices(tables, curve("headline", "pre_hoc", [(0.5, None, 0.25, 0.75)]), MODELS)
    assert set(pick(rows, "mixture_quality", "mixture_lower", "mixture_upper")) == {(None, 0.25, 0.75)}


def test_models_that_cost_the_same_leave_one_cost_budget(tables, pick):
    points = curve("naive", "constant", [(1.0, 0.5, None, None)])
    rows = choices(tables, points, [("a", 0.5, 1.0), ("b", 0.25, 1.0)])
    assert pick(rows, "cost_budget", "best_single_model_id", "constant_quality") == [(1.0, "a", 0.5)]


def test_a_free_model_makes_even_steps(tables, pick):
    rows = choices(tables, HEADLINE, [("free", 0.25, 0.0), ("big", 0.75, 23.0)])
    assert pick(rows, "cost_budget") == pytest.approx(np.arange(24.0))


def test_a_model_the_frontier_leaves_out_is_no_choice(tables, pick):
    tables.fill("estimates.frontier_points", HEADLINE)
    left_out = in_frontier("priceless", 0.9, None, is_in=False)
    tables.fill("estimates.frontier_models", [left_out, *(in_frontier(*model) for model in MODELS)])
    rows = tables.run("marts.budget_choices")
    assert {row["best_single_model_id"] for row in rows} == {"small", "big"}
