"""Estimators that rest on the topic model: its own answer, and the two that correct the bracket by simulation."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from capeval_pipeline.methods.debiasing.cross_fit_estimator import cross_fit
from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, standard_error
from capeval_pipeline.methods.debiasing.naive import naive
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.debiasing.topic_model import CONCENTRATIONS

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def pgm(problem: OracleProblem) -> OracleEstimate:
    """Mean over posterior draws of mean_n max_l p."""
    simulation = problem.simulation
    return _with_interval(
        float(simulation.true_items.mean()),
        simulation.true_items,
        problem,
        f"right answers follow topics ({problem.posterior.fit.n_topics} chosen), difficulty classes and Beta cells",
    )


def bracket_interpolation(problem: OracleProblem) -> OracleEstimate:
    """naive − w (naive − cross_fit), w = b_up/(b_up + b_low) from simulation: cannot leave the bracket."""
    items = interpolated_items(problem)
    return _with_interval(
        float(items.mean()),
        items,
        problem,
        "the bracket's two ends lie as far from the truth, in proportion, as in worlds of the topic model",
    )


def bias_corrected(problem: OracleProblem) -> OracleEstimate:
    """naive − f·(bias of naive under the topic model), clipped to [cross_fit, naive]."""
    estimate = _with_interval(
        corrected_value(problem),
        corrected_items(problem),
        problem,
        "the naive oracle is as biased as in worlds of the topic model"
        + ("" if shock_factor_in_use(problem) == 1.0 else ", times the factor of the shared shock"),
        is_corrected=True,
    )
    return within_bracket(estimate, cross_fit(problem), naive(problem))


def corrected_value(problem: OracleProblem, rows: BoolArray | slice = slice(None)) -> float:
    """Mean of the corrected items over some rows, inside [cross_fit, naive] of the same rows."""
    low, high = float(problem.cross_fit_items[rows].mean()), float(problem.naive_items[rows].mean())
    return float(np.clip(corrected_items(problem)[rows].mean(), min(low, high), high))


def within_bracket(estimate: OracleEstimate, low: OracleEstimate, high: OracleEstimate) -> OracleEstimate:
    """No limit beyond the bracket's own: cross-fit is at most the oracle on average, naive at least."""
    return replace(
        estimate,
        lower=float(np.fmin(np.fmax(estimate.lower, low.lower), estimate.value)),
        upper=float(np.fmax(np.fmin(estimate.upper, high.upper), estimate.value)),
        lower_fixed=float(np.fmin(np.fmax(estimate.lower_fixed, low.lower_fixed), estimate.value)),
        upper_fixed=float(np.fmax(np.fmin(estimate.upper_fixed, high.upper_fixed), estimate.value)),
    )


def corrected_items(problem: OracleProblem) -> FloatArray:
    """naive_n − f·(simulated bias of naive_n), (n_items,)."""
    return np.asarray(problem.naive_items - shock_factor_in_use(problem) * problem.simulation.naive_bias_items)


def interpolated_items(problem: OracleProblem) -> FloatArray:
    """naive_n − w (naive_n − cross_fit_n), (n_items,), one w for all items."""
    up = float(problem.simulation.naive_bias_items.mean())
    low = float(problem.simulation.cross_fit_bias_items.mean())
    weight = min(max(up / (up + low), 0.0), 1.0) if up + low > 0 else 0.0
    return np.asarray(problem.naive_items - weight * (problem.naive_items - problem.cross_fit_items))


def bracket_ratio(problem: OracleProblem) -> float:
    """Predicted over observed width of the bracket; NaN where the bracket has no width."""
    simulation = problem.simulation
    predicted = float(simulation.naive_bias_items.mean() + simulation.cross_fit_bias_items.mean())
    observed = float(problem.naive_items.mean() - problem.cross_fit_items.mean())
    return predicted / observed if observed > 1e-9 else math.nan


def _weight_at_edge(problem: OracleProblem) -> float:
    """Probability of the least concentration."""
    return sum(weight for weight, fit in problem.posterior.fits if fit.concentration <= CONCENTRATIONS[0])


def _unexplained_width(problem: OracleProblem) -> float:
    """Predicted minus observed width of the bracket."""
    simulation = problem.simulation
    predicted = float(simulation.naive_bias_items.mean() + simulation.cross_fit_bias_items.mean())
    return predicted - float(problem.naive_items.mean() - problem.cross_fit_items.mean())


