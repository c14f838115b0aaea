"""Strengths with intervals, and ranks that say what is not known.

Which model is better, by mean score: paired differences over shared items, Holm over all pairs. How strong, by
Bradley-Terry: item resamples. Mean scores themselves are in `mean_scores`, significance in `paired_tests`.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import scipy.linalg

from capeval_pipeline.methods.bradley_terry import (
    BoolArray,
    FloatArray,
    IntArray,
    _derivatives,
    comparison_components,
    fit_bradley_terry,
    separated_models,
)
from capeval_pipeline.methods.mean_scores import ResampleWeights

LARGEST_RESAMPLED = 300
"""Above this many models intervals of strengths come from a sandwich instead of resamples."""


@dataclass(frozen=True)
class Strengths:
    """Strengths on the logit scale, centred at 0 within each component, with 95 % intervals.

    strength, lower, upper : (n_models,); a bound is NaN on the open side of a separated model, both where a model was
        never in a decided comparison
    component : (n_models,) connected part of the graph of compared models, 0 = largest
    is_separated : (n_models,) won or lost every comparison
    covariance : (n_models, n_models) over item resamples (or the sandwich's); None above 300 scored models, where
        nothing needs it
    """

    strength: FloatArray
    lower: FloatArray
    upper: FloatArray
    component: IntArray
    is_separated: BoolArray
    covariance: FloatArray | None


@dataclass(frozen=True)
class Ranking:
    """Ranks from 1 = best. rank, rank_lower, rank_upper, tie_group : (n_models,); see rank_models."""

    rank: IntArray
    rank_lower: IntArray
    rank_upper: IntArray
    tie_group: IntArray


def count_wins(quality: FloatArray, *, tie_margin: float = 1e-9) -> FloatArray:
    """Wins over all items and pairs, (n_models, n_models): how often the row's quality exceeds the column's.

    quality : (n_items, n_models), larger is better, NaN where missing. Ties (within tie_margin) and missing cells
    count for nobody. Exact, as the counts are integers.
    """
    n_models = quality.shape[1]
    levels = _two_levels(quality, tie_margin)
    if levels is not None:
        won, lost = levels
        return np.asarray(won.T @ lost, dtype=np.float64)
    wins = np.zeros((n_models, n_models))
    _add_wins(np.ascontiguousarray(quality), tie_margin, wins)
    return wins


def _two_levels(quality: FloatArray, tie_margin: float) -> tuple[FloatArray, FloatArray] | None:
    """(won, lost) indicators where only two values occur, as with 0/1 scores: then wins are one matrix product."""
    seen = quality[~np.isnan(quality)]
    if len(seen) == 0:
        return np.zeros_like(quality), np.zeros_like(quality)
    low, high = seen.min(), seen.max()
    if high - low <= tie_margin or not ((seen == low) | (seen == high)).all():
        return None
    return (quality == high).astype(np.float64), (quality == low).astype(np.float64)


@numba.njit(nogil=True, cache=True)
def _add_wins(quality: FloatArray, tie_margin: float, wins: FloatArray) -> None:
    n_items, n_models = quality.shape
    for q in range(n_items):
        for a in range(n_models):
            for b in range(a):
                # Comparisons with NaN are false both ways.
                if quality[q, a] - quality[q, b] > tie_margin:
                    wins[a, b] += 1.0
                elif quality[q, b] - quality[q, a] > tie_margin:
                    wins[b, a] += 1.0


def estimate_strengths(
    quality: FloatArray, weights: ResampleWeights, *, ridge: float = 0.1, tie_margin: float = 1e-9
) -> Strengths:
    """Strengths from every non-tied pair of scored models on every item, weight 1 a pair, with item intervals.

    quality : (n_items, n_models), larger is better, NaN where missing
    weights : (n_resamples, n_items) item resamples; ignored above 300 models, where a cluster-robust sandwich by item
        (Liang and Zeger 1986) takes their place
    """
    wins = count_wins(quality, tie_margin=tie_margin)
    fit = fit_bradley_terry(wins, ridge=ridge)
    is_seen = ~np.isnan(quality)
    component = comparison_components(is_seen.T.astype(np.float32) @ is_seen.astype(np.float32))
    if quality.shape[1] > LARGEST_RESAMPLED:
        item_gradients = _item_gradients(quality, fit.strengths, tie_margin)
        return _with_sandwich(wins, fit.strengths, ridge, item_gradients, component, has_covariance=False)
    return _with_resamples(wins, fit.strengths, ridge, _resampled_wins(quality, weights, tie_margin), component)


def estimate_strengths_from_votes(
    item: IntArray,
    winner: IntArray,
    loser: IntArray,
    weights: ResampleWeights,
    *,
    n_models: int,
    was_compared: FloatArray,
    ridge: float = 0.1,
) -> Strengths:
    """Strengths from single decided votes, as judges give them, with item intervals.

    item, winner, loser : (n_votes,) index arrays
    weights : (n_resamples, n_items)
    was_compared : (n_models, n_models), non-zero where a pair was judged at all, ties included
    """
    wins = np.zeros((n_models, n_models))
    np.add.at(wins, (winner, loser), 1.0)
    fit = fit_bradley_terry(wins, ridge=ridge)
    component = comparison_components(was_compared)
    if n_models > LARGEST_RESAMPLED:
        gradients = np.zeros((weights.shape[1], n_models))
        surprise = 1.0 / (1.0 + np.exp(fit.strengths[winner] - fit.strengths[loser]))
        np.add.at(gradients, (item, winner), -surprise)
        np.add.at(gradients, (item, loser), surprise)
        return _with_sandwich(wins, fit.strengths, ridge, gradients, component)
    resampled = np.zeros((len(weights), n_models, n_models), dtype=np.float32)
    _scatter_resampled_votes(item, winner, loser, weights, resampled)
    return _with_resamples(wins, fit.strengths, ridge, resampled, component)


@numba.njit(nogil=True, cache=True)
def _scatter_resampled_votes(
    item: IntArray, winner: IntArray, loser: IntArray, weights: ResampleWeights, out: ResampleWeights
) -> None:
    for b in range(weights.shape[0]):
        for v in range(item.shape[0]):
            out[b, winner[v], loser[v]] += weights[b, item[v]]


def _resampled_wins(quality: FloatArray, weights: ResampleWeights, tie_margin: float) -> ResampleWeights:
    """Win matrices of all resamples, (n_resamples, n_models, n_models); float32 products of integers are exact."""
    n_models = quality.shape[1]
    wins = np.empty((len(weights), n_models, n_models), dtype=np.float32)
    for a in range(n_models):
        is_win = (quality[:, a, None] - quality > tie_margin).astype(np.float32)
        wins[:, a, :] = weights @ is_win
    return wins


def _with_resamples(
    wins: FloatArray, strength: FloatArray, ridge: float, resampled: ResampleWeights, component: IntArray
) -> Strengths:
    n_resamples, n_models = len(resampled), len(strength)
    draws = np.empty((n_resamples, n_models))
    for first in range(0, n_resamples, 100):
        block = slice(first, first + 100)
        draws[block] = fit_bradley_terry(
            resampled[block].astype(np.float64), ridge=ridge, start=strength, tolerance=1e-7
        ).strengths
    if n_resamples > 1:
        lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
        covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    else:
        lower, upper = np.full(n_models, np.nan), np.full(n_models, np.nan)
        covariance = np.full((n_models, n_models), np.nan)
    return _with_open_bounds(wins, strength, lower, upper, component, covariance)


def _with_sandwich(
    wins: FloatArray,
    strength: FloatArray,
    ridge: float,
    item_gradients: FloatArray,
    component: IntArray,
    *,
    has_covariance: bool = True,
) -> Strengths:
    n_items, n_models = item_gradients.shape
    gradient, hessian = np.empty(n_models), np.empty((n_models, n_models))
    _derivatives(wins, strength, ridge, np.zeros(n_models), gradient, hessian)
    factor = scipy.linalg.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    centred = (item_gradients - item_gradients.mean(axis=0)).T
    influence = scipy.linalg.cho_solve(factor, centred, overwrite_b=True, check_finite=False)
    influence *= np.sqrt(n_items / max(n_items - 1.0, 1.0))
    covariance = influence @ influence.T if has_covariance else None
    radius = 1.959963984540054 * np.sqrt((influence**2).sum(axis=1))
    return _with_open_bounds(wins, strength, strength - radius, strength + radius, component, covariance)


def _with_open_bounds(
    wins: FloatArray,
    strength: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    component: IntArray,
    covariance: FloatArray | None,
) -> Strengths:
    always_won, always_lost = separated_models(wins)
    is_undecided = (wins.sum(axis=0) + wins.sum(axis=1)) == 0
    return Strengths(
        strength=strength,
        lower=np.where(always_lost | is_undecided, np.nan, lower),
        upper=np.where(always_won | is_undecided, np.nan, upper),
        component=component,
        is_separated=always_won | always_lost,
        covariance=covariance,
    )


def _item_gradients(quality: FloatArray, strength: FloatArray, tie_margin: float) -> FloatArray:
    """Gradient of each item's negative log-likelihood at the full fit, (n_items, n_models)."""
    win_probability = 1.0 / (1.0 + np.exp(strength[None, :] - strength[:, None]))
    levels = _two_levels(quality, tie_margin)
    if levels is not None:
        # -(won_a) sum_b lost_b (1 - P_ab) + lost_a sum_b won_b P_ab, and 1 - P_ab = P_ba.
        won, lost = levels
        return lost * (won @ win_probability.T) - won * (lost @ win_probability)
    gradients = np.zeros_like(quality)
    _add_item_gradients(np.ascontiguousarray(quality), win_probability, tie_margin, gradients)
    return gradients


@numba.njit(nogil=True, cache=True)
def _add_item_gradients(
    quality: FloatArray, win_probability: FloatArray, tie_margin: float, gradients: FloatArray
) -> None:
    n_items, n_models = quality.shape
    for q in range(n_items):
        for a in range(n_models):
            for b in range(a):
                if quality[q, a] - quality[q, b] > tie_margin:
                    surprise = win_probability[b, a]
                elif quality[q, b] - quality[q, a] > tie_margin:
                    surprise = -win_probability[a, b]
                else:
                    continue
                gradients[q, a] -= surprise
                gradients[q, b] += surprise


def order_models(mean_quality: FloatArray, strength: FloatArray) -> IntArray:
    """Models from best to worst, (n_models,): by mean quality, then strength, then position (models come in id order).

    Means are rounded to 9 decimals first: whether two of them tie must not hang on the order of summation.
    """
    mean = np.round(np.where(np.isnan(mean_quality), -np.inf, mean_quality), 9)
    return np.lexsort((np.arange(len(mean)), -np.round(strength, 9), -mean)).astype(np.int64)


def rank_models(order: IntArray, verdict: npt.NDArray[np.int8]) -> Ranking:
    """Ranks, the ranks that cannot be excluded, and groups of models that cannot be told apart.

    order : (n_models,) models from best to worst
    verdict : (n_models, n_models), +1 where the row's model is significantly better than the column's, -1 worse

    rank_lower = 1 + number of models significantly better, rank_upper = n_models - number significantly worse: with
    verdicts that hold together (Holm) so do all these ranks. tie_group: from the top, a group holds every not yet
    grouped model that cannot be told from its first one.
    """
    n_models = len(order)
    rank = np.empty(n_models, dtype=np.int64)
    rank[order] = np.arange(1, n_models + 1)
    group = np.zeros(n_models, dtype=np.int64)
    n_groups = 0
    for first in order:
        if group[first]:
            continue
        n_groups += 1
        group[(group == 0) & (verdict[first] == 0)] = n_groups
    return Ranking(
        rank=rank,
        rank_lower=1 + (verdict < 0).sum(axis=1),
        rank_upper=n_models - (verdict > 0).sum(axis=1),
        tie_group=group,
    )


def count_untied_pairs(quality: FloatArray, *, tie_margin: float = 1e-9) -> IntArray:
    """Pairs of models that differ on each item, (n_items,); quality as in count_wins."""
    counts = np.zeros(len(quality), dtype=np.int64)
    _count_untied(np.ascontiguousarray(quality), tie_margin, counts)
    return counts


@numba.njit(nogil=True, cache=True)
def _count_untied(quality: FloatArray, tie_margin: float, counts: IntArray) -> None:
    n_items, n_models = quality.shape
    for q in range(n_items):
        for a in range(n_models):
            for b in range(a):
                if abs(quality[q, a] - quality[q, b]) > tie_margin:
                    counts[q] += 1
