"""What the stage `frontier` found as frames of its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from capeval_pipeline.arrays.generations import EncodedGenerations
    from capeval_pipeline.methods.debiasing.frontier_records import CostAxisAnalysis, Figure
    from capeval_pipeline.methods.debiasing.latency_limits import LatencyLimit
    from capeval_pipeline.methods.debiasing.oracle_analysis import OracleAnalysis
    from capeval_pipeline.methods.debiasing.problem import OracleProblem
    from capeval_pipeline.methods.frontier.cluster_router import RouterCurve

ORACLE_ESTIMATES = "estimates.oracle_estimates"
ORACLE_BIAS_CURVE = "estimates.oracle_bias_curve"
FRONTIER_POINTS = "estimates.frontier_points"
FRONTIER_HEADLINES = "estimates.frontier_headlines"
FRONTIER_DIAGNOSTICS = "estimates.frontier_diagnostics"
FRONTIER_MODELS = "estimates.frontier_models"
FRONTIER_LATENCY_LIMITS = "estimates.frontier_latency_limits"
GAIN_RESAMPLES = 400


def oracle_frame(oracle: OracleAnalysis, encoded: EncodedGenerations, problem: OracleProblem) -> pd.DataFrame:
    """estimates.oracle_estimates: one row per category and estimator."""
    import pandas as pd

    names = ("value", "lower", "upper", "lower_fixed", "upper_fixed", "assumption")
    return pd.DataFrame(
        [
            {
                "category": category,
                "estimator": estimator,
                "n_items": oracle.n_items[category],
                "n_models": len(encoded.models),
                "n_generations": problem.draws.n_generations,
                **{name: getattr(estimate, name) for name in names},
            }
            for (category, estimator), estimate in oracle.estimates.items()
        ]
    )


def points_frame(axes: dict[str, CostAxisAnalysis], routers: dict[str, RouterCurve]) -> pd.DataFrame | Any:
    """estimates.frontier_points: every curve of every axis, and the router by clusters."""
    import numpy as np
    import pandas as pd

    frames = []
    for cost_axis, analysis in axes.items():
        for curve in analysis.curves:
            frames.append(
                pd.DataFrame(
                    {
                        "cost_axis": cost_axis,
                        "estimator": curve.estimator,
                        "routing": curve.routing,
                        "point": np.arange(len(curve.cost)),
                        "cost_usd": curve.cost,
                        "quality": curve.quality,
                        "lower": curve.lower,
                        "upper": curve.upper,
                        "lower_fixed": curve.lower_fixed,
                        "upper_fixed": curve.upper_fixed,
                    }
                )
            )
    if "cluster" in routers:
        router = routers["cluster"]
        unknown = np.full(len(router.cost), np.nan)
        frames.append(
            pd.DataFrame(
                {
                    "cost_axis": "usd",
                    "estimator": "cross_fit",
                    "routing": "cluster_router",
                    "point": np.arange(len(router.cost)),
                    "cost_usd": router.cost,
                    "quality": router.quality,
                    "lower": router.lower,
                    "upper": router.upper,
                    **dict.fromkeys(("lower_fixed", "upper_fixed"), unknown),
                }
            )
        )
    return pd.concat(frames, ignore_index=True) if frames else _empty(FRONTIER_POINTS)


def headlines_frame(
    axes: dict[str, CostAxisAnalysis],
    encoded: EncodedGenerations,
    routers: dict[str, RouterCurve],
    *,
    has_scale: bool,
) -> pd.DataFrame | Any:
    """estimates.frontier_headlines: what each curve says at the best single model's cost and quality."""
    import pandas as pd

    from capeval_pipeline.methods.debiasing.frontier_records import Figure

    unknown = Figure()
    rows = []
    for cost_axis, analysis in axes.items():
        for headline in analysis.headlines:
            rows.append(
                {
                    "cost_axis": cost_axis,
                    "estimator": headline.estimator,
                    "routing": headline.routing,
                    "n_models": analysis.n_models,
                    "draws_allowed": headline.draws_allowed,
                    "best_model_id": encoded.models[analysis.best.index],
                    **_figure(
                        "constant_quality_at_matched_cost",
                        Figure(analysis.constant_quality_at_matched_cost, math.nan, math.nan),
                    ),
                    **_figure("best_quality", analysis.best_quality),
                    "best_quality_held_out": analysis.best_quality_held_out,
                    **_figure("best_cost_usd", analysis.best_cost),
                    **_figure("oracle_quality_at_matched_cost", headline.oracle_quality),
                    **_figure("matched_cost_error_reduction", headline.error_reduction if has_scale else unknown),
                    **_figure("matched_quality_cost_saving", headline.cost_saving),
                }
            )
    if "cluster" in routers:
        rows.append(_router_headline(routers["cluster"], encoded, has_scale=has_scale))
    return pd.DataFrame(rows) if rows else _empty(FRONTIER_HEADLINES)


