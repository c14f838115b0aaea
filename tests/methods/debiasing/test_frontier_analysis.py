"""The debiased frontier: planted worlds within their tolerances, its band, and what is refused or unknown."""

import json
import math

import numpy as np
import pytest

from capeval_pipeline.methods.debiasing import DrawTable, OracleProblem
from capeval_pipeline.methods.debiasing.cost_axis import make_axis
from capeval_pipeline.methods.debiasing.costs import fit_cost_posterior
from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis
from capeval_pipeline.methods.debiasing.frontier_bracket import measure_bracket
from capeval_pipeline.methods.debiasing.oracle_analysis import analyse_oracle, local_exponents
from capeval_pipeline.methods.debiasing.planner import generations_needed
from capeval_pipeline.methods.debiasing.simulated_frontiers import frontier_spread
from capeval_pipeline.methods.debiasing.verdict import judge
from capeval_pipeline.methods.frontier import Frontier, exact_frontier, frontier_quality_at
from capeval_pipeline.methods.frontier.simultaneous import simultaneous_half_width
from capeval_pipeline.methods.synthetic import make_generation_world

PLANTED = {"hetero": (0.024, 0.06), "homog": (0.030, None), "corr": (0.035, 0.09)}  # sup error, error reduction


def planted(shared, world):
    import pandas as pd

    folder = shared / "cases" / f"frontier_{world}"
    truth = json.loads((folder / "truth.json").read_text())
    results = pd.read_parquet(folder / "results.parquet").sort_values(["item_id", "model", "generation"])
    items = pd.read_parquet(folder / "items.parquet").sort_values("item_id")
    shape = (1000, 12, 5)
    scores = results["score"].to_numpy(dtype=float).reshape(shape)
    cost = results["cost_usd"].to_numpy(dtype=float).reshape(shape)
    categories = items["category"].to_numpy(dtype=object) if "category" in items else None
    problem = OracleProblem(DrawTable(scores, cost))
    oracle = analyse_oracle(problem, categories=categories)
    models = sorted(results["model"].astype(str).unique())
    return truth, oracle, analyse_cost_axis(problem, cost, verdict=oracle.verdict), models


def curve_of(analysis, estimator, routing="pre_hoc"):
    return next(curve for curve in analysis.curves if (curve.estimator, curve.routing) == (estimator, routing))


def read(curve, budgets, name="quality"):
    values = getattr(curve, name)
    known = ~np.isnan(values)
    return np.interp(budgets, curve.cost[known], values[known], left=np.nan)


@pytest.mark.parametrize("world", sorted(PLANTED))
def test_planted_frontiers_are_found(shared, world):
    truth, oracle, analysis, models = planted(shared, world)
    sup_limit, reduction_limit = PLANTED[world]
    assert oracle.verdict.kind == "point"
    budgets, quality = np.array(truth["frontier"]["budgets"]), np.array(truth["frontier"]["quality"])
    headline = curve_of(analysis, "headline")
    assert np.nanmax(np.abs(read(headline, budgets) - quality)) < sup_limit
    assert (read(headline, budgets, "lower") <= quality).all()
    assert (read(headline, budgets, "upper") >= quality).all()
    assert (np.diff(headline.quality[~np.isnan(headline.quality)]) >= 0).all()
    if reduction_limit is not None:
        figures = next(row for row in analysis.headlines if (row.estimator, row.routing) == ("headline", "pre_hoc"))
        expected = truth["models"][models[analysis.best.index]]
        assert abs(figures.error_reduction.value - expected["error_reduction"]) < reduction_limit
        assert abs(figures.cost_saving.value - expected["cost_saving"]) < 0.03
        assert figures.error_reduction.lower < expected["error_reduction"] < figures.error_reduction.upper
    if world == "hetero":
        post = curve_of(analysis, "headline", "post_hoc_pay_all")
        budgets, quality = (np.array(truth["post_hoc_pay_all"][name]) for name in ("budgets", "quality"))
        assert np.nanmax(np.abs(read(post, budgets) - quality)) < 0.03
        for category, expected in truth["oracle"]["by_category"].items():
            estimate, naive = (oracle.estimates[category, name] for name in ("headline", "naive"))
            if oracle.n_items[category] < 100:
                assert math.isnan(estimate.value)
                assert estimate.lower < expected < estimate.upper
            else:
                assert abs(estimate.value - expected) < 0.04
                assert abs(estimate.value - expected) < max(0.5 * abs(naive.value - expected), 0.015)


