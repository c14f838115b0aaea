"""Which model to send an item to, and what asking first would cost."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RouterResult:
    """Mean score and cost of a router over items, with 95 % intervals by item; NaN where unknown.

    share_of_oracle_gain = (mean_score - global best) / (oracle - global best), NaN where the denominator is 0
    """

    n_items: int
    mean_score: float
    mean_cost: float
    share_of_oracle_gain: float
    score_lower: float
    score_upper: float
    share_lower: float
    share_upper: float


def mixture_strengths(responsibilities: FloatArray, strengths: FloatArray) -> FloatArray:
    """s_qm = sum_k r_qk t_km, (n_items, n_models)."""
    return responsibilities @ strengths


def evaluate_router(
    scores: FloatArray,
    costs: FloatArray | None,
    chosen: IntArray,
    *,
    global_best: int,
    probes: tuple[IntArray, IntArray] | None = None,
    weights: npt.NDArray[np.floating],
) -> RouterResult:
    """Score and cost of sending each item to its chosen model.

    scores : (n_items, n_models) qualities without gaps
    costs : (n_items, n_models) dollars a call, NaN where unknown; one needed unknown makes the mean unknown
    chosen : (n_items,) model of each item
    global_best : the model with the best training mean
    probes : two models called before the choice, -1 where none; a call the probe has paid for is not paid twice
    weights : (n_resamples, n_items)
    """
    rows = np.arange(len(scores))
    return _summarise(
        scores, scores[rows, chosen], _paid(costs, chosen, probes), global_best=global_best, weights=weights
    )


def evaluate_random_router(
    scores: FloatArray, costs: FloatArray | None, *, global_best: int, weights: npt.NDArray[np.floating]
) -> RouterResult:
    """Expected score and cost of a uniformly random model."""
    paid = np.full(len(scores), np.nan) if costs is None else costs.mean(axis=1)
    return _summarise(scores, scores.mean(axis=1), paid, global_best=global_best, weights=weights)


def oracle_choice(scores: FloatArray, costs: FloatArray | None) -> IntArray:
    """The best model of each item; among equals the cheapest where costs are known, else the first."""
    is_best = scores == scores.max(axis=1, keepdims=True)
    if costs is None or np.isnan(costs).any():
        return np.argmax(is_best, axis=1)
    return np.argmin(np.where(is_best, costs, np.inf), axis=1)


def _paid(costs: FloatArray | None, chosen: IntArray, probes: tuple[IntArray, IntArray] | None) -> FloatArray:
    n_items = len(chosen)
    if costs is None:
        return np.full(n_items, np.nan)
    is_called: BoolArray = np.zeros(costs.shape, dtype=bool)
    is_called[np.arange(n_items), chosen] = True
    for probe in probes or ():
        asked = np.flatnonzero(probe >= 0)
        is_called[asked, probe[asked]] = True
    return np.where(is_called, costs, 0.0).sum(axis=1)


def _summarise(
    scores: FloatArray, reached: FloatArray, paid: FloatArray, *, global_best: int, weights: npt.NDArray[np.floating]
) -> RouterResult:
    baseline, oracle = scores[:, global_best], scores.max(axis=1)
    n_items = len(scores)
    draws = (weights @ np.column_stack([reached, baseline, oracle])) / weights.sum(axis=1, keepdims=True)
    room = draws[:, 2] - draws[:, 1]
    shares = np.divide(draws[:, 0] - draws[:, 1], room, out=np.full(len(room), np.nan), where=room > 1e-12)
    shares = shares[~np.isnan(shares)]
    denominator = float(oracle.mean() - baseline.mean())
    has_share = denominator > 1e-12 and len(shares) > 0
    score_lower, score_upper = np.quantile(draws[:, 0], [0.025, 0.975])
    share_lower, share_upper = np.quantile(shares, [0.025, 0.975]) if has_share else (np.nan, np.nan)
    return RouterResult(
        n_items=n_items,
        mean_score=float(reached.mean()),
        mean_cost=float(paid.mean()),
        share_of_oracle_gain=float(reached.mean() - baseline.mean()) / denominator if has_share else np.nan,
        score_lower=float(score_lower),
        score_upper=float(score_upper),
        share_lower=float(share_lower),
        share_upper=float(share_upper),
    )