def _router_headline(router: RouterCurve, encoded: EncodedGenerations, *, has_scale: bool) -> dict[str, Any]:
    """The router against the best single model of the training items, both on the test items."""
    import numpy as np

    from capeval_pipeline.methods.debiasing.estimates import standard_error
    from capeval_pipeline.methods.debiasing.frontier_records import Figure
    from capeval_pipeline.methods.frontier import Frontier, frontier_cost_at

    reached = router.quality_at(router.best_cost)
    gain = reached - router.best_quality
    least, most = gain_limits(router, GAIN_RESAMPLES)
    left = 1 - router.best_quality if has_scale and router.best_quality < 1 else math.nan
    error = 1.96 * standard_error(router.best_item_quality[~np.isnan(router.best_item_quality)])
    rising = Frontier(router.cost, np.maximum.accumulate(router.quality))
    cost = float(frontier_cost_at(rising, router.best_quality))
    saving = 1 - cost / router.best_cost if router.best_cost > 0 else math.nan
    return {
        "cost_axis": "usd",
        "estimator": "cross_fit",
        "routing": "cluster_router",
        "n_models": len(encoded.models),
        "draws_allowed": 1,
        "best_model_id": encoded.models[router.best_index],
        **_figure("constant_quality_at_matched_cost", Figure()),
        **_figure(
            "best_quality", Figure(router.best_quality, router.best_quality - error, router.best_quality + error)
        ),
        "best_quality_held_out": math.nan,
        **_figure("best_cost_usd", Figure(router.best_cost)),
        **_figure(
            "oracle_quality_at_matched_cost",
            Figure(reached, router.read(router.lower, router.best_cost), router.read(router.upper, router.best_cost)),
        ),
        **_figure("matched_cost_error_reduction", Figure(gain / left, least / left, most / left)),
        **_figure("matched_quality_cost_saving", Figure(saving)),
    }


def gain_limits(router: RouterCurve, n_resamples: int) -> tuple[float, float]:
    """95 % limits of the router's gain over the best single model at its cost; keyed by the number of test items."""
    import numpy as np

    return router.gain_limits(n_resamples, np.random.default_rng([len(router.rows), 72]))


def _figure(name: str, figure: Figure) -> dict[str, float]:
    return {name: figure.value, f"{name}_lower": figure.lower, f"{name}_upper": figure.upper}


def diagnostics_frame(oracle: OracleAnalysis, encoded: EncodedGenerations, problem: OracleProblem) -> pd.DataFrame:
    """estimates.frontier_diagnostics: the one row that says whether a figure may be given."""
    import pandas as pd

    return pd.DataFrame(
        {
            "shock_z": [oracle.shock_z],
            "shock_factor": [oracle.shock_factor],
            "bracket_ratio": [oracle.bracket_ratio],
            "ceiling_share": [oracle.ceiling_share],
            "n_topics": pd.array([oracle.n_topics], dtype="Int64"),
            "n_models": [len(encoded.models)],
            "left_out": [encoded.left_out],
            "n_generations": [problem.draws.n_generations],
            "verdict": [oracle.verdict.kind],
            "reason": [oracle.verdict.reason or None],
            "generations_needed": pd.array([oracle.generations_needed], dtype="Int64"),
        }
    )


def models_frame(axes: dict[str, CostAxisAnalysis], encoded: EncodedGenerations) -> pd.DataFrame | Any:
    """estimates.frontier_models: who takes part on each axis, and why not."""
    import pandas as pd

    rows = []
    for cost_axis, analysis in axes.items():
        reasons = dict(encoded.reasons)
        if cost_axis == "latency_p95_s":
            reasons |= encoded.latency_reasons
        for index, model in enumerate(encoded.models):
            cost = float(analysis.model_cost[index])
            is_in = not math.isnan(cost)
            reason = None if is_in else reasons.get(model, "no item with a score and a cost")
            quality = float(analysis.model_quality[index])
            rows.append((cost_axis, model, is_in, reason, quality, cost))
        rows += [(cost_axis, model, False, reason, math.nan, math.nan) for model, reason in encoded.reasons.items()]
    names = ["cost_axis", "model_id", "is_in_frontier", "reason", "quality", "cost_usd"]
    return pd.DataFrame(rows, columns=names) if rows else _empty(FRONTIER_MODELS)


def limits_frame(limits: Sequence[LatencyLimit], encoded: EncodedGenerations) -> pd.DataFrame | Any:
    """estimates.frontier_latency_limits: one row a limit."""
    import pandas as pd

    from capeval_pipeline.methods.debiasing.latency_limits import SHARE_ALLOWED

    if not limits:
        return _empty(FRONTIER_LATENCY_LIMITS)
    return pd.DataFrame(
        [
            {
                "latency_limit_s": limit.limit_s,
                "share_allowed": SHARE_ALLOWED,
                "best_model_id": encoded.models[limit.best_index] if limit.best_index >= 0 else None,
                "best_quality": limit.best_quality,
                "best_share_late": limit.best_share_late,
                "naive_quality": limit.naive,
                "cross_fit_quality": limit.cross_fit,
                "lower": limit.lower,
                "upper": limit.upper,
            }
            for limit in limits
        ]
    )


def _empty(key: str) -> Any:
    from capeval_pipeline.storage.conformity import empty
    from capeval_pipeline.storage.tables import TABLES

    return empty(TABLES[key])