def test_a_world_of_near_certain_cells_is_refused_but_keeps_its_bracket(shared):
    truth, oracle, analysis, _ = planted(shared, "ushape")
    assert oracle.verdict.kind == "bracket_only"
    assert "95.9 %" in oracle.verdict.reason
    headline = oracle.estimates["", "headline"]
    assert math.isnan(headline.value)
    assert headline.lower < truth["oracle"]["true"] < headline.upper
    curve = curve_of(analysis, "headline")
    assert np.isnan(curve.quality).all()
    budgets, quality = np.array(truth["frontier"]["budgets"]), np.array(truth["frontier"]["quality"])
    assert (read(curve, budgets, "lower") <= quality).all()
    assert (read(curve, budgets, "upper") >= quality).all()


def small_world(seed=0, n_generations=3, n_items=150):
    return make_generation_world(
        "heterogeneous", n_items=n_items, n_models=5, n_generations=n_generations, rng=np.random.default_rng(seed)
    )


def analysed(world, **arguments):
    problem = OracleProblem(DrawTable(world.scores, world.cost_usd), n_simulations=10, n_splits=4)
    oracle = analyse_oracle(problem)
    return problem, oracle, analyse_cost_axis(problem, world.cost_usd, verdict=oracle.verdict, **arguments)


def test_with_one_draw_a_cell_there_is_only_an_upper_bound():
    _, oracle, analysis = analysed(small_world(n_generations=1))
    assert oracle.verdict.kind == "upper_bound_only"
    estimators = {estimator for _, estimator in oracle.estimates}
    assert estimators == {"naive", "headline"}
    headline = oracle.estimates["", "headline"]
    assert math.isnan(headline.value) and math.isnan(headline.lower) and not math.isnan(headline.upper)
    assert {(curve.estimator, curve.routing) for curve in analysis.curves} == {
        ("naive", "pre_hoc"),
        ("headline", "pre_hoc"),
        ("naive", "constant"),
    }
    curve = curve_of(analysis, "headline")
    assert np.isnan(curve.quality).all() and np.isnan(curve.lower).all() and not np.isnan(curve.upper).any()


def test_curves_read_between_their_points_lie_near_the_exact_frontier():
    world = small_world(n_items=600)
    problem, _, analysis = analysed(world)
    exact = exact_frontier(problem.draws.mean_quality, world.cost_usd.mean(axis=2))
    naive = curve_of(analysis, "naive")
    assert (~np.isnan(naive.quality)).sum() >= 100
    budgets = np.linspace(exact.cost_usd[0], exact.cost_usd[-1], 5000)
    assert np.abs(read(naive, budgets) - frontier_quality_at(exact, budgets)).max() < 0.002


def test_nothing_stands_below_the_start_of_a_curve():
    world = small_world()
    problem, _, analysis = analysed(world)
    start = exact_frontier(problem.draws.mean_quality, world.cost_usd.mean(axis=2)).cost_usd[0]
    for curve in analysis.curves:
        if curve.routing == "pre_hoc" and curve.estimator in ("naive", "bias_corrected"):
            assert np.isnan(curve.quality[curve.cost < start * (1 - 1e-9)]).all()


def test_cells_and_items_without_cost_are_no_option_on_the_frontier():
    world = small_world()
    cost = world.cost_usd.copy()
    cost[0] = np.nan
    cost[1, 2] = np.nan
    problem = OracleProblem(DrawTable(world.scores, cost), n_simulations=10, n_splits=4)
    oracle = analyse_oracle(problem)
    analysis = analyse_cost_axis(problem, cost, verdict=oracle.verdict)
    assert analysis.n_items == 149
    quality = problem.draws.mean_quality[1:].copy()
    quality[0, 2] = np.nan
    expected = exact_frontier(quality, world.cost_usd[1:].mean(axis=2))
    naive = curve_of(analysis, "naive")
    assert naive.quality[-1] == pytest.approx(expected.quality[-1])
    assert naive.cost[~np.isnan(naive.quality)][0] == pytest.approx(expected.cost_usd[0])


