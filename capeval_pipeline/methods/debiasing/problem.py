"""One benchmark as the estimators see it: the draws, and what several of them share, computed once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.cross_fit import keyed_held_out, leave_one_out_value
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.posterior import (
    BiasSimulation,
    WorldPosterior,
    fit_posterior,
    refit_errors,
    simulate_bias,
)
from capeval_pipeline.methods.debiasing.shock import SharedShock, measure_shared_shock
from capeval_pipeline.methods.frontier import subsample_oracle_curve

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OracleProblem:
    """Draws, and the sizes of the resampling. Everything drawn is keyed by `seed`.

    n_splits : splits of the cross-fit; n_simulations : posterior worlds; n_permutations : of the shock test;
    n_refits : simulated experiments the model is fitted to again, for the intervals
    """

    draws: DrawTable
    seed: int = 0
    n_splits: int = 20
    n_simulations: int = 30
    n_permutations: int = 50
    n_refits: int = 10
    topic_counts: tuple[int, ...] = (1, 3, 6)

    @cached_property
    def naive_items(self) -> FloatArray:
        """max_l of the sample means, (n_items,)."""
        return np.asarray(np.nanmax(self.draws.mean_quality, axis=1))

    @cached_property
    def curve_items(self) -> FloatArray:
        """O_n(g), (n_items, n_generations): closed form for 0/1 scores, else the mean over keyed subsets."""
        draws = self.draws
        if draws.is_binary:
            counts = np.where(draws.is_option, np.nansum(draws.equal_scores, axis=2), -1.0)
            return subsample_oracle_curve(counts, draws.n_generations)
        return _sampled_curve(draws.equal_scores, np.random.default_rng([self.seed, 21]))

    @cached_property
    def cross_fit_items(self) -> FloatArray:
        """Leave-one-draw-out value, mean over keyed splits, (n_items,). Raises ValueError with one draw a cell."""
        draws = self.draws
        held_out = keyed_held_out(draws.equal_scores.shape, self.n_splits, np.random.default_rng([self.seed, 22]))
        cost = None if draws.cost is None else draws.equal_cost
        return leave_one_out_value(draws.equal_scores, held_out, within_variance=draws.within_cell_variance, cost=cost)

    @cached_property
    def posterior(self) -> WorldPosterior:
        return fit_posterior(self.draws, topic_counts=self.topic_counts, seed=self.seed)

    @cached_property
    def simulation(self) -> BiasSimulation:
        return simulate_bias(self.posterior, n_simulations=self.n_simulations)

    @cached_property
    def refit_errors(self) -> FloatArray:
        return refit_errors(self.posterior, n_refits=self.n_refits, seed=self.seed)

    @cached_property
    def shock(self) -> SharedShock:
        return measure_shared_shock(
            self.draws.equal_scores,
            naive=float(self.naive_items.mean()),
            independent=float(self.curve_items[:, 0].mean()),
            n_permutations=self.n_permutations,
            has_true_generations=self.draws.has_true_generations,
            rng=np.random.default_rng([self.seed, 23]),
        )


def _sampled_curve(scores: FloatArray, rng: np.random.Generator, n_subsets: int = 40) -> FloatArray:
    n_items, _, n_generations = scores.shape
    curve = np.zeros((n_items, n_generations))
    for _ in range(n_subsets):
        order = rng.random(scores.shape).argsort(axis=2)
        running = np.cumsum(np.take_along_axis(scores, order, axis=2), axis=2) / np.arange(1, n_generations + 1)
        curve += np.nanmax(running, axis=1)
    return curve / n_subsets
