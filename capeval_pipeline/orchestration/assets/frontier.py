"""The stage `frontier`: how much better than the best single model a mixture could be, at what cost."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.stages import Part, StageResult, Verdict, stage_asset
from capeval_pipeline.reporting.verdicts import frontier as sentences
from capeval_pipeline.stage_settings.frontier import FrontierSettings

if TYPE_CHECKING:
    from capeval_pipeline.arrays.generations import EncodedGenerations
    from capeval_pipeline.methods.debiasing.frontier_records import CostAxisAnalysis, Figure
    from capeval_pipeline.methods.debiasing.oracle_analysis import OracleAnalysis
    from capeval_pipeline.methods.debiasing.problem import OracleProblem
    from capeval_pipeline.methods.frontier.cluster_router import RouterCurve

ORACLE_ESTIMATES = "estimates.oracle_estimates"
ORACLE_BIAS_CURVE = "estimates.oracle_bias_curve"
FRONTIER_POINTS = "estimates.frontier_points"
FRONTIER_HEADLINES = "estimates.frontier_headlines"
FRONTIER_DIAGNOSTICS = "estimates.frontier_diagnostics"
_ROUTER_METHODS = ("ecc_shrunk", "ecc")


@stage_asset(
    stage="frontier",
    tables=[ORACLE_ESTIMATES, ORACLE_BIAS_CURVE, FRONTIER_POINTS, FRONTIER_HEADLINES, FRONTIER_DIAGNOSTICS],
    inputs=[
        "staging.stg_generations",
        "staging.stg_items",
        "intermediate.item_splits",
        "estimates.cluster_responsibilities",
        "raw.benchmarks",
    ],
    question="frontier",
)
def frontier(part: Part, settings: FrontierSettings) -> StageResult:
    """Capability frontier: the best reachable mean quality at each cost, with the luck of taking maxima removed.

    Oracle values by every estimator, the curve of the naive oracle by number of draws, frontiers on each cost axis
    with a band, the matched-cost and matched-quality figures, and whether one figure may be given at all.
    """
    from capeval_pipeline.arrays.generations import encode_generations
    from capeval_pipeline.methods.debiasing import DrawTable, OracleProblem
    from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis
    from capeval_pipeline.methods.debiasing.oracle_analysis import analyse_oracle

    generations = part.read("staging.stg_generations")
    if generations["quality"].notna().sum() == 0:
        raise StageSkipped("no answer has a score, and judgments alone have no frontier")
    encoded = encode_generations(
        generations, part.read("staging.stg_items"), max_missing_share=settings.max_missing_share
    )
    if len(encoded.models) < 2:
        raise StageSkipped(f"{encoded.models[0]} is the only model with scores")
    draws = DrawTable(encoded.scores, encoded.cost_usd, part.benchmark.get("has_true_generations") is not False)
    problem = OracleProblem(
        draws,
        seed=settings.seed,
        n_splits=settings.n_splits,
        n_simulations=settings.n_simulations,
        n_permutations=settings.n_permutations,
        topic_counts=tuple(settings.topic_counts),
    )
    oracle = analyse_oracle(problem, categories=encoded.categories, target_bias=settings.target_bias)
    axes: dict[str, CostAxisAnalysis] = {}
    for name, cost in (("usd", encoded.cost_usd), ("latency_p95_s", encoded.latency_s)):
        if cost is not None:
            axes[name] = analyse_cost_axis(
                problem,
                cost,
                verdict=oracle.verdict,
                statistic="mean" if name == "usd" else "p95",
                n_prices=settings.n_prices,
                n_multipliers=settings.n_multipliers,
            )
    routers, oracle_on_test = _routers(part, encoded, axes, problem) if "usd" in axes else ({}, math.nan)
    has_scale = part.benchmark.get("score_low") is not None and part.benchmark.get("score_high") is not None
    return StageResult(
        tables={
            ORACLE_ESTIMATES: _oracle_frame(oracle, encoded, problem),
            ORACLE_BIAS_CURVE: pd.DataFrame([vars(point) for point in oracle.curve]),
            FRONTIER_POINTS: _points_frame(axes, routers),
            FRONTIER_HEADLINES: _headlines_frame(axes, encoded, routers, has_scale=has_scale),
            FRONTIER_DIAGNOSTICS: _diagnostics_frame(oracle, encoded, problem),
        },
        verdicts=_verdicts(oracle, axes, encoded, problem, settings, routers, oracle_on_test),
        numbers=_numbers(oracle, encoded, problem),
    )


def _oracle_frame(oracle: "OracleAnalysis", encoded: "EncodedGenerations", problem: "OracleProblem") -> pd.DataFrame:
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


def _points_frame(axes: dict[str, "CostAxisAnalysis"], routers: dict[str, "RouterCurve"]) -> pd.DataFrame | Any:
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
                    **dict.fromkeys(("lower", "upper", "lower_fixed", "upper_fixed"), unknown),
                }
            )
        )
    return pd.concat(frames, ignore_index=True) if frames else _empty(FRONTIER_POINTS)


def _headlines_frame(
    axes: dict[str, "CostAxisAnalysis"],
    encoded: "EncodedGenerations",
    routers: dict[str, "RouterCurve"],
    *,
    has_scale: bool,
) -> pd.DataFrame | Any:
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
                    "n_models": len(encoded.models),
                    "draws_allowed": headline.draws_allowed,
                    "best_model_id": encoded.models[analysis.best.index],
                    **_figure(
                        "constant_quality_at_matched_cost",
                        Figure(analysis.constant_quality_at_matched_cost, math.nan, math.nan),
                    ),
                    **_figure("best_quality", analysis.best_quality),
                    **_figure("best_cost_usd", analysis.best_cost),
                    **_figure("oracle_quality_at_matched_cost", headline.oracle_quality),
                    **_figure("matched_cost_error_reduction", headline.error_reduction if has_scale else unknown),
                    **_figure("matched_quality_cost_saving", headline.cost_saving),
                }
            )
    if "cluster" in routers:
        rows.append(_router_headline(routers["cluster"], encoded, has_scale=has_scale))
    return pd.DataFrame(rows) if rows else _empty(FRONTIER_HEADLINES)


def _router_headline(router: "RouterCurve", encoded: "EncodedGenerations", *, has_scale: bool) -> dict[str, Any]:
    """The router against the best single model of the training items, both on the test items."""
    from capeval_pipeline.methods.debiasing.frontier_records import Figure
    from capeval_pipeline.methods.frontier import Frontier, frontier_cost_at

    reached = router.quality_at(router.best_cost)
    reduction = (reached - router.best_quality) / (1 - router.best_quality) if router.best_quality < 1 else math.nan
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
        **_figure("best_quality", Figure(router.best_quality)),
        **_figure("best_cost_usd", Figure(router.best_cost)),
        **_figure("oracle_quality_at_matched_cost", Figure(reached)),
        **_figure("matched_cost_error_reduction", Figure(reduction if has_scale else math.nan)),
        **_figure("matched_quality_cost_saving", Figure(saving)),
    }


def _figure(name: str, figure: "Figure") -> dict[str, float]:
    return {name: figure.value, f"{name}_lower": figure.lower, f"{name}_upper": figure.upper}


def _diagnostics_frame(
    oracle: "OracleAnalysis", encoded: "EncodedGenerations", problem: "OracleProblem"
) -> pd.DataFrame:
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


def _empty(key: str) -> Any:
    from capeval_pipeline.storage.conformity import empty
    from capeval_pipeline.storage.tables import TABLES

    return empty(TABLES[key])


def _routers(
    part: Part, encoded: "EncodedGenerations", axes: dict[str, "CostAxisAnalysis"], problem: "OracleProblem"
) -> tuple[dict[str, "RouterCurve"], float]:
    """Routers by learned cluster and by true category on the test items, none where there are no clusters.

    Also the naive frontier of the test items at the cost of the best single model.
    """
    from capeval_pipeline.arrays.generations import encode_responsibilities
    from capeval_pipeline.methods.frontier import exact_frontier, frontier_quality_at
    from capeval_pipeline.methods.frontier.cluster_router import cluster_router_curve, one_hot

    responsibilities = part.read("estimates.cluster_responsibilities")
    splits = part.read("intermediate.item_splits")
    method = next((name for name in _ROUTER_METHODS if (responsibilities["method"] == name).any()), None)
    if method is None or splits.empty:
        return {}, math.nan
    responsibility, is_test, known = encode_responsibilities(
        responsibilities[responsibilities["method"] == method], splits, encoded.items
    )
    if not (is_test & known).any() or not (~is_test & known).any():
        return {}, math.nan
    quality, cost = problem.draws.mean_quality, problem.draws.equal_cost.mean(axis=2)
    prices = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 64) / max(axes["usd"].best.cost_usd, 1e-12)))
    routers = {"cluster": cluster_router_curve(quality[known], cost[known], responsibility, is_test[known], prices)}
    if any(isinstance(category, str) for category in encoded.categories):
        routers["category"] = cluster_router_curve(
            quality[known], cost[known], one_hot(encoded.categories[known]), is_test[known], prices
        )
    tested = known & is_test & ~np.isnan(quality + cost).all(axis=1)
    naive = exact_frontier(quality[tested], cost[tested])
    return routers, float(frontier_quality_at(naive, routers["cluster"].best_cost))


def _numbers(
    oracle: "OracleAnalysis", encoded: "EncodedGenerations", problem: "OracleProblem"
) -> dict[str, float | int]:
    numbers: dict[str, float | int] = {
        "n_items": len(encoded.items),
        "n_models": len(encoded.models),
        "n_models_left_out": len(encoded.left_out),
        "n_items_left_out": encoded.n_items_left_out,
        "n_generations": problem.draws.n_generations,
        "naive_oracle": oracle.estimates["", "naive"].value,
        "ceiling_share": oracle.ceiling_share,
    }
    value = oracle.estimates["", "headline"].value
    if not math.isnan(value):
        numbers["headline_oracle"] = value
    if not math.isnan(oracle.bracket_ratio):
        numbers["bracket_ratio"] = oracle.bracket_ratio
    if "posterior" in problem.__dict__:
        numbers["topic_model_last_rise"] = problem.posterior.fit.last_rise
    return numbers


def _verdicts(
    oracle: "OracleAnalysis",
    axes: dict[str, "CostAxisAnalysis"],
    encoded: "EncodedGenerations",
    problem: "OracleProblem",
    settings: FrontierSettings,
    routers: dict[str, "RouterCurve"],
    oracle_on_test: float,
) -> list[Verdict]:
    """Sentences, one a question; what always belongs to the frontier's (who is left out) is part of its sentence."""
    left_out = sentences.left_out_sentence(encoded.left_out, len(encoded.models))
    answers: list[tuple[str, list[str | None], str]] = []
    if "usd" in axes:
        analysis = axes["usd"]
        first = _frontier_sentence(oracle, analysis, encoded)
        constant = sentences.constant_cost_sentence(analysis.best.cost_usd) if analysis.is_cost_constant else None
        answers.append(("frontier", [first, constant, left_out], FRONTIER_HEADLINES))
        answers.append(("frontier_saving", [_saving_sentence(analysis, encoded)], FRONTIER_HEADLINES))
        answers.append(("frontier_router", [_router_sentence(analysis, routers, oracle_on_test)], FRONTIER_HEADLINES))
    else:
        answers.append(("frontier", [_oracle_sentence(oracle, problem), left_out], ORACLE_ESTIMATES))
    # In the blind zone the forecast is far too low, so it is only quoted where the model may be.
    if oracle.has_forecast and oracle.verdict.kind == "point":
        needed = sentences.draws_sentence(
            needed=oracle.generations_needed,
            n_generations=problem.draws.n_generations,
            target_bias=settings.target_bias,
        )
        answers.append(("frontier_draws", [needed], FRONTIER_DIAGNOSTICS))
    return [
        Verdict(question, " ".join(sentence for sentence in parts if sentence), table)
        for question, parts, table in answers
        if any(parts)
    ]


