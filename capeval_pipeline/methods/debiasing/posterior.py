"""Worlds that could lie behind the observed draws, and what the same experiment would have shown in each.

Draw number i is keyed by (seed, i), so whoever asks for it gets the same world, without any being kept in memory.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.debiasing.costs import CostPosterior
from capeval_pipeline.methods.debiasing.cross_fit import keyed_held_out, leave_one_out_value
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.topic_model import TopicModelFit, average_concentrations, fit_topic_model

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_SPLITS_A_SIMULATION = 2
_GOLDEN_SECTION = 0.6180339887498949
_REFIT_SIMULATIONS = 5
_MAX_REFIT_ITEMS = 4_000


@dataclass(frozen=True, eq=False)
class WorldPosterior:
    """Posterior over true cell qualities, with the noise of a draw.

    fit : the likeliest; fits : those at every concentration the draws leave open, with their probabilities
    precision : variance of a draw is p (1 − p)/precision; 1 for 0/1 scores
    """

    draws: DrawTable
    fit: TopicModelFit
    fits: tuple[tuple[float, TopicModelFit], ...]
    precision: float
    seed: int

    def true_quality(self, index: int) -> FloatArray:
        """Posterior draw of p, (n_items, n_models); NaN where the cell is no option."""
        drawn = self._fit_of(index).draw(np.random.default_rng([self.seed, 11, index]))
        return np.where(self.draws.is_option, drawn, np.nan)

    def on_items(self, rows: NDArray[np.bool_] | IntArray, draws: DrawTable) -> "WorldPosterior":
        """The same posterior on some items and the cells that have draws in `draws`."""

        def part(fit: TopicModelFit) -> TopicModelFit:
            return replace(fit, responsibility=fit.responsibility[rows], right=fit.right[rows], total=fit.total[rows])

        fits = tuple((weight, part(fit)) for weight, fit in self.fits)
        return replace(self, fit=fits[0][1], fits=fits, draws=draws)

    def _fit_of(self, index: int) -> TopicModelFit:
        """The fit of draw number `index`: steps of the golden section keep shares right in any run."""
        place = (0.5 + index * _GOLDEN_SECTION) % 1.0
        for weight, fit in self.fits:
            place -= weight
            if place < 0:
                return fit
        return self.fits[-1][1]

    def observed_scores(self, true_quality: FloatArray, index: int) -> FloatArray:
        """Scores the same number of draws would have given, (n_items, n_models, n_generations)."""
        rng = np.random.default_rng([self.seed, 12, index])
        shape = (*true_quality.shape, self.draws.n_generations)
        if self.precision <= 1.0:
            scores = (rng.random(shape) < true_quality[:, :, None]).astype(np.float64)
        else:
            mean = np.clip(np.where(np.isnan(true_quality), 0.5, true_quality), 1e-6, 1 - 1e-6)[:, :, None]
            spread = self.precision - 1.0
            scores = rng.beta(spread * mean, spread * (1.0 - mean), size=shape)
        return np.where(np.isnan(true_quality)[:, :, None], np.nan, scores)

    def true_cost(self, costs: CostPosterior, index: int) -> FloatArray:
        return costs.draw(np.random.default_rng([self.seed, 13, index]))

    def observed_cost(self, costs: CostPosterior, true_cost: FloatArray, index: int) -> FloatArray:
        return costs.measure(true_cost, np.random.default_rng([self.seed, 14, index]))


@dataclass(frozen=True, eq=False)
class BiasSimulation:
    """What naive and cross-fitted values do in simulated worlds.

    true_items, naive_bias_items, cross_fit_bias_items : (n_items,) means over simulations of max_l p, of naive minus
        it and of it minus cross-fit
    true_draws : (n_simulations, n_items) max_l p of each posterior draw
    naive_draws, cross_fit_draws : (n_simulations,) the two ends of the bracket in each simulation
    """

    true_items: FloatArray
    naive_bias_items: FloatArray
    cross_fit_bias_items: FloatArray
    true_draws: FloatArray
    naive_draws: FloatArray
    cross_fit_draws: FloatArray


def fit_posterior(draws: DrawTable, *, topic_counts: tuple[int, ...], seed: int) -> WorldPosterior:
    """Fit the topic model to all draws (cells with one draw too).

    Graded scores enter as quasi-counts of as many draws as carry their information: p (1 − p) over the variance
    inside cells times the number drawn. Raises ValueError with one draw a cell or scores outside 0…1, ConvergenceError.
    """
    if draws.n_generations < 2:
        raise ValueError("one draw a cell: luck cannot be told from skill")
    if not draws.is_bounded:
        low, high = np.nanmin(draws.scores), np.nanmax(draws.scores)
        raise ValueError(f"quality lies between {low:.3g} and {high:.3g}, not on 0…1")
    precision = 1.0
    if not draws.is_binary:
        precision = _draw_precision(draws)
    right = np.where(draws.n_draws > 0, np.nan_to_num(draws.total_right), 0.0)
    total: FloatArray = draws.n_draws.astype(np.float64) * precision
    right = right * precision
    fit = fit_topic_model(right, total, topic_counts=topic_counts, seed=seed)
    fits = average_concentrations(fit, right, total, seed=seed)
    return WorldPosterior(draws, fits[0][1], tuple(fits), precision, seed)


def _draw_precision(draws: DrawTable) -> float:
    """p (1 − p) over the variance of a draw inside its cell, pooled, both unbiased; at least 1, at most 1000."""
    mean = draws.mean_quality
    within = draws.within_cell_variance
    bernoulli = float(np.nanmean(mean * (1.0 - mean))) + within / draws.n_generations
    return float(np.clip(bernoulli / within, 1.0, 1000.0)) if within > 0 else 1000.0


def simulate_bias(posterior: WorldPosterior, *, n_simulations: int) -> BiasSimulation:
    """Simulate the experiment in posterior worlds and measure both ends of the bracket against the known truth."""
    draws = posterior.draws
    n_items = draws.scores.shape[0]
    true_draws = np.empty((n_simulations, n_items))
    naive_bias, cross_fit_bias = np.zeros(n_items), np.zeros(n_items)
    naive_draws, cross_fit_draws = np.empty(n_simulations), np.empty(n_simulations)
    for index in range(n_simulations):
        quality = posterior.true_quality(index)
        scores = posterior.observed_scores(quality, index)
        best = np.nanmax(quality, axis=1)
        held_out = keyed_held_out(
            scores.shape, _SPLITS_A_SIMULATION, np.random.default_rng([posterior.seed, 15, index])
        )
        within = float(np.nanmean(scores.var(axis=2, ddof=1)))
        true_draws[index] = best
        naive = np.nanmax(scores.mean(axis=2), axis=1)
        crossed = leave_one_out_value(scores, held_out, within_variance=within, cost=None)
        naive_draws[index], cross_fit_draws[index] = naive.mean(), crossed.mean()
        naive_bias += naive - best
        cross_fit_bias += best - crossed
    return BiasSimulation(
        true_draws.mean(axis=0),
        naive_bias / n_simulations,
        cross_fit_bias / n_simulations,
        true_draws,
        naive_draws,
        cross_fit_draws,
    )


def refit_errors(posterior: WorldPosterior, *, n_refits: int, seed: int) -> FloatArray:
    """Errors of the bias-corrected oracle in worlds where the truth is known: the whole estimator made again.

    A world is drawn from the posterior, the experiment simulated in it, the model fitted to what it shows, and the
    naive oracle corrected by that fit's bias. Unlike posterior draws of one fit this holds what the fit does not know
    of itself: with two draws a cell its concentration (noise of cells or none) is nearly a guess, and the bias of the
    naive oracle follows it. (n_refits,), fewer where fits did not converge; above 4,000 items on a keyed part of them.
    """
    draws = posterior.draws
    rows = np.arange(len(draws.scores))
    if len(rows) > _MAX_REFIT_ITEMS:
        rows = np.sort(np.random.default_rng([seed, 61]).choice(len(rows), _MAX_REFIT_ITEMS, replace=False))
        # Costs have no part in this, nor does the order of draws.
        posterior = posterior.on_items(rows, DrawTable(draws.equal_scores[rows], has_true_generations=False))
    errors = []
    for index in range(n_refits):
        quality = posterior.true_quality(1_000_000 + index)
        scores = posterior.observed_scores(quality, 1_000_000 + index)
        simulated = DrawTable(scores, has_true_generations=False)
        try:
            refit = fit_posterior(simulated, topic_counts=(posterior.fit.n_topics,), seed=index)
        except (ConvergenceError, ValueError):
            continue
        naive = float(np.nanmax(scores.mean(axis=2), axis=1).mean())
        bias = np.mean(
            [_naive_bias(refit, simulation) for simulation in range(_REFIT_SIMULATIONS)],
        )
        errors.append(naive - float(bias) - float(np.nanmax(quality, axis=1).mean()))
    return np.array(errors)


def _naive_bias(posterior: WorldPosterior, index: int) -> float:
    quality = posterior.true_quality(index)
    scores = posterior.observed_scores(quality, index)
    return float((np.nanmax(scores.mean(axis=2), axis=1) - np.nanmax(quality, axis=1)).mean())
