"""The bracket of a whole frontier: V by plain maxima and by cross-fitting at many prices, and the band they make."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.band import (
    fixed_items_half_width,
    naive_draw_variance,
)
from capeval_pipeline.methods.debiasing.cost_axis import CostAxis
from capeval_pipeline.methods.debiasing.cross_fit import CrossFitSupport, halves_support
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.frontier import Frontier, frontier_slopes, quality_by_conjugation
from capeval_pipeline.methods.frontier.simultaneous import simultaneous_half_width

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FrontierBracket:
    """Both ends at the same prices.

    prices : (n_prices,) values of t; support : (n_items, n_prices) max_l of q̄ − t c̄; crossed : None with one draw
    """

    axis: CostAxis
    prices: FloatArray
    support: FloatArray
    crossed: CrossFitSupport | None
    seed: int

    def crossed_quality(self, budgets: FloatArray) -> FloatArray:
        """Cross-fitted quality at cost budgets; NaN below its start, and with one draw a cell."""
        if self.crossed is None:
            return np.full(len(budgets), np.nan)
        conjugate = quality_by_conjugation(self.crossed.value.mean(axis=0), self.prices, budgets)
        return np.where(budgets >= self.crossed.start_cost * (1 - 1e-12), conjugate, np.nan)

    def band(self, budgets: FloatArray, n_multipliers: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Conjugates of V_cross-fit − h and V_naive + h, all budgets at once: lower, upper, lower_fixed, upper_fixed.

        Conservative: the width says how many draws there were. Limits stay inside the range of the scores; NaN at
        costs too low for any choice, where the upper one would fall out of it.
        """
        floor = min(float(np.nanmin(self.axis.draws.scores)), 0.0)
        high = float(np.nanmax(self.axis.draws.scores))

        def limit(values: FloatArray, half_width: FloatArray) -> FloatArray:
            conjugate = quality_by_conjugation(values.mean(axis=0) + half_width, self.prices, budgets)
            return np.clip(conjugate, floor, max(high, 1.0))

        def upper_limit(half_width: FloatArray) -> FloatArray:
            conjugate = quality_by_conjugation(self.support.mean(axis=0) + half_width, self.prices, budgets)
            return np.where(conjugate < floor, np.nan, limit(self.support, half_width))

        def half_width(values: FloatArray, key: int) -> FloatArray:
            rng = np.random.default_rng([self.seed, key])
            return simultaneous_half_width(values, n_multipliers=n_multipliers, rng=rng)

        upper = upper_limit(half_width(self.support, 52))
        unknown = np.full(len(budgets), np.nan)
        if self.crossed is None:
            return unknown, upper, unknown, unknown
        draws = self.axis.draws
        jackknife = naive_draw_variance(draws.equal_scores, self.axis.draw_cost, self.prices)
        upper_fixed = upper_limit(fixed_items_half_width(jackknife))
        lower_fixed = limit(self.crossed.value, -fixed_items_half_width(self.crossed.draw_variance))
        # With a handful of items the lower end may come out above the upper one by chance.
        lower = np.minimum(limit(self.crossed.value, -half_width(self.crossed.value, 53)), upper)
        return lower, upper, np.minimum(lower_fixed, upper_fixed), upper_fixed


def measure_bracket(problem: OracleProblem, axis: CostAxis, n_prices: int) -> FrontierBracket:
    """Both ends at n_prices values of t, 0 and then geometric over the range of the naive frontier's slopes."""
    prices = _prices(axis.naive, n_prices)
    support = np.stack([np.nanmax(axis.cell_quality - price * axis.cell_cost, axis=1) for price in prices], axis=1)
    crossed = None
    if axis.draws.n_generations > 1:
        crossed = halves_support(
            axis.draws.equal_scores,
            axis.draw_cost,
            prices,
            n_splits=problem.n_splits,
            within_variance=axis.draws.within_cell_variance,
            rng=np.random.default_rng([problem.seed, 51]),
        )
    return FrontierBracket(axis, prices, support, crossed, problem.seed)


def _prices(frontier: Frontier, n_prices: int) -> FloatArray:
    slopes = frontier_slopes(frontier)
    slopes = slopes[slopes > 0]
    if slopes.size == 0:
        return np.zeros(1)
    return np.concatenate(([0.0], np.geomspace(slopes.min(), slopes.max(), n_prices - 1)))
