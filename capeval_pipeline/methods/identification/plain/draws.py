"""One draw, what is learned from past draws, and how draws are combined; the reference of `estimator`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capeval_pipeline.methods.identification.records import SMALLEST_RESIDUAL_RATIO, FloatArray


def single_step_estimate(
    observed_scores: Sequence[float],
    unseen_predictions: Sequence[float],
    *,
    score: float,
    prediction: float,
    probability: float,
    control_weight: float,
) -> float:
    """theta of one draw; `unseen_predictions` are those of U before the draw, the drawn item's included."""
    n = len(observed_scores) + len(unseen_predictions)
    known = sum(observed_scores) + control_weight * sum(unseen_predictions)
    return (known + (score - control_weight * prediction) / probability) / n


@dataclass(frozen=True)
class Shrunk:
    """Shrunk moments of an arm's pairs and what follows from them."""

    control_weight: float
    residual_ratio: float
    score_variance: float


def centred_sums(
    scores: Sequence[float], predictions: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[float, float, float, float]:
    """Sums of (cross, prediction, score) products about the weighted means, and the sum of weights."""
    if not scores:
        return 0.0, 0.0, 0.0, 0.0
    w = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=float)
    s, p = np.asarray(scores, dtype=float), np.asarray(predictions, dtype=float)
    s, p = s - (w @ s) / w.sum(), p - (w @ p) / w.sum()
    # Equal values leave a rounding rest in the mean; it must not pass for variance.
    s[np.abs(s) < 1e-14], p[np.abs(p) < 1e-14] = 0.0, 0.0
    return float(w @ (s * p)), float(w @ (p * p)), float(w @ (s * s)), float(w.sum())


def shrink(
    own: tuple[float, float, float, float], pool_per_pair: tuple[float, float, float], pseudo_pairs: float
) -> Shrunk:
    """Control weight, residual variance ratio and score variance; pool_per_pair = (cov, var prediction, var score)."""
    total = own[3] + pseudo_pairs
    if total <= 0.0:
        return Shrunk(0.0, 1.0, 0.25)
    covariance, prediction_variance, score_variance = (
        (own[i] + pseudo_pairs * pool_per_pair[i]) / total for i in range(3)
    )
    weight = control_weight(covariance, prediction_variance)
    if weight == 0.0 or score_variance <= 0.0:
        return Shrunk(weight, 1.0, score_variance)
    residual = score_variance - 2 * weight * covariance + weight**2 * prediction_variance
    return Shrunk(weight, min(max(residual / score_variance, SMALLEST_RESIDUAL_RATIO), 1.0), score_variance)


def control_weight(covariance: float, prediction_variance: float) -> float:
    """lam = clip(cov / var, 0, 1), 0 where predictions do not vary."""
    if prediction_variance <= 0.0:
        return 0.0
    return min(max(covariance / prediction_variance, 0.0), 1.0)


def combine(thetas: Sequence[float], residual_ratios: Sequence[float], n: int, exact_mean: float) -> float:
    """Weighted mean of single-step estimates; the exact mean once all n items are read."""
    if len(thetas) == n:
        return exact_mean
    weights = [1 / ((n - k) * (n - k - 1) * residual_ratios[k]) for k in range(len(thetas))]
    return sum(w * t for w, t in zip(weights, thetas, strict=True)) / sum(weights)


def newton_step(row: FloatArray, factors: FloatArray, prior: FloatArray, l2: float, scores: FloatArray) -> FloatArray:
    """One Newton step of the ridge-logistic fit, at most 3 long; factors (k, rank) of the answered items."""
    predicted = 1 / (1 + np.exp(-factors @ row))
    gradient = factors.T @ (scores - predicted) + l2 * (prior - row)
    hessian = (factors.T * (predicted * (1 - predicted))) @ factors + l2 * np.eye(row.size)
    step = np.linalg.solve(hessian, gradient)
    return row + step * min(1.0, 3.0 / max(float(np.linalg.norm(step)), 1e-300))
