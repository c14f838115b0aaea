"""One cost axis as the frontier's estimators see it: the draws that have a cost, their cells' figures, the budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.frontier import Frontier, exact_frontier

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CostStatistic = Literal["mean", "p95"]
_POINTS_A_START = 100


@dataclass(frozen=True, eq=False)
class CostAxis:
    """The draws that have a cost on this axis, and the figures of their cells.

    draw_cost : (n_items, n_models, n_generations), each draw's cost in units of its cell's figure: part of a cell's
        draws, averaged, is comparable with cell_cost
    """

    draws: DrawTable
    cell_quality: FloatArray
    cell_cost: FloatArray
    draw_cost: FloatArray
    naive: Frontier


def make_axis(draws: DrawTable, cost: FloatArray, statistic: CostStatistic) -> tuple[BoolArray, CostAxis]:
    """Items kept, (n_items,), and the axis on them. Raises ValueError where no item has a score and a cost."""
    has_cost: BoolArray = np.asarray((~np.isnan(cost) & ~np.isnan(draws.scores)).any(axis=2), dtype=np.bool_)
    kept: BoolArray = np.asarray((has_cost & draws.is_option).any(axis=1), dtype=np.bool_)
    if not kept.any():
        raise ValueError("no item has a model with both a score and a cost")
    scores = np.where(has_cost[:, :, None], draws.scores, np.nan)[kept]
    table = DrawTable(scores, cost[kept], draws.has_true_generations)
    cell_cost = cell_figure(table.equal_cost, statistic)
    draw_cost = table.equal_cost if statistic == "mean" else _in_units_of(cell_cost, table.equal_cost)
    naive = exact_frontier(table.mean_quality, cell_cost)
    return kept, CostAxis(table, table.mean_quality, cell_cost, draw_cost, naive)


def _in_units_of(cell_cost: FloatArray, cost_draws: FloatArray) -> FloatArray:
    """Draws times their model's ratio of mean figure to mean draw.

    A quantile of half of the draws is lower than that of all, a mean lower still: charged as they are they would let
    cross-fitting have for little what costs more. One ratio a model keeps the halves of a cell independent.
    """
    figure, draw = column_means(cell_cost), column_means(cell_figure(cost_draws, "mean"))
    ratio = np.where(draw > 0, figure / np.where(draw > 0, draw, 1.0), 1.0)
    return np.asarray(cost_draws * ratio[None, :, None])


def cell_figure(cost_draws: FloatArray, statistic: CostStatistic) -> FloatArray:
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


def cell_values(draws: DrawTable, cost: FloatArray, statistic: CostStatistic) -> tuple[FloatArray, FloatArray]:
    """Quality and cost of each cell from all its draws, (n_items, n_models); NaN where there is none."""
    quality = np.where(draws.n_draws > 0, draws.total_right / np.maximum(draws.n_draws, 1), np.nan)
    return quality, np.where(draws.n_draws > 0, cell_figure(cost, statistic), np.nan)


def column_means(values: FloatArray) -> FloatArray:
    """Mean of each model over the items it has a value on; NaN without any."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def cost_budgets(starts: Sequence[float], end: float, matched_cost: float) -> FloatArray:
    """Each curve's start and then geometric in the cost above it, where frontiers are steepest; with C₀."""
    grid = [np.array([matched_cost])]
    for start in starts:
        width = end - start
        grid.append(np.array([start]))
        if width > 0:
            grid.append(start + width * np.geomspace(1e-5, 1.0, _POINTS_A_START))
    return np.unique(np.concatenate(grid))
