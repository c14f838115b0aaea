"""The draws of a benchmark as arrays, and what every estimator reads off them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DrawTable:
    """Scores and costs of every draw.

    scores : (n_items, n_models, n_generations) quality on 0…1, NaN where there is no draw; the last axis is the
        generation, the same one in every cell where `has_true_generations`
    cost : the same shape, not negative, NaN where unknown; None without any cost. Dollars or seconds.
    has_true_generations : whether draws of equal index were made together; not so for expanded counts

    Raises ValueError for shapes that differ, for no draws, and for an item without an option.
    """

    scores: FloatArray
    cost: FloatArray | None = None
    has_true_generations: bool = True

    def __post_init__(self) -> None:
        if self.scores.ndim != 3 or 0 in self.scores.shape:
            raise ValueError(f"scores have shape {self.scores.shape}; expected (n_items, n_models, n_generations)")
        if self.cost is not None and self.cost.shape != self.scores.shape:
            raise ValueError(f"cost has shape {self.cost.shape}, scores {self.scores.shape}; expected the same")
        without = ~self.is_option.any(axis=1)
        if without.any():
            raise ValueError(
                f"item {int(np.argmax(without))} has no model with {self.n_generations} draws, as other items have"
            )

    @cached_property
    def n_draws(self) -> IntArray:
        """Draws of each cell, (n_items, n_models)."""
        return np.asarray((~np.isnan(self.scores)).sum(axis=2))

    @cached_property
    def n_generations(self) -> int:
        """Draws a cell that all estimators use: the smallest number ≥ 2 among the cells, 1 where no cell has two."""
        several = self.n_draws[self.n_draws >= 2]
        return int(several.min()) if several.size else 1

    @cached_property
    def is_binary(self) -> bool:
        known = self.scores[~np.isnan(self.scores)]
        return bool(((known == 0) | (known == 1)).all())

    @cached_property
    def is_bounded(self) -> bool:
        """Whether all scores lie on 0…1; with a range open on one side they do not."""
        return bool(np.nanmin(self.scores) >= 0 and np.nanmax(self.scores) <= 1)

    @cached_property
    def total_right(self) -> FloatArray:
        """Sum of the scores of all draws of a cell; NaN for a missing cell."""
        return np.where(self.n_draws > 0, np.nansum(self.scores, axis=2), np.nan)

    @cached_property
    def _chosen_draws(self) -> IntArray:
        """Index along the last axis of the draws kept, known ones first; (n_items, n_models, n_generations)."""
        is_absent = np.isnan(self.scores)
        if self.has_true_generations or (self.n_draws[self.n_draws > 0] == self.n_generations).all():
            order = np.argsort(is_absent, axis=2, kind="stable")
        else:
            # Where the order is made up (all right answers first), the first draws of a cell are no sample of it.
            key = np.random.default_rng([0, *self.scores.shape]).random(self.scores.shape)
            order = np.argsort(np.where(is_absent, 2.0, key), axis=2, kind="stable")
        return np.asarray(order[:, :, : self.n_generations])

    @cached_property
    def is_option(self) -> BoolArray:
        """Cells with enough draws to take part, (n_items, n_models)."""
        return np.asarray(self.n_draws >= self.n_generations)

    @cached_property
    def equal_scores(self) -> FloatArray:
        """The same number of draws in every cell that is an option, NaN elsewhere."""
        kept = np.take_along_axis(self.scores, self._chosen_draws, axis=2)
        return np.where(self.is_option[:, :, None], kept, np.nan)

    @cached_property
    def equal_cost(self) -> FloatArray:
        """Costs of the same draws; an unknown one is the mean of its cell's known costs, NaN where it has none."""
        if self.cost is None:
            raise ValueError("costs are unknown")
        known = ~np.isnan(self.cost)
        n_known = known.sum(axis=2)
        cell_mean = np.where(n_known > 0, np.nansum(self.cost, axis=2) / np.maximum(n_known, 1), np.nan)
        kept = np.take_along_axis(self.cost, self._chosen_draws, axis=2)
        filled = np.where(np.isnan(kept), cell_mean[:, :, None], kept)
        return np.where(self.is_option[:, :, None], filled, np.nan)

    @cached_property
    def mean_quality(self) -> FloatArray:
        """Mean of the draws that take part, (n_items, n_models); NaN where the cell is no option."""
        return np.asarray(self.equal_scores.mean(axis=2))

    @cached_property
    def within_cell_variance(self) -> float:
        """Pooled variance of a draw inside its cell; NaN with one draw a cell."""
        if self.n_generations < 2:
            return float("nan")
        return float(np.nanmean(self.equal_scores.var(axis=2, ddof=1)))