def shock_factor_in_use(problem: OracleProblem) -> float:
    """The factor of the shared shock where it is known, else 1."""
    return 1.0 if math.isnan(problem.shock.factor) else problem.shock.factor


def shock_error(problem: OracleProblem) -> float:
    """Standard error that sizing the shared shock leaves in the value; 0 without a shock.

    The ratio r of section "shock" is measured with one draw a cell, where a maximum of 0/1 scores saturates. At G draws
    the bias shrinks by less: by a factor between r and 1, nearer to r where models are apart and nearer to 1 where they
    are alike. All that is known being that it lies there, its standard deviation is (1 − r)/√12, times the bias.
    """
    ratio = shock_factor_in_use(problem) ** 2
    return abs(1.0 - ratio) / math.sqrt(12.0) * float(problem.simulation.naive_bias_items.mean())


@dataclass(frozen=True)
class HalfWidths:
    """95 % half widths for the population the items stand for, and for exactly these items."""

    population: float
    fixed: float


def half_widths(problem: OracleProblem, rows: BoolArray | None = None, *, is_corrected: bool = True) -> HalfWidths:
    """Half widths of the topic model's answers, over all items or the rows of a category.

    Squares of three kinds of error are added:
    (i) of the estimator where its model holds, parameters unknown: the root mean square of `refit_errors`, at a t
    quantile since few refits tell it;
    (ii) of the model itself, of which the data show two symptoms: its own oracle and the one that takes only the
    bracket's proportions from it lie D apart, and it predicts a bracket R wider or narrower than the observed one. A
    correct model has both near 0, and either is of the size by which its bias may be off. D alone is one observation of
    an error of unknown size, and 1.96 such observations cover (2/π) atan(1.96) = .70; D and R together 2.77 times their
    root mean square, which with two degrees of freedom covers .89, to which (i) is added;
    (iii) of the shared shock's factor, see `shock_error`;
    (iv) at the edge of the family: with the least concentration fitted, cells lie so near 0 and 1 that their Betas
    cannot tell how near, and the bracket's width may split anyhow between luck and lost choice. All that is known then
    is the bracket, over which a uniform split has the standard deviation width/√12.
    A category takes the share of (i) and (iii) that its simulated bias has of the whole. For the population the scatter
    of max_l p over items is added. What this covers in planted worlds is measured in `studies.interval_coverage`.
    """
    simulation = problem.simulation
    chosen = np.ones(len(simulation.true_items), dtype=bool) if rows is None else rows
    bias, whole_bias = (
        float(values.mean()) for values in (simulation.naive_bias_items[chosen], simulation.naive_bias_items)
    )
    share = bias / whole_bias if whole_bias > 0 else 1.0
    scatter = float(simulation.true_draws[:, chosen].mean(axis=1).std(ddof=1))
    errors = problem.refit_errors
    if len(errors) < 3:  # nothing is known of the error: the bracket's limits are left
        return HalfWidths(math.inf, math.inf)
    refit = float(np.sqrt(np.mean(errors**2)))
    if rows is not None:
        refit = math.hypot(scatter, share * refit)
    split = float(simulation.true_items[chosen].mean() - interpolated_items(problem)[chosen].mean())
    model = math.hypot(split, share * _unexplained_width(problem))
    shock = share * shock_error(problem) if is_corrected else 0.0
    width = float((problem.naive_items - problem.cross_fit_items)[chosen].mean())
    edge = max(width, 0.0) / math.sqrt(12.0) * _weight_at_edge(problem)
    fixed = math.hypot(float(t.ppf(0.975, len(errors))) * max(refit, scatter), 1.96 * model, 1.96 * shock, 1.96 * edge)
    return HalfWidths(math.hypot(fixed, 1.96 * standard_error(simulation.true_items[chosen])), fixed)


def model_standard_error(problem: OracleProblem) -> float:
    """Standard error of the topic model's oracle beyond the scatter of its posterior draws; NaN where unknown."""
    scatter = float(problem.simulation.true_draws.mean(axis=1).std(ddof=1))
    widths = half_widths(problem)
    return math.sqrt(max((widths.fixed / 1.96) ** 2 - scatter**2, 0.0))


def _with_interval(
    value: float, items: FloatArray, problem: OracleProblem, assumption: str, *, is_corrected: bool = False
) -> OracleEstimate:
    widths = half_widths(problem, is_corrected=is_corrected)
    population, fixed = widths.population, widths.fixed
    return OracleEstimate(
        value, items, value - population, value + population, value - fixed, value + fixed, assumption
    )