def _frontier_sentence(oracle: "OracleAnalysis", analysis: "CostAxisAnalysis", encoded: "EncodedGenerations") -> str:
    shown = {(row.estimator, row.routing): row.oracle_quality for row in analysis.headlines}
    headline = shown["headline", "pre_hoc"]
    return sentences.frontier_sentence(
        verdict=oracle.verdict.kind,
        reason=oracle.verdict.reason,
        best_model=encoded.models[analysis.best.index],
        best_quality=analysis.best.quality,
        best_cost=analysis.best.cost_usd,
        value=headline.value,
        lower=headline.lower,
        upper=headline.upper,
        naive=shown["naive", "pre_hoc"].value,
        constant=analysis.constant_quality_at_matched_cost,
    )


def _oracle_sentence(oracle: "OracleAnalysis", problem: "OracleProblem") -> str:
    headline = oracle.estimates["", "headline"]
    draws = problem.draws
    means = [
        float(draws.total_right[draws.n_draws[:, model] > 0, model].sum() / max(int(draws.n_draws[:, model].sum()), 1))
        for model in range(draws.scores.shape[1])
    ]
    return sentences.oracle_sentence(
        verdict=oracle.verdict.kind,
        reason=oracle.verdict.reason,
        value=headline.value,
        lower=headline.lower,
        upper=headline.upper,
        naive=oracle.estimates["", "naive"].value,
        best_quality=max(means),
    )


