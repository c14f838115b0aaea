"""Everything about one number, the oracle's quality: all estimators, by category, the curve, the verdict."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.debiasing import DEBIASERS
from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, mean_of_items
from capeval_pipeline.methods.debiasing.extrapolation import fitted_exponent, intercept_weights
from capeval_pipeline.methods.debiasing.model_based import (
    bracket_ratio,
    corrected_items,
    corrected_value,
    half_widths,
    within_bracket,
)
from capeval_pipeline.methods.debiasing.planner import GENERATION_CHOICES, forecast_bias, generations_needed
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.debiasing.verdict import LEAST_ITEMS, Verdict, judge

FloatArray = NDArray[np.float64]
_HEADLINE = "the naive oracle minus its bias under the topic model, inside the bracket"


@dataclass(frozen=True)
class BiasCurvePoint:
    """Naive oracle with g draws a cell: observed (subsamples) or forecast; NaN where unknown."""

    g: int
    source: str
    naive_value: float
    fitted_value: float
    local_exponent: float


@dataclass(frozen=True, eq=False)
class OracleAnalysis:
    """estimates: by (category, estimator), category '' the whole benchmark; NaN values where refused."""

    estimates: dict[tuple[str, str], OracleEstimate]
    n_items: dict[str, int]
    curve: list[BiasCurvePoint]
    verdict: Verdict
    shock_z: float
    shock_factor: float
    bracket_ratio: float
    ceiling_share: float
    n_topics: int | None
    generations_needed: int | None
    has_forecast: bool


def analyse_oracle(
    problem: OracleProblem, *, categories: NDArray[np.object_] | None = None, target_bias: float = 0.01
) -> OracleAnalysis:
    """Run every estimator that applies, judge whether one figure may be given, and plan the draws.

    categories : (n_items,) names, None or '' where unknown; target_bias : for `generations_needed`
    """
    has_several = problem.draws.n_generations > 1
    failure = _model_failure(problem) if has_several else ""
    has_model = has_several and not failure
    estimates = {("", "naive"): DEBIASERS["naive"](problem)}
    if has_several:
        skipped = {"naive"} if has_model else {"naive", "pgm", "bracket_interpolation", "bias_corrected"}
        if not problem.draws.is_bounded:
            skipped |= {"beta_binomial"}
        estimates |= {("", name): DEBIASERS[name](problem) for name in DEBIASERS if name not in skipped}
    ceiling = _ceiling_share(problem)
    ratio = bracket_ratio(problem) if has_model else math.nan
    graded = math.nan
    if has_model and not problem.draws.is_binary:
        graded = abs(estimates["", "pgm"].value - estimates["", "gaussian"].value)
    verdict = judge(
        n_items=len(problem.naive_items),
        n_generations=problem.draws.n_generations,
        ceiling_share=ceiling,
        bracket_ratio=ratio,
        shock_z=problem.shock.z,
        shock_factor=problem.shock.factor,
        graded_disagreement=graded,
        model_failure=failure,
    )
    estimates["", "headline"] = _headline(estimates, "", verdict)
    n_items = {"": len(problem.naive_items)}
    for category, members in _category_members(categories):
        n_items[category] = int(members.sum())
        estimates |= _category_estimates(problem, category, members, verdict, has_model)
    if problem.draws.is_bounded:
        estimates = {key: _within_range(estimate) for key, estimate in estimates.items()}
    bias = forecast_bias(problem.posterior, _forecast_generations(problem)) if has_model else {}
    return OracleAnalysis(
        estimates=estimates,
        n_items=n_items,
        curve=_bias_curve(problem, estimates, bias),
        verdict=verdict,
        shock_z=problem.shock.z,
        shock_factor=problem.shock.factor,
        bracket_ratio=ratio,
        ceiling_share=ceiling,
        n_topics=problem.posterior.fit.n_topics if has_model else None,
        generations_needed=generations_needed(bias, target_bias) if has_model else None,
        has_forecast=has_model,
    )


def _within_range(estimate: OracleEstimate) -> OracleEstimate:
    """Limits inside 0…1: a normal interval near the ceiling runs over it."""
    lower, upper, lower_fixed, upper_fixed = np.clip(
        [estimate.lower, estimate.upper, estimate.lower_fixed, estimate.upper_fixed], 0.0, 1.0
    )
    return replace(
        estimate,
        lower=float(lower),
        upper=float(upper),
        lower_fixed=float(lower_fixed),
        upper_fixed=float(upper_fixed),
    )


def _model_failure(problem: OracleProblem) -> str:
    """Why the topic model does not apply, '' where it does; a failed fit refuses the figure, not the bracket."""
    try:
        _ = problem.posterior
    except (ConvergenceError, ValueError) as error:
        return str(error)
    return ""


def _ceiling_share(problem: OracleProblem) -> float:
    scores = problem.draws.equal_scores
    return float((np.nan_to_num(scores, nan=-1.0).min(axis=2) >= 1.0).any(axis=1).mean())


def _headline(estimates: dict[tuple[str, str], OracleEstimate], category: str, verdict: Verdict) -> OracleEstimate:
    """bias_corrected where a point may be given, else the bracket, else the upper bound alone."""
    upper = estimates[category, "naive"]
    if verdict.kind == "point":
        point = estimates[category, "bias_corrected"]
        return OracleEstimate(
            point.value, point.items, point.lower, point.upper, point.lower_fixed, point.upper_fixed, _HEADLINE
        )
    lower = estimates.get((category, "cross_fit"))
    return OracleEstimate(
        math.nan,
        None,
        math.nan if lower is None else lower.lower,
        upper.upper,
        math.nan if lower is None else lower.lower_fixed,
        upper.upper_fixed,
        f"refused: {verdict.reason}",
    )


def _category_members(categories: NDArray[np.object_] | None) -> list[tuple[str, NDArray[np.bool_]]]:
    if categories is None:
        return []
    names = sorted({name for name in categories if isinstance(name, str) and name})
    return [(name, np.array([value == name for value in categories])) for name in names]


def _category_estimates(
    problem: OracleProblem, category: str, members: NDArray[np.bool_], verdict: Verdict, has_model: bool
) -> dict[tuple[str, str], OracleEstimate]:
    """One pooled fit, means over the category's items; never a fit a category. Below 100 items the bracket only."""
    naive_items = problem.naive_items[members]
    estimates = {(category, "naive"): mean_of_items(naive_items, "as for the whole benchmark")}
    if problem.draws.n_generations > 1:
        cross_fit_items = problem.cross_fit_items[members]
        estimates[category, "cross_fit"] = mean_of_items(cross_fit_items, "as for the whole benchmark")
    if has_model:
        value, widths = corrected_value(problem, members), half_widths(problem, members)
        pooled = OracleEstimate(
            value,
            corrected_items(problem)[members],
            value - widths.population,
            value + widths.population,
            value - widths.fixed,
            value + widths.fixed,
            "one fit for the whole benchmark",
        )
        ends = estimates[category, "cross_fit"], estimates[category, "naive"]
        estimates[category, "bias_corrected"] = within_bracket(pooled, *ends)
    if verdict.kind == "point" and len(naive_items) < LEAST_ITEMS:
        verdict = Verdict("bracket_only", f"{len(naive_items)} items, fewer than {LEAST_ITEMS}")
    estimates[category, "headline"] = _headline(estimates, category, verdict)
    return estimates


