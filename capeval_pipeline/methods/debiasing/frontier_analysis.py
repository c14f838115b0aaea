"""The debiased frontier on one cost axis: curves, band and the two headline figures.

Whatever removes the luck from the oracle of score − t·cost removes it from the frontier, F(B) = min_t V(t) + tB.
`bias_corrected` is done at fixed cost budgets instead, which is as accurate and better behaved at the left end, where
V's bias is a bias of costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.band import (
    fixed_items_half_width,
    naive_draw_variance,
    simultaneous_half_width,
)
from capeval_pipeline.methods.debiasing.costs import CostPosterior, fit_cost_posterior
from capeval_pipeline.methods.debiasing.cross_fit import CrossFitSupport, halves_support
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.estimates import standard_error
from capeval_pipeline.methods.debiasing.frontier_records import (
    CostAxisAnalysis,
    Figure,
    FrontierCurve,
    plain_curve,
    read_headline,
    rising,
)
from capeval_pipeline.methods.debiasing.model_based import shock_factor_in_use
from capeval_pipeline.methods.debiasing.posterior import WorldPosterior
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.debiasing.verdict import Verdict
from capeval_pipeline.methods.frontier import (
    DRAWS_ALLOWED,
    BestModel,
    Frontier,
    best_of_k_draws,
    best_single_model,
    constant_mixture,
    exact_frontier,
    frontier_quality_at,
    frontier_slopes,
    quality_by_conjugation,
    retry_options,
)

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CostStatistic = Literal["mean", "p95"]
_POINTS_A_START = 100


@dataclass(frozen=True, eq=False)
class _Axis:
    """The draws that have a cost on this axis, and the figures of their cells."""

    draws: DrawTable
    cell_quality: FloatArray
    cell_cost: FloatArray
    naive: Frontier


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
    kept, axis = _axis(problem.draws, cost, statistic)
    best, best_quality, best_cost = _best(axis, cost[kept], statistic)
    constant = constant_mixture(*_model_means(axis.draws, cost[kept], statistic))
    has_model = verdict.kind == "point" or (axis.draws.n_generations > 1 and _has_posterior(problem))
    posterior = _restricted(problem.posterior, kept, axis.draws) if has_model else None
    costs = fit_cost_posterior(axis.draws.equal_cost, axis.cell_cost) if has_model else None
    curves = _pre_hoc(problem, axis, posterior, costs, verdict, best.cost_usd, n_prices, n_multipliers)
    if axis.draws.n_generations > 1:
        curves += _post_hoc(problem, axis, posterior, costs, verdict, best.cost_usd)
    curves.append(plain_curve("naive", "constant", constant.cost_usd, constant.quality))
    matched = float(frontier_quality_at(constant, best.cost_usd))
    draws_allowed = _draws_allowed(axis.draws.n_generations)
    headlines = [
        read_headline(curve, best, draws_allowed[-1] if curve.routing.startswith("post_hoc") else 1) for curve in curves
    ]
    is_constant = bool(np.nanmax(axis.cell_cost) == np.nanmin(axis.cell_cost))
    return CostAxisAnalysis(curves, headlines, best, best_quality, best_cost, matched, int(kept.sum()), is_constant)


def _axis(draws: DrawTable, cost: FloatArray, statistic: CostStatistic) -> tuple[BoolArray, _Axis]:
    has_cost: BoolArray = np.asarray((~np.isnan(cost) & ~np.isnan(draws.scores)).any(axis=2), dtype=np.bool_)
    kept: BoolArray = np.asarray((has_cost & draws.is_option).any(axis=1), dtype=np.bool_)
    if not kept.any():
        raise ValueError("no item has a model with both a score and a cost")
    scores = np.where(has_cost[:, :, None], draws.scores, np.nan)[kept]
    table = DrawTable(scores, cost[kept], draws.has_true_generations)
    cell_cost = _cell_cost(table.equal_cost, statistic)
    return kept, _Axis(table, table.mean_quality, cell_cost, exact_frontier(table.mean_quality, cell_cost))


def _cell_cost(cost_draws: FloatArray, statistic: CostStatistic) -> FloatArray:
    """Figure of a cell over its draws (last axis), unknown draws left out; NaN where none is known."""
    known = ~np.isnan(cost_draws)
    if statistic == "mean":
        total = np.where(known, cost_draws, 0.0).sum(axis=-1)
        return np.asarray(np.where(known.any(axis=-1), total / np.maximum(known.sum(axis=-1), 1), np.nan))
    # The smallest draw that at least 95 % of the known draws do not exceed.
    ordered = np.sort(np.where(known, cost_draws, np.inf), axis=-1)
    rank = np.ceil(0.95 * known.sum(axis=-1)).astype(np.int64) - 1
    value = np.take_along_axis(ordered, np.maximum(rank, 0)[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(known.any(axis=-1), value, np.nan))


def _model_means(draws: DrawTable, cost: FloatArray, statistic: CostStatistic) -> tuple[FloatArray, FloatArray]:
    """Mean quality and mean cost of each model over its items, from all its draws."""
    quality = np.where(draws.n_draws > 0, draws.total_right / np.maximum(draws.n_draws, 1), np.nan)
    cell_cost = np.where(draws.n_draws > 0, _cell_cost(cost, statistic), np.nan)
    return _column_means(quality), _column_means(cell_cost)


def _column_means(values: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _best(axis: _Axis, cost: FloatArray, statistic: CostStatistic) -> tuple[BestModel, Figure, Figure]:
    best = best_single_model(*_model_means(axis.draws, cost, statistic))
    n_draws = axis.draws.n_draws[:, best.index]
    quality = axis.draws.total_right[n_draws > 0, best.index] / n_draws[n_draws > 0]
    cell_cost = _cell_cost(cost[n_draws > 0, best.index], statistic)
    errors = 1.96 * standard_error(quality), 1.96 * standard_error(cell_cost[~np.isnan(cell_cost)])
    return (
        best,
        Figure(best.quality, best.quality - errors[0], best.quality + errors[0]),
        Figure(best.cost_usd, best.cost_usd - errors[1], best.cost_usd + errors[1]),
    )


def _has_posterior(problem: OracleProblem) -> bool:
    return "posterior" in problem.__dict__


def _restricted(posterior: WorldPosterior, kept: BoolArray, draws: DrawTable) -> WorldPosterior:
    """The same posterior on the items and cells of this axis."""
    fit = posterior.fit
    part = replace(fit, responsibility=fit.responsibility[kept], right=fit.right[kept], total=fit.total[kept])
    return replace(posterior, fit=part, draws=draws)


def _prices(frontier: Frontier, n_prices: int) -> FloatArray:
    slopes = frontier_slopes(frontier)
    slopes = slopes[slopes > 0]
    if slopes.size == 0:
        return np.zeros(1)
    return np.concatenate(([0.0], np.geomspace(slopes.min(), slopes.max(), n_prices - 1)))


def _budgets(starts: Sequence[float], end: float, matched_cost: float) -> FloatArray:
    """Each curve's start and then geometric in the cost above it, where frontiers are steepest; with C₀."""
    grid = [np.array([matched_cost])]
    for start in starts:
        width = end - start
        grid.append(np.array([start]))
        if width > 0:
            grid.append(start + width * np.geomspace(1e-5, 1.0, _POINTS_A_START))
    return np.unique(np.concatenate(grid))


