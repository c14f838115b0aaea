"""The frontier under each of its verdicts."""

import math
from collections.abc import Sequence

from tests.reporting.planted.names import HOSTILE_MODEL, N_ITEMS, QUIZ, Rows


def frontier_tables(verdict: str) -> dict[str, Rows]:
    """Frontier, headline and diagnostics under one of the three verdicts."""
    is_point, has_lower = verdict == "point", verdict != "upper_bound_only"
    costs = [0.0003 * 1.06**step for step in range(33)]
    points: Rows = []

    def add(estimator: str, routing: str, values: Sequence[float | None], half: float | None) -> None:
        for point, (cost, value) in enumerate(zip(costs, values, strict=True)):
            middle = values[point] if value is not None else 0.6 + 0.006 * point
            assert middle is not None
            points.append(
                {
                    "benchmark_id": QUIZ,
                    "cost_axis": "usd",
                    "estimator": estimator,
                    "routing": routing,
                    "point": point,
                    "cost_usd": cost,
                    "quality": value,
                    "lower": middle - half if half and has_lower else None,
                    "upper": middle + half if half else None,
                }
            )

    rising = [0.62 + 0.25 * (1 - math.exp(-step / 9)) for step in range(33)]
    add("naive", "pre_hoc", [value + 0.05 for value in rising], None)
    add("headline", "pre_hoc", rising if is_point else [None] * 33, 0.03)
    add("naive", "constant", [0.5 + 0.009 * step for step in range(33)], None)
    add("cross_fit", "cluster_router", [value - 0.06 for value in rising], 0.01)
    headline = {"benchmark_id": QUIZ, "category": "", "n_items": N_ITEMS, "n_models": 7, "n_generations": 5}
    n_draws = 5 if has_lower else 1
    return {
        "estimates.frontier_points": points + [{**row, "cost_axis": "latency_p95_s"} for row in points],
        "estimates.frontier_headlines": [
            {
                "benchmark_id": QUIZ,
                "cost_axis": "usd",
                "estimator": "headline",
                "routing": "pre_hoc",
                "n_models": 7,
                "best_model_id": HOSTILE_MODEL,
                "best_quality": 0.8,
                "best_cost_usd": 0.002,
                "oracle_quality_at_matched_cost": 0.83 if is_point else None,
                "oracle_quality_at_matched_cost_lower": 0.80 if has_lower else None,
                "oracle_quality_at_matched_cost_upper": 0.85,
                "matched_cost_error_reduction": 0.15 if is_point else None,
            }
        ],
        "estimates.frontier_models": [
            {
                "benchmark_id": QUIZ,
                "cost_axis": axis,
                "model_id": model,
                "is_in_frontier": True,
                "quality": quality,
                "cost_usd": cost,
            }
            for axis in ("usd", "latency_p95_s")
            for model, quality, cost in ((HOSTILE_MODEL, 0.8, 0.002), ("lab/small", 0.55, 0.0004))
        ],
        "estimates.frontier_latency_limits": [
            {
                "benchmark_id": QUIZ,
                "latency_limit_s": 2.0,
                "share_allowed": 0.05,
                "best_model_id": HOSTILE_MODEL,
                "best_quality": 0.8,
                "best_share_late": 0.03,
                "naive_quality": 0.9,
                "cross_fit_quality": 0.82,
                "lower": 0.78,
                "upper": 0.92,
            }
        ],
        "estimates.frontier_diagnostics": [
            {
                "benchmark_id": QUIZ,
                "n_models": 7,
                "left_out": [],
                "n_generations": n_draws,
                "verdict": verdict,
                "reason": "",
            }
        ],
        "estimates.oracle_estimates": [
            {**headline, "estimator": "naive", "value": 0.9, "lower": 0.88, "upper": 0.92},
            {**headline, "estimator": "cross_fit", "value": 0.82, "lower": 0.8, "upper": 0.84},
            {**headline, "estimator": "headline", "value": 0.86 if is_point else None, "lower": 0.83, "upper": 0.89},
        ],
        "estimates.oracle_bias_curve": [
            {"benchmark_id": QUIZ, "g": g, "source": source, "naive_value": 0.86 + 0.1 / math.sqrt(g)}
            for g, source in [(1, "observed"), (2, "observed"), (3, "observed"), (5, "observed"), (20, "forecast")]
            if g <= n_draws or source == "forecast"
        ],
    }
