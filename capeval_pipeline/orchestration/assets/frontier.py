"""The stage `frontier`: how much better than the best single model a mixture could be, at what cost."""

import math
from typing import TYPE_CHECKING

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.assets import frontier_frames as frames
from capeval_pipeline.orchestration.assets.frontier_answers import Findings, answers
from capeval_pipeline.orchestration.stages import CheckOutcome, Part, StageResult, stage_asset
from capeval_pipeline.stage_settings.frontier import FrontierSettings

if TYPE_CHECKING:
    from capeval_pipeline.arrays.generations import EncodedGenerations
    from capeval_pipeline.methods.debiasing.frontier_records import CostAxisAnalysis
    from capeval_pipeline.methods.debiasing.latency_limits import LatencyLimit
    from capeval_pipeline.methods.debiasing.oracle_analysis import OracleAnalysis
    from capeval_pipeline.methods.debiasing.problem import OracleProblem
    from capeval_pipeline.methods.debiasing.verdict import Verdict as OracleVerdict
    from capeval_pipeline.methods.frontier.cluster_router import RouterCurve

FIGURE_CHECK = "one_figure_may_be_given"
_ROUTER_METHODS = ("ecc_shrunk", "ecc")


@stage_asset(
    stage="frontier",
    tables=[
        frames.ORACLE_ESTIMATES,
        frames.ORACLE_BIAS_CURVE,
        frames.FRONTIER_POINTS,
        frames.FRONTIER_HEADLINES,
        frames.FRONTIER_DIAGNOSTICS,
        frames.FRONTIER_MODELS,
        frames.FRONTIER_LATENCY_LIMITS,
    ],
    inputs=[
        "staging.stg_generations",
        "staging.stg_items",
        "intermediate.item_splits",
        "estimates.cluster_responsibilities",
        "raw.benchmarks",
    ],
    question="frontier",
    check_names={frames.FRONTIER_DIAGNOSTICS: (FIGURE_CHECK,)},
    warning_checks=[FIGURE_CHECK],
)
def frontier(part: Part, settings: FrontierSettings) -> StageResult:
    """Capability frontier: the best reachable mean quality at each cost, with the luck of taking maxima removed.

    Oracle values by every estimator, the curve of the naive oracle by number of draws, frontiers on each cost axis
    with a band, the matched-cost and matched-quality figures, and whether one figure may be given at all.
    """
    import pandas as pd

    from capeval_pipeline.arrays.generations import encode_generations
    from capeval_pipeline.methods.debiasing import DrawTable, OracleProblem
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
        n_refits=settings.n_refits,
        topic_counts=tuple(settings.topic_counts),
    )
    oracle = analyse_oracle(problem, categories=encoded.categories, target_bias=settings.target_bias)
    axes = _axes(problem, encoded, oracle.verdict, settings)
    limits = _latency_limits(problem, encoded, axes, settings)
    routers, oracle_on_test = _routers(part, encoded, axes, problem) if "usd" in axes else ({}, math.nan)
    has_scale = part.benchmark.get("score_low") is not None and part.benchmark.get("score_high") is not None
    found = Findings(oracle, axes, encoded, problem, routers, oracle_on_test, limits, has_scale)
    return StageResult(
        tables={
            frames.ORACLE_ESTIMATES: frames.oracle_frame(oracle, encoded, problem),
            frames.ORACLE_BIAS_CURVE: pd.DataFrame([vars(point) for point in oracle.curve]),
            frames.FRONTIER_POINTS: frames.points_frame(axes, routers),
            frames.FRONTIER_HEADLINES: frames.headlines_frame(axes, encoded, routers, has_scale=has_scale),
            frames.FRONTIER_DIAGNOSTICS: frames.diagnostics_frame(oracle, encoded, problem),
            frames.FRONTIER_MODELS: frames.models_frame(axes, encoded),
            frames.FRONTIER_LATENCY_LIMITS: frames.limits_frame(limits, encoded),
        },
        verdicts=answers(found, settings),
        numbers=_numbers(oracle, encoded, problem),
        checks=[figure_check(oracle.verdict)],
    )


def figure_check(verdict: "OracleVerdict") -> CheckOutcome:
    """Whether the diagnostics allow one figure for what a mixture gains, and what stands against it."""
    found = {
        "point": "The diagnostics have nothing against one figure.",
        "bracket_only": f"Only limits may be given: {verdict.reason}.",
        "upper_bound_only": f"Only an upper limit may be given: {verdict.reason}.",
    }
    return CheckOutcome(frames.FRONTIER_DIAGNOSTICS, FIGURE_CHECK, verdict.kind == "point", found[verdict.kind])


def _axes(
    problem: "OracleProblem", encoded: "EncodedGenerations", verdict: "OracleVerdict", settings: FrontierSettings
) -> dict[str, "CostAxisAnalysis"]:
    from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis

    axes = {}
    if encoded.cost_usd is not None:
        axes["usd"] = analyse_cost_axis(
            problem,
            encoded.cost_usd,
            verdict=verdict,
            n_prices=settings.n_prices,
            n_multipliers=settings.n_multipliers,
        )
    if encoded.latency_s is not None:
        axes["latency_p95_s"] = analyse_cost_axis(
            problem,
            encoded.latency_s,
            verdict=verdict,
            statistic="p95",
            n_prices=settings.n_prices,
            n_multipliers=settings.n_multipliers,
        )
    return axes


def _latency_limits(
    problem: "OracleProblem",
    encoded: "EncodedGenerations",
    axes: dict[str, "CostAxisAnalysis"],
    settings: FrontierSettings,
) -> list["LatencyLimit"]:
    from capeval_pipeline.methods.debiasing.latency_limits import latency_limits, usual_limits

    if encoded.latency_s is None:
        return []
    chosen = settings.latency_limits_s or usual_limits(encoded.latency_s, axes["latency_p95_s"].best.index)
    return latency_limits(
        problem,
        encoded.latency_s,
        sorted(set(chosen)),
        n_prices=settings.n_prices,
        n_multipliers=settings.n_multipliers,
    )


def _routers(
    part: Part, encoded: "EncodedGenerations", axes: dict[str, "CostAxisAnalysis"], problem: "OracleProblem"
) -> tuple[dict[str, "RouterCurve"], float]:
    """Routers by learned cluster and by true category on the test items, none where there are no clusters.

    Also the naive frontier of the test items at the cost of the best single model.
    """
    import numpy as np

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
