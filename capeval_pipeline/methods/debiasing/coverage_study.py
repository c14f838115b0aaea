"""How often the reported intervals hold the truth, in worlds that know it: the figure to read beside every interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis
from capeval_pipeline.methods.debiasing.frontier_records import FrontierCurve
from capeval_pipeline.methods.debiasing.oracle_analysis import analyse_oracle
from capeval_pipeline.methods.debiasing.post_hoc import draws_allowed_at
from capeval_pipeline.methods.debiasing.problem import OracleProblem
from capeval_pipeline.methods.frontier import Frontier, exact_frontier, frontier_quality_at, retry_options
from capeval_pipeline.methods.synthetic import GenerationWorld, make_generation_world, observe_world
from capeval_pipeline.methods.synthetic.generation_world import WorldKind

FloatArray = NDArray[np.float64]
COVERAGE_WORLDS: dict[str, tuple[WorldKind, float]] = {
    "homogeneous": ("equal_means", 0.0),
    "heterogeneous": ("heterogeneous", 0.0),
    "correlated": ("heterogeneous", 0.5),
    "homogeneous, correlated": ("equal_means", 0.3),
    "near 0 or 1": ("near_01", 0.0),
    "equal models": ("equal_skill", 0.0),
    "graded": ("graded", 0.0),
}
ORACLE_FIXED, ORACLE_KIND = "oracle, these items", "oracle, items of this kind"
BAND_KIND, BAND_FIXED = "frontier, items of this kind", "frontier, these items"
RETRIES_FIXED = "post-hoc frontier, these items"
_POPULATION = 8_000


@dataclass(frozen=True)
class CoverageRow:
    """Share of n_seeds benchmarks whose interval holds the truth, and its mean width.

    interval : of the headline, whether a figure was given or only the bracket; the frontier's at all budgets at once,
        the post-hoc frontier's budget by budget, where it was given
    share_point : share of the benchmarks for which a single figure was given
    """

    world: str
    n_items: int
    n_models: int
    n_generations: int
    interval: str
    coverage: float
    mean_width: float
    share_point: float
    n_seeds: int


def study_interval_coverage(
    *,
    seed: int,
    worlds: Sequence[str] = tuple(COVERAGE_WORLDS),
    n_items: int = 300,
    n_models: int = 8,
    generations: Sequence[int] = (2, 3, 5, 10),
    n_seeds: int = 20,
    with_frontier: bool = True,
) -> list[CoverageRow]:
    """Draw benchmarks from a large population of items each, and compare every interval with its own truth.

    Items of this kind: the truth of the population the items were drawn from. These items: that of the drawn ones.
    """
    rows = []
    for name in worlds:
        for n_generations in generations:
            told: dict[str, list[tuple[float, float, bool]]] = {}
            for replicate in range(n_seeds):
                key = [seed, list(COVERAGE_WORLDS).index(name), n_generations, replicate]
                found = _one_benchmark(name, n_items, n_models, n_generations, key, with_frontier)
                for interval, entry in found.items():
                    told.setdefault(interval, []).append(entry)
            for interval, entries in told.items():
                coverage, width, share_point = (float(value) for value in np.mean(entries, axis=0))
                rows.append(
                    CoverageRow(
                        name, n_items, n_models, n_generations, interval, coverage, width, share_point, len(entries)
                    )
                )
    return rows


def _one_benchmark(
    name: str, n_items: int, n_models: int, n_generations: int, key: list[int], with_frontier: bool
) -> dict[str, tuple[float, float, bool]]:
    """By interval: whether it holds its truth, its width, whether a single figure was given."""
    kind, shock = COVERAGE_WORLDS[name]
    rng = np.random.default_rng(key)
    # A graded world has the heterogeneous one's cells; its population needs no draws.
    planted = "heterogeneous" if kind == "graded" else kind
    population = make_generation_world(planted, n_items=_POPULATION, n_models=n_models, n_generations=1, rng=rng)
    chosen = rng.choice(_POPULATION, n_items, replace=False)
    world = observe_world(population, chosen, kind, n_generations=n_generations, rng=rng, shared_shock=shock)
    problem = OracleProblem(DrawTable(world.scores, world.cost_usd), seed=key[-1])
    oracle = analyse_oracle(problem)
    headline, is_point = oracle.estimates["", "headline"], oracle.verdict.kind == "point"
    told = {}
    for interval, low, high, truth in (
        (ORACLE_FIXED, headline.lower_fixed, headline.upper_fixed, world.success_probability),
        (ORACLE_KIND, headline.lower, headline.upper, population.success_probability),
    ):
        told[interval] = (float(low <= truth.max(axis=1).mean() <= high), high - low, is_point)
    if not with_frontier:
        return told
    analysis = analyse_cost_axis(problem, world.cost_usd, verdict=oracle.verdict)
    curves = {(curve.estimator, curve.routing): curve for curve in analysis.curves}
    for interval, true_world, is_fixed in ((BAND_KIND, population, False), (BAND_FIXED, world, True)):
        curve = curves["headline", "pre_hoc"]
        if is_fixed:
            curve = replace(curve, lower=curve.lower_fixed, upper=curve.upper_fixed)
        held, width = _held(curve, exact_frontier(true_world.success_probability, true_world.expected_cost_usd))
        told[interval] = (float(held.all()), width, is_point)
    if is_point and ("headline", "post_hoc_pay_all") in curves and kind != "graded":
        curve = curves["headline", "post_hoc_pay_all"]
        curve = replace(curve, lower=curve.lower_fixed, upper=curve.upper_fixed)
        held, width = _held(curve, _true_retries(world, n_generations))
        told[RETRIES_FIXED] = (float(held.mean()), width, is_point)
    return told


def _held(curve: FrontierCurve, truth: Frontier) -> tuple[NDArray[np.bool_], float]:
    """At 24 budgets from a little above the true start: whether the limits hold the truth, and their mean width."""
    start, end = float(truth.cost_usd[0]), float(truth.cost_usd[-1])
    budgets = np.geomspace(1.15 * start, max(end, 10 * start), 24)
    quality = frontier_quality_at(truth, budgets)
    lower, upper = (
        np.interp(budgets, curve.cost[~np.isnan(values)], values[~np.isnan(values)])
        for values in (curve.lower, curve.upper)
    )
    return (lower <= quality + 1e-9) & (quality <= upper + 1e-9), float((upper - lower).mean())


def _true_retries(world: GenerationWorld, n_generations: int) -> Frontier:
    allowed = draws_allowed_at(n_generations)
    by_k = [1.0 - (1.0 - world.success_probability) ** k for k in allowed]
    return exact_frontier(*retry_options(by_k, world.expected_cost_usd, allowed, pays_all=True))