@pytest.mark.parametrize("cost_value", [0.0, 0.25])
def test_constant_costs_give_a_frontier_of_one_cost(cost_value):
    world = small_world()
    cost = np.full_like(world.cost_usd, cost_value)
    problem = OracleProblem(DrawTable(world.scores, cost), n_simulations=10, n_splits=4)
    oracle = analyse_oracle(problem)
    analysis = analyse_cost_axis(problem, cost, verdict=oracle.verdict)
    assert analysis.is_cost_constant
    naive = curve_of(analysis, "naive")
    assert naive.cost == pytest.approx(cost_value, rel=1e-12)
    assert naive.quality[0] == pytest.approx(problem.naive_items.mean())


def test_the_latency_axis_charges_the_slowest_of_few_draws():
    world = small_world()
    problem, oracle, _ = analysed(world)
    analysis = analyse_cost_axis(problem, world.latency_s, verdict=oracle.verdict, statistic="p95")
    exact = exact_frontier(problem.draws.mean_quality, world.latency_s.max(axis=2))
    naive = curve_of(analysis, "naive")
    assert naive.cost[~np.isnan(naive.quality)][0] == pytest.approx(exact.cost_usd[0])
    assert naive.quality[-1] == pytest.approx(exact.quality[-1])


def test_cross_fitting_on_the_latency_axis_pays_for_the_slowest_of_all_draws():
    world = small_world()
    problem, oracle, _ = analysed(world)
    analysis = analyse_cost_axis(problem, world.latency_s, verdict=oracle.verdict, statistic="p95")
    naive, crossed = curve_of(analysis, "naive"), curve_of(analysis, "cross_fit")
    known = ~np.isnan(naive.quality) & ~np.isnan(crossed.quality)
    # Charged the mean of its half as it is, it starts at a fifth less.
    assert (crossed.quality[known] <= naive.quality[known] + 0.01).all()
    assert crossed.cost[~np.isnan(crossed.quality)][0] >= 0.99 * naive.cost[~np.isnan(naive.quality)][0]


def test_costs_too_low_for_any_choice_have_no_limits():
    world = small_world()
    problem, _, _ = analysed(world)
    _, axis = make_axis(problem.draws, world.cost_usd, "mean")
    bracket = measure_bracket(problem, axis, 40)
    start = axis.naive.cost_usd[0]
    limits = bracket.band(np.array([0.1 * start, 3.0 * start]), 50)
    for values in limits:
        assert np.isnan(values[0]) and not np.isnan(values[1])


def test_the_same_world_gives_the_same_bytes():
    first, second = (analysed(small_world())[2] for _ in range(2))
    for one, other in zip(first.curves, second.curves, strict=True):
        assert one.quality.tobytes() == other.quality.tobytes()
        assert one.lower.tobytes() == other.lower.tobytes()


def test_cost_posterior_shrinks_noise_and_keeps_means(rng):
    truth = np.exp(rng.normal(0, 0.5, (400, 1)) + rng.normal(0, 1, (1, 6)) + rng.normal(0, 0.15, (400, 6)))
    draws = truth[:, :, None] * np.exp(rng.normal(0, 0.3, (400, 6, 4)) - 0.045)
    posterior = fit_cost_posterior(draws, draws.mean(axis=2))
    drawn = posterior.draw(rng)
    assert np.mean((np.exp(posterior.log_mean) - truth) ** 2 / truth**2) < 0.8 * np.mean(
        (draws.mean(axis=2) - truth) ** 2 / truth**2
    )
    assert drawn.mean() / truth.mean() == pytest.approx(1.0, abs=0.03)
    # Four standard errors of 2,400 cells with a relative noise of .3/√4.
    assert (posterior.measure(truth, rng) / truth).mean() == pytest.approx(1.0, abs=4 * 0.15 / np.sqrt(2400))


def test_a_free_model_keeps_its_cost_of_zero(rng):
    draws = rng.lognormal(0, 0.3, (50, 3, 4))
    draws[:, 1] = 0.0
    posterior = fit_cost_posterior(draws, draws.mean(axis=2))
    assert (posterior.draw(rng)[:, 1] == 0).all()
    assert (posterior.measure(posterior.draw(rng), rng)[:, 1] == 0).all()


def test_one_price_has_the_half_width_of_a_normal_quantile(rng):
    values = rng.normal(0, 2, (2000, 1))
    width = simultaneous_half_width(values, n_multipliers=4000, rng=rng)
    assert width[0] == pytest.approx(1.96 * 2 / np.sqrt(2000), rel=0.1)