def _forecast_generations(problem: OracleProblem) -> list[int]:
    observed = range(1, problem.draws.n_generations + 1)
    return sorted({*observed, *GENERATION_CHOICES})


def _bias_curve(
    problem: OracleProblem, estimates: dict[tuple[str, str], OracleEstimate], bias: dict[int, float]
) -> list[BiasCurvePoint]:
    """Observed: O(g), beside the fitted decay. Forecast: the corrected value plus the model's bias at g draws."""
    n_generations = problem.draws.n_generations
    curve = problem.curve_items.mean(axis=0)
    corrected = estimates["", "bias_corrected"].value if ("", "bias_corrected") in estimates else math.nan
    fitted = np.full(n_generations, math.nan)
    if n_generations > 1:
        decay = np.arange(1, n_generations + 1) ** -fitted_exponent(curve)
        intercept = float(curve @ intercept_weights(n_generations, fitted_exponent(curve)))
        slope = float((curve - intercept) @ decay / (decay @ decay))
        fitted = intercept + slope * decay
    exponents = local_exponents(np.arange(1, n_generations + 1), curve - corrected)
    points = [
        BiasCurvePoint(g + 1, "observed", float(curve[g]), float(fitted[g]), exponents[g]) for g in range(n_generations)
    ]
    ahead = sorted(g for g in bias if g > n_generations)
    exponents = local_exponents(np.array(ahead), np.array([bias[g] for g in ahead]))
    truth = float(problem.simulation.true_items.mean()) if bias else math.nan
    return points + [
        BiasCurvePoint(g, "forecast", corrected + bias[g], truth + bias[g], exponent)
        for g, exponent in zip(ahead, exponents, strict=True)
    ]


def local_exponents(generations: NDArray[np.int64], bias: FloatArray) -> list[float]:
    """−d ln bias/d ln g to the next g (the last from the one before); NaN where a bias is not positive."""
    if len(generations) < 2:
        return [math.nan] * len(generations)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_bias = np.log(np.where(bias > 0, bias, np.nan))
        between = -np.diff(log_bias) / np.diff(np.log(generations))
    return [float(value) for value in np.append(between, between[-1])]