def _pre_hoc(
    problem: OracleProblem,
    axis: _Axis,
    posterior: WorldPosterior | None,
    costs: CostPosterior | None,
    verdict: Verdict,
    matched_cost: float,
    n_prices: int,
    n_multipliers: int,
) -> list[FrontierCurve]:
    prices = _prices(axis.naive, n_prices)
    support = np.stack([np.nanmax(axis.cell_quality - price * axis.cell_cost, axis=1) for price in prices], axis=1)
    crossed = None
    if axis.draws.n_generations > 1:
        crossed = halves_support(
            axis.draws.equal_scores,
            axis.draws.equal_cost,
            prices,
            n_splits=problem.n_splits,
            within_variance=axis.draws.within_cell_variance,
            rng=np.random.default_rng([problem.seed, 51]),
        )
    worlds = _World.simulate(posterior, costs, problem.n_simulations)
    starts = [float(axis.naive.cost_usd[0])]
    if crossed is not None:
        starts.append(crossed.start_cost)
    if worlds is not None:
        starts.append(float(np.mean([world.cost_usd[0] for world in worlds.true])))
    end = max([float(axis.naive.cost_usd[-1]), *([w.cost_usd[-1] for w in worlds.true] if worlds else [])])
    budgets = _budgets(starts, end, matched_cost)
    naive = frontier_quality_at(axis.naive, budgets)
    curves = [plain_curve("naive", "pre_hoc", budgets, naive)]
    crossed_quality = np.full(len(budgets), np.nan)
    if crossed is not None:
        conjugate = quality_by_conjugation(crossed.value.mean(axis=0), prices, budgets)
        crossed_quality = np.where(budgets >= crossed.start_cost * (1 - 1e-12), conjugate, np.nan)
        curves.append(plain_curve("cross_fit", "pre_hoc", budgets, crossed_quality))
    corrected = np.full(len(budgets), np.nan)
    if worlds is not None:
        curves.append(plain_curve("pgm", "pre_hoc", budgets, worlds.mean_true(budgets)))
        bias = shock_factor_in_use(problem) * np.maximum(worlds.naive_bias(budgets), 0.0)
        corrected = rising(np.fmin(np.fmax(naive - bias, crossed_quality), naive))
        corrected = np.where(np.isnan(bias), np.nan, corrected)
        curves.append(plain_curve("bias_corrected", "pre_hoc", budgets, corrected))
    band = _band(axis, prices, support, crossed, budgets, n_multipliers, problem.seed)
    quality = corrected if verdict.kind == "point" else np.full(len(budgets), np.nan)
    curves.append(FrontierCurve("headline", "pre_hoc", budgets, quality, *band))
    return curves


