"""The stage `frontier` in sentences: which numbers of its analyses each of them is told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capeval_pipeline.orchestration.assets.frontier_frames import (
    FRONTIER_DIAGNOSTICS,
    FRONTIER_HEADLINES,
    FRONTIER_LATENCY_LIMITS,
    GAIN_RESAMPLES,
    ORACLE_ESTIMATES,
    gain_limits,
)
from capeval_pipeline.orchestration.stages import Verdict
from capeval_pipeline.reporting.verdicts import frontier as sentences
from capeval_pipeline.stage_settings.frontier import FrontierSettings

if TYPE_CHECKING:
    from capeval_pipeline.arrays.generations import EncodedGenerations
    from capeval_pipeline.methods.debiasing.frontier_records import CostAxisAnalysis, Figure, FrontierHeadline
    from capeval_pipeline.methods.debiasing.latency_limits import LatencyLimit
    from capeval_pipeline.methods.debiasing.oracle_analysis import OracleAnalysis
    from capeval_pipeline.methods.debiasing.problem import OracleProblem
    from capeval_pipeline.methods.frontier.cluster_router import RouterCurve


@dataclass(frozen=True, eq=False)
class Findings:
    """What the stage found. oracle_on_test : naive frontier of the router's test items at its best model's cost.

    has_scale: the range of scores has two ends, so that quality is a share of it.
    """

    oracle: "OracleAnalysis"
    axes: dict[str, "CostAxisAnalysis"]
    encoded: "EncodedGenerations"
    problem: "OracleProblem"
    routers: dict[str, "RouterCurve"]
    oracle_on_test: float
    limits: Sequence["LatencyLimit"]
    has_scale: bool = True


def answers(found: Findings, settings: FrontierSettings) -> list[Verdict]:
    """Sentences, one a question; what always belongs to the frontier's (who is left out) is part of its sentence."""
    encoded = found.encoded
    if not found.has_scale:  # every sentence below tells shares of a range
        table = FRONTIER_HEADLINES if found.axes else ORACLE_ESTIMATES
        return [Verdict("frontier", sentences.no_scale_sentence(table), table)]
    left_out = sentences.left_out_sentence(encoded.left_out, len(encoded.models))
    told: list[tuple[str, list[str | None], str]] = []
    if "usd" in found.axes:
        analysis = found.axes["usd"]
        constant = sentences.constant_cost_sentence(analysis.best.cost_usd) if analysis.is_cost_constant else None
        told.append(("frontier", [_frontier(found, analysis), constant, left_out], FRONTIER_HEADLINES))
        told.append(("frontier_saving", [_saving(analysis, encoded)], FRONTIER_HEADLINES))
        told.append(("frontier_router", [_router(found, analysis)], FRONTIER_HEADLINES))
    else:
        told.append(("frontier", [_oracle(found), left_out], ORACLE_ESTIMATES))
    if "latency_p95_s" in found.axes:
        told.append(("frontier_latency", _latency(found, found.axes["latency_p95_s"]), FRONTIER_LATENCY_LIMITS))
    told.append(("frontier_draws", [_draws(found, settings)], FRONTIER_DIAGNOSTICS))
    return [
        Verdict(question, " ".join(sentence for sentence in parts if sentence), table)
        for question, parts, table in told
        if any(parts)
    ]


def _headline(analysis: "CostAxisAnalysis", estimator: str, routing: str) -> "FrontierHeadline":
    return next(row for row in analysis.headlines if (row.estimator, row.routing) == (estimator, routing))


def _matched(analysis: "CostAxisAnalysis", estimator: str) -> "Figure":
    return _headline(analysis, estimator, "pre_hoc").oracle_quality


def _frontier(found: Findings, analysis: "CostAxisAnalysis") -> str:
    headline = _headline(analysis, "headline", "pre_hoc")
    return sentences.frontier_sentence(
        verdict=found.oracle.verdict.kind,
        reason=found.oracle.verdict.reason,
        best_model=found.encoded.models[analysis.best.index],
        best_quality=analysis.best.quality,
        best_cost=analysis.best.cost_usd,
        value=headline.oracle_quality.value,
        lower=headline.oracle_quality.lower,
        upper=headline.oracle_quality.upper,
        naive=_matched(analysis, "naive").value,
        constant=analysis.constant_quality_at_matched_cost,
        held_out=analysis.best_quality_held_out,
    )


