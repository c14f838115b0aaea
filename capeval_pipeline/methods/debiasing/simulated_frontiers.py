"""Frontiers of simulated worlds: what they truly are, and what the same experiment would have shown."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.costs import CostPosterior
from capeval_pipeline.methods.debiasing.frontier_records import rising
from capeval_pipeline.methods.debiasing.posterior import WorldPosterior
from capeval_pipeline.methods.frontier import Frontier, exact_frontier, frontier_quality_at

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SimulatedFrontiers:
    """Frontiers of simulated worlds: the true ones and those the naive estimate would show."""

    true: list[Frontier]
    naive: list[Frontier]

    @staticmethod
    def simulate(posterior: WorldPosterior, costs: CostPosterior, n_simulations: int) -> "SimulatedFrontiers":
        true, naive = [], []
        for index in range(n_simulations):
            quality = posterior.true_quality(index)
            cost = posterior.true_cost(costs, index)
            scores = posterior.observed_scores(quality, index)
            true.append(exact_frontier(quality, cost))
            naive.append(exact_frontier(scores.mean(axis=2), posterior.observed_cost(costs, cost, index)))
        return SimulatedFrontiers(true, naive)

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
