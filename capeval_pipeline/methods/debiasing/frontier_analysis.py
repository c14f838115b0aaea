"""The debiased frontier on one cost axis: curves, band and the two headline figures.

Whatever removes the luck from the oracle of score − t·cost removes it from the frontier, F(B) = min_t V(t) + tB.
`bias_corrected` is done at fixed cost budgets instead, which is as accurate and better behaved at the left end, where
V's bias is a bias of costs.
"""

import math

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cost_axis import (
    CostAxis,
    CostStatistic,
    cell_values,
    column_means,
    cost_budgets,
    make_axis,
)
from capeval_pipeline.methods.debiasing.costs import CostPosterior, fit_cost_posterior
from capeval_pipeline.methods.debiasing.estimates import standard_error
from capeval_pipeline.methods.debiasing.frontier_bracket import measure_bracket
from capeval_pipeline.methods.debiasing.frontier_records import (
    CostAxisAnalysis,
    Figure,
    FrontierCurve,
    plain_curve,
    read_headline,
    rising,
)
from capeval_pipeline.methods.debiasing.model_based import model_standard_error, shock_factor_in_use
from capeval_pipeline.methods.debiasing.post_hoc import draws_allowed_at, post_hoc_curves
from capeval_pipeline.methods.debiasing.posterior import WorldPosterior
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.debiasing.simulated_frontiers import SimulatedFrontiers
from capeval_pipeline.methods.debiasing.verdict import Verdict
from capeval_pipeline.methods.frontier import (
    BestModel,
    best_single_model,
    constant_mixture,
    frontier_quality_at,
)
from capeval_pipeline.methods.frontier.single_models import FEW_ITEMS, held_out_best

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def analyse_cost_axis(
    problem: OracleProblem,
    cost: FloatArray,
    *,
    verdict: Verdict,
    statistic: CostStatistic = "mean",
    n_prices: int = 64,
    n_multipliers: int = 300,
) -> CostAxisAnalysis:
    """Frontiers of one cost axis by all estimators that have rows there.

    cost : (n_items, n_models, n_generations) of every draw, NaN where unknown
    statistic : a cell's cost is the mean of its draws or their 95 % quantile (with few draws, their maximum)
    n_prices : values of t, 0 and then geometric over the range of the hull slopes

    Cells without a cost are no option here, items without any option are left out. Raises ValueError where no item
    is left.
    """
    kept, axis = make_axis(problem.draws, cost, statistic)
    best, best_quality, best_cost = _best(axis, cost[kept], statistic)
    model_quality, model_cost = (column_means(values) for values in cell_values(axis.draws, cost[kept], statistic))
    constant = constant_mixture(model_quality, model_cost)
    held_out = math.nan
    if kept.sum() < FEW_ITEMS:
        qualities, _ = cell_values(axis.draws, cost[kept], statistic)
        held_out = held_out_best(qualities, rng=np.random.default_rng([problem.seed, 24]))
    has_model = verdict.kind == "point" or (axis.draws.n_generations > 1 and _has_posterior(problem))
    posterior = problem.posterior.on_items(kept, axis.draws) if has_model else None
    costs = fit_cost_posterior(axis.draws.equal_cost, axis.cell_cost) if has_model else None
    curves = _pre_hoc(problem, axis, posterior, costs, verdict, best.cost_usd, n_prices, n_multipliers)
    if axis.draws.n_generations > 1:
        errors = math.nan, math.nan
        if has_model:
            errors = model_standard_error(problem), standard_error(problem.simulation.true_items)
        curves += post_hoc_curves(problem, axis, posterior, costs, verdict, best.cost_usd, errors)
    curves.append(plain_curve("naive", "constant", constant.cost_usd, constant.quality))
    matched = float(frontier_quality_at(constant, best.cost_usd))
    draws_allowed = draws_allowed_at(axis.draws.n_generations)
    headlines = [
        read_headline(curve, best, draws_allowed[-1] if curve.routing.startswith("post_hoc") else 1, held_out)
        for curve in curves
    ]
    is_constant = bool(np.nanmax(axis.cell_cost) == np.nanmin(axis.cell_cost))
    return CostAxisAnalysis(
        curves=curves,
        headlines=headlines,
        best=best,
        best_quality=best_quality,
        best_cost=best_cost,
        best_quality_held_out=held_out,
        constant_quality_at_matched_cost=matched,
        n_items=int(kept.sum()),
        n_models=int((~np.isnan(model_cost)).sum()),
        model_quality=model_quality,
        model_cost=model_cost,
        is_cost_constant=is_constant,
    )


def _best(axis: CostAxis, cost: FloatArray, statistic: CostStatistic) -> tuple[BestModel, Figure, Figure]:
    quality, cell_cost = cell_values(axis.draws, cost, statistic)
    best = best_single_model(column_means(quality), column_means(cell_cost))
    own_quality, own_cost = (values[~np.isnan(values)] for values in (quality[:, best.index], cell_cost[:, best.index]))
    errors = 1.96 * standard_error(own_quality), 1.96 * standard_error(own_cost)
    return (
        best,
        Figure(best.quality, best.quality - errors[0], best.quality + errors[0]),
        Figure(best.cost_usd, best.cost_usd - errors[1], best.cost_usd + errors[1]),
    )


def _has_posterior(problem: OracleProblem) -> bool:
    return "posterior" in problem.__dict__


def _pre_hoc(
    problem: OracleProblem,
    axis: CostAxis,
    posterior: WorldPosterior | None,
    costs: CostPosterior | None,
    verdict: Verdict,
    matched_cost: float,
    n_prices: int,
    n_multipliers: int,
) -> list[FrontierCurve]:
    bracket = measure_bracket(problem, axis, n_prices)
    worlds = None
    if posterior is not None and costs is not None:
        worlds = SimulatedFrontiers.simulate(posterior, costs, problem.n_simulations)
    starts = [float(axis.naive.cost_usd[0])]
    if bracket.crossed is not None:
        starts.append(bracket.crossed.start_cost)
    if worlds is not None:
        starts.append(float(np.mean([world.cost_usd[0] for world in worlds.true])))
    end = max([float(axis.naive.cost_usd[-1]), *([w.cost_usd[-1] for w in worlds.true] if worlds else [])])
    budgets = cost_budgets(starts, end, matched_cost)
    naive = frontier_quality_at(axis.naive, budgets)
    curves = [plain_curve("naive", "pre_hoc", budgets, naive)]
    crossed_quality = bracket.crossed_quality(budgets)
    if bracket.crossed is not None:
        curves.append(plain_curve("cross_fit", "pre_hoc", budgets, crossed_quality))
    corrected = np.full(len(budgets), np.nan)
    if worlds is not None:
        curves.append(plain_curve("pgm", "pre_hoc", budgets, worlds.mean_true(budgets)))
        bias = shock_factor_in_use(problem) * np.maximum(worlds.naive_bias(budgets), 0.0)
        corrected = rising(np.fmin(np.fmax(naive - bias, crossed_quality), naive))
        corrected = np.where(np.isnan(bias), np.nan, corrected)
        curves.append(plain_curve("bias_corrected", "pre_hoc", budgets, corrected))
    quality = corrected if verdict.kind == "point" else np.full(len(budgets), np.nan)
    curves.append(FrontierCurve("headline", "pre_hoc", budgets, quality, *bracket.band(budgets, n_multipliers)))
    return curves
