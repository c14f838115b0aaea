"""How good a system can be whose answers are late at most now and then: its own 95 % quantile, not a mean of them.

A system's P95 is no mean of its cells' P95s. The constraint is mean_n P(T > τ) ≤ .05, which is linear in the choice:
with P(T_nl > τ) as the cost of a cell the exact frontier read at .05 is the answer (the price ν of lateness that a
bisection would look for is the slope of the frontier there).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cost_axis import cell_values, column_means, make_axis
from capeval_pipeline.methods.debiasing.frontier_bracket import measure_bracket
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.frontier import best_single_model, frontier_quality_at

FloatArray = NDArray[np.float64]
SHARE_ALLOWED = 0.05


@dataclass(frozen=True)
class LatencyLimit:
    """Reachable quality where at most 5 % of the answers take longer than the limit; NaN where no choice manages.

    best_index : the best single model that keeps the limit, −1 where none does; best_share_late : its share of late
    naive : plain maxima, biased upwards; lower, upper : 95 % band around cross-fitted and plain choice
    """

    limit_s: float
    best_index: int
    best_quality: float
    best_share_late: float
    naive: float
    cross_fit: float
    lower: float
    upper: float


def latency_limits(
    problem: OracleProblem, latency: FloatArray, limits_s: Sequence[float], *, n_prices: int, n_multipliers: int
) -> list[LatencyLimit]:
    """One record a limit. latency : (n_items, n_models, n_generations) seconds, NaN where unknown."""
    return [_at_limit(problem, latency, float(limit), n_prices, n_multipliers) for limit in limits_s]


def usual_limits(latency: FloatArray, best_index: int) -> list[float]:
    """The best single model's own 95 % quantile over all its answers, half and a quarter of it."""
    seconds = latency[:, best_index]
    known = seconds[~np.isnan(seconds)]
    own = float(np.quantile(known, 0.95, method="inverted_cdf")) if known.size else 0.0
    return [own * part for part in (1.0, 0.5, 0.25)] if own > 0 else []


def _at_limit(
    problem: OracleProblem, latency: FloatArray, limit: float, n_prices: int, n_multipliers: int
) -> LatencyLimit:
    is_late = np.where(np.isnan(latency), np.nan, (latency > limit).astype(np.float64))
    kept, axis = make_axis(problem.draws, is_late, "mean")
    quality, late = (column_means(values) for values in cell_values(axis.draws, is_late[kept], "mean"))
    in_time = np.where(late <= SHARE_ALLOWED, quality, np.nan)
    has_single = not np.isnan(in_time).all()
    best = best_single_model(in_time, late) if has_single else None
    allowed = np.array([SHARE_ALLOWED])
    bracket = measure_bracket(problem, axis, n_prices)
    lower, upper, _, _ = bracket.band(allowed, n_multipliers)
    naive = float(frontier_quality_at(axis.naive, allowed)[0])
    crossed = float(bracket.crossed_quality(allowed)[0])
    is_reachable = not np.isnan(naive)
    return LatencyLimit(
        limit_s=limit,
        best_index=best.index if best else -1,
        best_quality=best.quality if best else float("nan"),
        best_share_late=best.cost_usd if best else float("nan"),
        naive=naive,
        cross_fit=crossed,
        # Where even the naive choice of fast cells is late too often nothing is reachable, whatever the band says.
        lower=float(lower[0]) if not np.isnan(crossed) else float("nan"),
        upper=float(upper[0]) if is_reachable else float("nan"),
    )
