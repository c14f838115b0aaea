"""Frontiers of draws as well as models: options (model, k draws, best kept), as with a verifier that is never wrong.

Three ways to pay: all k draws (the answer "given a budget"), the kept draw only (a bound), and draws until the first
success (needs the verifier while running).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cost_axis import CostAxis, cost_budgets
from capeval_pipeline.methods.debiasing.costs import CostPosterior
from capeval_pipeline.methods.debiasing.frontier_records import FrontierCurve, plain_curve
from capeval_pipeline.methods.debiasing.posterior import WorldPosterior
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.debiasing.simulated_frontiers import frontier_spread, mean_frontier
from capeval_pipeline.methods.debiasing.verdict import Verdict
from capeval_pipeline.methods.frontier import (
    DRAWS_ALLOWED,
    Frontier,
    best_of_k_beta_draws,
    best_of_k_draws,
    cost_until_success,
    draws_until_success,
    exact_frontier,
    frontier_quality_at,
    retry_options,
)

FloatArray = NDArray[np.float64]


def draws_allowed_at(n_generations: int) -> list[int]:
    """The k of the options: those of DRAWS_ALLOWED that the cells' draws can speak of."""
    return [k for k in DRAWS_ALLOWED if k <= n_generations]


def post_hoc_curves(
    problem: OracleProblem,
    axis: CostAxis,
    posterior: WorldPosterior | None,
    costs: CostPosterior | None,
    verdict: Verdict,
    matched_cost: float,
    errors: tuple[float, float],
) -> list[FrontierCurve]:
    """naive (unbiased k-draw values), pgm and headline (posterior draws of quality and cost) for each way to pay.

    Graded scores have no success to stop at, so no rows of `post_hoc_stop`. errors : standard errors of the model's
    oracle beyond the scatter of its posterior draws, and of its mean over items (for the population they stand for)
    """
    allowed = draws_allowed_at(axis.draws.n_generations)
    naive = _naive_frontiers(axis, allowed)
    true: dict[str, list[Frontier]] = {routing: [] for routing in naive}
    if posterior is not None and costs is not None:
        for index in range(problem.n_simulations):
            simulated = _true_frontiers(
                posterior.true_quality(index), posterior.true_cost(costs, index), posterior.precision, allowed, naive
            )
            for routing, frontier in simulated.items():
                true[routing].append(frontier)
    curves = []
    for routing, plain in naive.items():
        worlds = true[routing]
        starts = [float(plain.cost_usd[0])]
        if worlds:
            starts.append(float(np.mean([world.cost_usd[0] for world in worlds])))
        end = max([float(plain.cost_usd[-1]), *[float(world.cost_usd[-1]) for world in worlds]])
        budgets = cost_budgets(starts, end, matched_cost)
        curves.append(plain_curve("naive", routing, budgets, frontier_quality_at(plain, budgets)))
        if worlds:
            curves += _model_curves(worlds, routing, budgets, verdict, errors)
    return curves


def _naive_frontiers(axis: CostAxis, allowed: Sequence[int]) -> dict[str, Frontier]:
    by_k = [best_of_k_draws(axis.draws.equal_scores, k) for k in allowed]
    frontiers = {
        routing: exact_frontier(*retry_options(by_k, axis.cell_cost, allowed, pays_all=pays_all))
        for routing, pays_all in (("post_hoc_pay_all", True), ("post_hoc_pay_kept", False))
    }
    if axis.draws.is_binary:
        right = axis.draws.equal_scores.sum(axis=2)
        # The number of draws is a stopping time, so its mean times the mean cost is the mean sum (Wald), also where
        # the cost of a draw hangs together with its score.
        cost = [draws_until_success(right, axis.draws.n_generations, k) * axis.cell_cost for k in allowed]
        frontiers["post_hoc_stop"] = exact_frontier(np.concatenate(by_k, axis=1), np.concatenate(cost, axis=1))
    return frontiers


def _true_frontiers(
    quality: FloatArray, cost: FloatArray, precision: float, allowed: Sequence[int], routings: dict[str, Frontier]
) -> dict[str, Frontier]:
    by_k = [best_of_k_beta_draws(quality, precision - 1.0, k) for k in allowed]
    frontiers = {
        routing: exact_frontier(*retry_options(by_k, cost, allowed, pays_all=pays_all))
        for routing, pays_all in (("post_hoc_pay_all", True), ("post_hoc_pay_kept", False))
    }
    if "post_hoc_stop" in routings:
        stopped = [cost_until_success(quality, cost, k) for k in allowed]
        frontiers["post_hoc_stop"] = exact_frontier(np.concatenate(by_k, axis=1), np.concatenate(stopped, axis=1))
    return frontiers


def _model_curves(
    worlds: Sequence[Frontier], routing: str, budgets: FloatArray, verdict: Verdict, errors: tuple[float, float]
) -> list[FrontierCurve]:
    """The posterior mean; the headline with limits of the same size at all budgets, none of either where refused."""
    mean, unknown = mean_frontier(worlds, budgets), np.full(len(budgets), np.nan)
    curves = [plain_curve("pgm", routing, budgets, mean)]
    if verdict.kind != "point":
        return [*curves, plain_curve("headline", routing, budgets, unknown)]
    model_error, item_error = errors
    fixed = 1.96 * np.hypot(frontier_spread(worlds, budgets), model_error)
    limits = [
        np.clip(mean + side * half, 0.0, 1.0)
        for half in (np.hypot(fixed, 1.96 * item_error), fixed)
        for side in (-1, 1)
    ]
    return [*curves, FrontierCurve("headline", routing, budgets, mean, *limits)]