@dataclass(frozen=True, eq=False)
class _World:
    """Frontiers of simulated worlds: the true ones and those the naive estimate would show."""

    true: list[Frontier]
    naive: list[Frontier]

    @staticmethod
    def simulate(posterior: WorldPosterior | None, costs: CostPosterior | None, n_simulations: int) -> "_World | None":
        if posterior is None or costs is None:
            return None
        true, naive = [], []
        for index in range(n_simulations):
            quality = posterior.true_quality(index)
            cost = posterior.true_cost(costs, index)
            scores = posterior.observed_scores(quality, index)
            true.append(exact_frontier(quality, cost))
            naive.append(exact_frontier(scores.mean(axis=2), posterior.observed_cost(costs, cost, index)))
        return _World(true, naive)

    def mean_true(self, budgets: FloatArray) -> FloatArray:
        return mean_frontier(self.true, budgets)

    def naive_bias(self, budgets: FloatArray) -> FloatArray:
        """Mean of naive − true over the worlds that have both at a budget; NaN where none has."""
        gap = np.stack(
            [
                frontier_quality_at(naive, budgets) - frontier_quality_at(true, budgets)
                for true, naive in zip(self.true, self.naive, strict=True)
            ]
        )
        known = ~np.isnan(gap)
        return np.where(
            known.any(axis=0), np.where(known, gap, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan
        )


def mean_frontier(frontiers: Sequence[Frontier], budgets: FloatArray) -> FloatArray:
    """Mean quality of several frontiers at budgets at least half of them can afford, made non-decreasing."""
    values = np.stack([frontier_quality_at(frontier, budgets) for frontier in frontiers])
    known = ~np.isnan(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return rising(np.where(2 * known.sum(axis=0) >= len(frontiers), mean, np.nan))


def frontier_spread(frontiers: Sequence[Frontier], budgets: FloatArray) -> FloatArray:
    """Standard deviation over the frontiers that can afford a budget; NaN where fewer than half of them can."""
    values = np.stack([frontier_quality_at(frontier, budgets) for frontier in frontiers])
    is_affordable = 2 * (~np.isnan(values)).sum(axis=0) >= len(frontiers)
    spread = np.full(len(budgets), np.nan)
    spread[is_affordable] = np.nanstd(values[:, is_affordable], axis=0, ddof=1)
    return spread


def _band(
    axis: _Axis,
    prices: FloatArray,
    support: FloatArray,
    crossed: CrossFitSupport | None,
    budgets: FloatArray,
    n_multipliers: int,
    seed: int,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Conjugates of V_cross-fit − h and V_naive + h, all budgets at once: lower, upper, lower_fixed, upper_fixed.

    Conservative: the width says how many draws there were. Limits stay inside the range of the scores.
    """
    low, high = float(np.nanmin(axis.draws.scores)), float(np.nanmax(axis.draws.scores))

    def limit(values: FloatArray, half_width: FloatArray) -> FloatArray:
        conjugate = quality_by_conjugation(values.mean(axis=0) + half_width, prices, budgets)
        return np.clip(conjugate, min(low, 0.0), max(high, 1.0))

    half_width = simultaneous_half_width(support, n_multipliers=n_multipliers, rng=np.random.default_rng([seed, 52]))
    upper = limit(support, half_width)
    unknown = np.full(len(budgets), np.nan)
    if crossed is None:
        return unknown, upper, unknown, unknown
    crossed_width = simultaneous_half_width(
        crossed.value, n_multipliers=n_multipliers, rng=np.random.default_rng([seed, 53])
    )
    jackknife = naive_draw_variance(axis.draws.equal_scores, axis.draws.equal_cost, prices)
    upper_fixed = limit(support, fixed_items_half_width(jackknife))
    lower_fixed = limit(crossed.value, -fixed_items_half_width(crossed.draw_variance))
    # With a handful of items the lower end may come out above the upper one by chance.
    lower = np.minimum(limit(crossed.value, -crossed_width), upper)
    return lower, upper, np.minimum(lower_fixed, upper_fixed), upper_fixed


def _draws_allowed(n_generations: int) -> list[int]:
    return [k for k in DRAWS_ALLOWED if k <= n_generations]


def _post_hoc(
    problem: OracleProblem,
    axis: _Axis,
    posterior: WorldPosterior | None,
    costs: CostPosterior | None,
    verdict: Verdict,
    matched_cost: float,
) -> list[FrontierCurve]:
    """Options (model, k draws, best kept): paying all draws, and the bound of paying only the kept one."""
    allowed = _draws_allowed(axis.draws.n_generations)
    by_k = [best_of_k_draws(axis.draws.equal_scores, k) for k in allowed]
    curves = []
    for routing, pays_all in (("post_hoc_pay_all", True), ("post_hoc_pay_kept", False)):
        naive = exact_frontier(*retry_options(by_k, axis.cell_cost, allowed, pays_all=pays_all))
        true: list[Frontier] = []
        # Of a graded cell the posterior knows the mean, not the distribution of a draw.
        if posterior is not None and costs is not None and axis.draws.is_binary:
            for index in range(problem.n_simulations):
                quality = posterior.true_quality(index)
                success = [1.0 - (1.0 - quality) ** k for k in allowed]
                cost = posterior.true_cost(costs, index)
                true.append(exact_frontier(*retry_options(success, cost, allowed, pays_all=pays_all)))
        starts = [float(naive.cost_usd[0])]
        if true:
            starts.append(float(np.mean([world.cost_usd[0] for world in true])))
        end = max([float(naive.cost_usd[-1]), *[float(world.cost_usd[-1]) for world in true]])
        budgets = _budgets(starts, end, matched_cost)
        curves.append(plain_curve("naive", routing, budgets, frontier_quality_at(naive, budgets)))
        if true:
            mean = mean_frontier(true, budgets)
            spread = 1.96 * frontier_spread(true, budgets)
            unknown = np.full(len(budgets), np.nan)
            curves.append(plain_curve("pgm", routing, budgets, mean))
            quality = mean if verdict.kind == "point" else unknown
            curves.append(
                FrontierCurve(
                    "headline",
                    routing,
                    budgets,
                    quality,
                    unknown,
                    unknown,
                    mean - spread,
                    np.minimum(mean + spread, 1.0),
                )
            )
    return curves