def test_local_exponent_of_a_power_law():
    g = np.array([1, 2, 4, 8])
    assert local_exponents(g, 0.3 * g**-0.7) == pytest.approx([0.7] * 4)
    assert math.isnan(local_exponents(g, np.array([0.1, 0.0, 0.1, 0.1]))[0])


def test_generations_needed_asks_for_one_and_a_half_times_the_forecast():
    bias = {g: 0.1 / g for g in (2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)}
    # 1.5 · .1/g ≤ .01 from g = 15.
    assert generations_needed(bias, 0.01) == 15
    assert generations_needed(bias, 0.001) is None


DIAGNOSTICS = {
    "n_items": 500,
    "n_generations": 5,
    "ceiling_share": 0.5,
    "bracket_ratio": 1.0,
    "shock_z": 0.0,
    "shock_factor": 1.0,
    "graded_disagreement": math.nan,
    "model_failure": "",
}


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({}, "point", ""),
        ({"n_generations": 1}, "upper_bound_only", "one draw"),
        ({"n_items": 99}, "bracket_only", "99 items"),
        ({"ceiling_share": 0.95}, "bracket_only", "95.0 %"),
        ({"bracket_ratio": 1.2}, "bracket_only", "1.20"),
        ({"bracket_ratio": math.nan}, "bracket_only", "no width"),
        ({"shock_z": -5.0, "shock_factor": math.nan}, "bracket_only", "z = -5.0"),
        ({"shock_z": math.nan, "shock_factor": math.nan}, "point", ""),
        ({"graded_disagreement": 0.03}, "bracket_only", "0.030"),
        ({"model_failure": "topic model: still rose"}, "bracket_only", "still rose"),
    ],
)
def test_verdict_names_the_number_and_the_threshold(change, kind, words):
    verdict = judge(**{**DIAGNOSTICS, **change})
    assert verdict.kind == kind
    assert words in verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shock"), [("heterogeneous", 0.0), ("equal_means", 0.0), ("heterogeneous", 0.5)])
def test_intervals_cover_at_five_draws(kind, shock):
    covered, band_covered, n_seeds = 0, 0, 20
    for seed in range(n_seeds):
        world = make_generation_world(
            kind,
            n_items=600,
            n_models=10,
            n_generations=5,
            rng=np.random.default_rng([71, seed]),
            shared_shock=shock,
        )
        problem = OracleProblem(DrawTable(world.scores, world.cost_usd), seed=seed)
        oracle = analyse_oracle(problem)
        truth = world.success_probability.max(axis=1).mean()
        estimate = oracle.estimates["", "bias_corrected"]
        covered += estimate.lower_fixed <= truth <= estimate.upper_fixed
        analysis = analyse_cost_axis(problem, world.cost_usd, verdict=oracle.verdict)
        true_frontier = exact_frontier(world.success_probability, world.expected_cost_usd)
        curve = curve_of(analysis, "headline")
        start, end = true_frontier.cost_usd[0], true_frontier.cost_usd[-1]
        budgets = np.geomspace(1.15 * start, max(end, 10 * start), 24)
        quality = frontier_quality_at(true_frontier, budgets)
        inside = (read(curve, budgets, "lower") <= quality) & (quality <= read(curve, budgets, "upper"))
        band_covered += bool(inside.all())
    assert covered / n_seeds >= 0.80
    assert band_covered / n_seeds >= 0.90


def test_a_world_that_cannot_afford_a_budget_has_no_quality_there_rather_than_0():
    starts_at_1 = [Frontier(np.array([1.0, 2.0]), np.array([level, 0.9])) for level in (0.5, 0.7)]
    starts_at_2 = [Frontier(np.array([2.0, 3.0]), np.array([0.9, 0.9])) for _ in range(3)]
    spread = frontier_spread([*starts_at_1, *starts_at_2], np.array([1.0, 2.0]))
    assert np.isnan(spread[0])  # two of five worlds
    assert spread[1] == pytest.approx(0.0, abs=1e-12)
    assert frontier_spread([*starts_at_1, *starts_at_2[:2]], np.array([1.0])) == pytest.approx(
        [0.1 * math.sqrt(2)]  # of 0.5 and 0.7, n - 1 in the divisor
    )
