"""What comes out of a cost axis: curves, and the two figures that are read off each."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.frontier import BestModel, Frontier, frontier_cost_at, frontier_quality_at

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FrontierCurve:
    """A frontier at cost budgets, (n_points,) each; quality NaN where refused or infeasible."""

    estimator: str
    routing: str
    cost: FloatArray
    quality: FloatArray
    lower: FloatArray
    upper: FloatArray
    lower_fixed: FloatArray
    upper_fixed: FloatArray


@dataclass(frozen=True)
class Figure:
    """A number with its 95 % limits, NaN where unknown."""

    value: float = math.nan
    lower: float = math.nan
    upper: float = math.nan


@dataclass(frozen=True)
class FrontierHeadline:
    """What one curve says about the best single model's cost and quality."""

    estimator: str
    routing: str
    draws_allowed: int
    oracle_quality: Figure
    error_reduction: Figure
    cost_saving: Figure


@dataclass(frozen=True, eq=False)
class CostAxisAnalysis:
    """Curves and headlines of one cost axis, with what they are compared with.

    best_quality_held_out : the best single model's quality on items that did not choose it, below 200 items; else NaN
    n_models : models with a cost on this axis; model_quality, model_cost : (n_models of the benchmark,), NaN cost: out
    """

    curves: list[FrontierCurve]
    headlines: list[FrontierHeadline]
    best: BestModel
    best_quality: Figure
    best_cost: Figure
    best_quality_held_out: float
    constant_quality_at_matched_cost: float
    n_items: int
    n_models: int
    model_quality: FloatArray
    model_cost: FloatArray
    is_cost_constant: bool


def rising(quality: FloatArray) -> FloatArray:
    """Running maximum; NaN stays NaN."""
    running = np.maximum.accumulate(np.where(np.isnan(quality), -np.inf, quality))
    return np.where(np.isnan(quality), np.nan, running)


def plain_curve(estimator: str, routing: str, cost: FloatArray, quality: FloatArray) -> FrontierCurve:
    """A curve without limits."""
    unknown = np.full(len(cost), np.nan)
    return FrontierCurve(estimator, routing, cost, quality, unknown, unknown, unknown, unknown)


def read_headline(
    curve: FrontierCurve, best: BestModel, draws_allowed: int, held_out_quality: float = math.nan
) -> FrontierHeadline:
    """Read a curve at the best single model's cost, and at its quality.

    held_out_quality : the best model's quality where its own may be luck; the gain's upper limit is over that one
    """
    qualities = [_read(curve.cost, values, best.cost_usd) for values in (curve.quality, curve.lower, curve.upper)]
    least = best.quality if math.isnan(held_out_quality) else min(best.quality, held_out_quality)
    reductions = [
        (value - reference) / (1.0 - reference) if reference < 1.0 else math.nan
        for value, reference in zip(qualities, (best.quality, best.quality, least), strict=True)
    ]
    savings = [_saving(curve.cost, values, best) for values in (curve.quality, curve.lower, curve.upper)]
    return FrontierHeadline(
        curve.estimator, curve.routing, draws_allowed, Figure(*qualities), Figure(*reductions), Figure(*savings)
    )


def _read(cost: FloatArray, quality: FloatArray, budget: float) -> float:
    known = ~np.isnan(quality)
    return float(frontier_quality_at(Frontier(cost[known], quality[known]), budget)) if known.any() else math.nan


def _saving(cost: FloatArray, quality: FloatArray, best: BestModel) -> float:
    """1 − F⁻¹(A₀)/C₀; NaN where the curve never reaches A₀ or the cost is 0."""
    known = ~np.isnan(quality)
    if not known.any() or not best.cost_usd > 0:
        return math.nan
    curve = Frontier(cost[known], rising(quality[known]))
    return 1.0 - float(frontier_cost_at(curve, best.quality)) / best.cost_usd
