"""Post-hoc options: take k draws of a model and keep the best, as with a verifier that is never wrong."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln

FloatArray = NDArray[np.float64]
DRAWS_ALLOWED: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 21, 34, 55)


def success_of_k_draws(successes: ArrayLike, n_generations: ArrayLike, k: int) -> FloatArray:
    """Unbiased value of 1 − (1−p)^k from Y right of G draws: 1 − C(G−Y, k)/C(G, k); NaN where k > G.

    The share of all ways to take k of the G draws that hold at least one right answer.
    """
    right, total = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(n_generations, dtype=float))
    wrong = total - right
    with np.errstate(invalid="ignore"):
        log_ratio = (gammaln(wrong + 1) - gammaln(np.maximum(wrong - k, 0) + 1)) - (
            gammaln(total + 1) - gammaln(np.maximum(total - k, 0) + 1)
        )
        value = np.where(wrong >= k, -np.expm1(log_ratio), 1.0)
    return np.where(np.isnan(right) | (total < k), np.nan, value)


def best_of_k_draws(scores: ArrayLike, k: int) -> FloatArray:
    """Unbiased value of E max of k draws: the mean of the maximum over all ways to take k of the G draws.

    scores : (…, n_generations), any scale. The i-th smallest is the maximum in C(i−1, k−1) of the C(G, k) ways; for
    0/1 scores this is `success_of_k_draws`. Raises ValueError for k outside 1…G.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n_generations = ordered.shape[-1]
    if not 1 <= k <= n_generations:
        raise ValueError(f"k is {k}; expected 1 to {n_generations} draws")
    weight = np.array([math.comb(i, k - 1) / math.comb(n_generations, k) for i in range(n_generations)])
    return np.asarray((ordered * weight).sum(axis=-1))


def draws_until_success(successes: ArrayLike, n_generations: ArrayLike, k: int) -> FloatArray:
    """Unbiased value of the mean number of draws until the first success, at most k, from Y right of G draws.

    Σ_{j<k} (1−p)^j, each term by C(G−Y, j)/C(G, j): draw j + 1 is made where the first j were wrong. NaN where k > G.
    """
    terms = [1.0 - success_of_k_draws(successes, n_generations, j) for j in range(k)]
    total = np.broadcast_to(np.asarray(n_generations, dtype=np.float64), terms[0].shape)
    return np.asarray(np.where(total < k, np.nan, np.sum(terms, axis=0)))


def best_of_k_beta_draws(mean_quality: ArrayLike, spread: float, k: int) -> FloatArray:
    """E max of k draws of cells with a known mean; (…) as mean_quality, NaN stays NaN.

    spread : a + b of the Beta(spread·m, spread·(1−m)) a graded draw follows; 0 or less: draws are 0 or 1, and the
    value is 1 − (1−m)^k. For graded draws ∫ 1 − F(x)^k dx by the midpoint rule, read off a table of means (error
    below 1e-3 at any mean; it is linear between 257 of them).
    """
    quality = np.asarray(mean_quality, dtype=np.float64)
    if k == 1:
        return quality
    if spread <= 0:
        return np.asarray(1.0 - (1.0 - quality) ** k)
    means, best = _best_of_beta_table(spread, k)
    return np.where(np.isnan(quality), np.nan, np.interp(quality, means, best))


@lru_cache(maxsize=32)
def _best_of_beta_table(spread: float, k: int) -> tuple[FloatArray, FloatArray]:
    means = np.linspace(0.0, 1.0, 257)
    inner = means[1:-1, None]
    points = (np.arange(2000) + 0.5) / 2000
    at_most = betainc(spread * inner, spread * (1.0 - inner), points[None, :])
    return means, np.concatenate(([0.0], 1.0 - (at_most**k).mean(axis=1), [1.0]))


def cost_until_success(success_probability: ArrayLike, cost_usd: ArrayLike, k: int) -> FloatArray:
    """Mean cost of drawing until the first success, at most k times: c·(1 − (1−p)^k)/p, k·c at p = 0."""
    probability = np.asarray(success_probability, dtype=np.float64)
    reached = -np.expm1(k * np.log1p(-np.minimum(probability, 1.0 - 1e-16)))
    n_draws = np.where(probability > 0, reached / np.where(probability > 0, probability, 1.0), float(k))
    return np.asarray(n_draws * np.asarray(cost_usd, dtype=np.float64))


def retry_options(
    quality_by_k: Sequence[FloatArray], cost_usd: FloatArray, draws_allowed: Sequence[int], *, pays_all: bool
) -> tuple[FloatArray, FloatArray]:
    """Options (model, k) side by side: quality and cost, each (n_items, n_models x n_k), for `exact_frontier`.

    quality_by_k : per k of `draws_allowed`, (n_items, n_models)
    pays_all : k·c for k draws; else c, as if only the kept draw were paid: a bound, never the answer
    """
    cost = [cost_usd * (k if pays_all else 1) for k in draws_allowed]
    return np.concatenate(list(quality_by_k), axis=1), np.concatenate(cost, axis=1)