def _oracle(found: Findings) -> str:
    headline = found.oracle.estimates["", "headline"]
    draws = found.problem.draws
    means = [
        float(draws.total_right[draws.n_draws[:, model] > 0, model].sum() / max(int(draws.n_draws[:, model].sum()), 1))
        for model in range(draws.scores.shape[1])
    ]
    return sentences.oracle_sentence(
        verdict=found.oracle.verdict.kind,
        reason=found.oracle.verdict.reason,
        value=headline.value,
        lower=headline.lower,
        upper=headline.upper,
        naive=found.oracle.estimates["", "naive"].value,
        best_quality=max(means),
    )


def _saving(analysis: "CostAxisAnalysis", encoded: "EncodedGenerations") -> str | None:
    saving = _headline(analysis, "headline", "pre_hoc").cost_saving
    return sentences.saving_sentence(
        best_model=encoded.models[analysis.best.index],
        best_quality=analysis.best.quality,
        best_cost=analysis.best.cost_usd,
        saving=saving.value,
        saving_lower=saving.lower,
        saving_upper=saving.upper,
        constant_saving=_headline(analysis, "naive", "constant").cost_saving.value,
    )


def _latency(found: Findings, analysis: "CostAxisAnalysis") -> list[str | None]:
    """The frontier with a cell's 95 % quantile as its cost, and what the limits on a whole system's allow."""
    headline = _headline(analysis, "headline", "pre_hoc").oracle_quality
    first = sentences.latency_sentence(
        verdict=found.oracle.verdict.kind,
        best_model=found.encoded.models[analysis.best.index],
        best_quality=analysis.best.quality,
        best_seconds=analysis.best.cost_usd,
        value=headline.value,
        lower=headline.lower,
        upper=headline.upper,
        naive=_matched(analysis, "naive").value,
        left_out=list(found.encoded.latency_reasons),
        n_draws=found.problem.draws.n_generations,
    )
    # The table has every limit; told is the largest, usually the best single model's own.
    limited = [
        sentences.latency_limit_sentence(
            seconds=limit.limit_s,
            lower=limit.lower,
            upper=limit.upper,
            best_model=found.encoded.models[limit.best_index] if limit.best_index >= 0 else "",
            best_quality=limit.best_quality,
        )
        for limit in found.limits[-1:]
    ]
    return [first, *limited]


def _draws(found: Findings, settings: FrontierSettings) -> str | None:
    """What would be needed to know more. In the blind zone the forecast is far too low, so it stays unsaid there."""
    oracle = found.oracle
    if oracle.has_forecast and oracle.verdict.kind == "point":
        return sentences.draws_sentence(
            needed=oracle.generations_needed,
            n_generations=found.problem.draws.n_generations,
            target_bias=settings.target_bias,
        )
    return sentences.to_know_more_sentence(
        verdict=oracle.verdict.kind, cause=oracle.verdict.cause, n_generations=found.problem.draws.n_generations
    )


def _router(found: Findings, analysis: "CostAxisAnalysis") -> str | None:
    """Share of the oracle's gain over the best single model that routers get at its cost, all on the test items."""
    if "cluster" not in found.routers:
        return None
    router = found.routers["cluster"]
    # The test items' own naive frontier, less the bias that was found over all items at that cost.
    oracle = found.oracle_on_test - (_matched(analysis, "naive").value - _matched(analysis, "headline").value)
    least, most = gain_limits(router, GAIN_RESAMPLES)
    by_category = found.routers.get("category")
    return sentences.router_sentence(
        quality=router.quality_at(router.best_cost),
        best_model=found.encoded.models[router.best_index],
        best_quality=router.best_quality,
        oracle_quality=oracle,
        gain_lower=least,
        gain_upper=most,
        n_items=len(router.rows),
        share_by_category=_share_of_gain(by_category, oracle) if by_category else math.nan,
    )


def _share_of_gain(router: "RouterCurve", oracle_quality: float) -> float:
    gain = oracle_quality - router.best_quality
    return (router.quality_at(router.best_cost) - router.best_quality) / gain if gain > 0 else math.nan