def _saving_sentence(analysis: "CostAxisAnalysis", encoded: "EncodedGenerations") -> str | None:
    saving = next(
        row.cost_saving for row in analysis.headlines if (row.estimator, row.routing) == ("headline", "pre_hoc")
    )
    return sentences.saving_sentence(
        best_model=encoded.models[analysis.best.index],
        best_quality=analysis.best.quality,
        best_cost=analysis.best.cost_usd,
        saving=saving.value,
        saving_lower=saving.lower,
        saving_upper=saving.upper,
    )


def _router_sentence(
    analysis: "CostAxisAnalysis", routers: dict[str, "RouterCurve"], oracle_on_test: float
) -> str | None:
    """Share of the oracle's gain over the best single model that routers get at its cost, all on the test items."""
    if "cluster" not in routers:
        return None
    shown = {(row.estimator, row.routing): row.oracle_quality.value for row in analysis.headlines}
    # The test items' own naive frontier, less the bias that was found over all items at that cost.
    bias = shown["naive", "pre_hoc"] - shown["headline", "pre_hoc"]
    shares = {name: _share_of_gain(router, oracle_on_test - bias) for name, router in routers.items()}
    return sentences.router_sentence(
        share_of_gain=shares["cluster"], share_by_category=shares.get("category", math.nan)
    )


def _share_of_gain(router: "RouterCurve", oracle_quality: float) -> float:
    gain = oracle_quality - router.best_quality
    return (router.quality_at(router.best_cost) - router.best_quality) / gain if gain > 0 else math.nan
