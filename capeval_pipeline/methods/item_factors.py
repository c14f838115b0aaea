"""Low-rank logistic predictor of scores: P(S = 1) = sigmoid(row . item).

Item factors are learned on training models and frozen; the row of a new model is fitted on its own answers only. What
the predictions are used for, and why useless ones cost nothing, is in `methods/identification`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_STEP_LENGTH = 3.0
RANK_CHOICES = (1, 2, 3, 5, 8)
# Ranks are compared on at most this many items: the comparison is about models, and V itself is fitted on all of them.
MAX_ITEMS_FOR_RANK_CHOICE = 2_000


@dataclass(frozen=True)
class ItemFactors:
    """Frozen item side of the predictor.

    item_factors : (n_items, rank)
    prior_mean : (rank,), mean of the training rows; a new row has the prior N(prior_mean, I / l2)
    l2 : ridge on both sides
    training_rows : (n_training, rank), unit covariance over the training models
    training_loss : mean cross-entropy of the training scores, nats
    """

    item_factors: FloatArray
    prior_mean: FloatArray
    l2: float
    training_rows: FloatArray
    training_loss: float

    @property
    def rank(self) -> int:
        return int(self.item_factors.shape[1])


@dataclass(frozen=True)
class PairMoments:
    """Within-model second moments of (score, prediction held before the score was seen), per pair."""

    covariance: float
    prediction_variance: float
    score_variance: float


@dataclass(frozen=True)
class RankChoice:
    """Outcome of comparing ranks on held-out families.

    ranks, losses, standard_errors : one entry a rank tried; losses in nats per unseen item
    rank : the smallest whose loss is within one standard error of the best
    moments : pair moments of the held-out models at that rank, the pseudo-pairs where arms must not be pooled
    """

    ranks: tuple[int, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...]
    rank: int
    moments: PairMoments


def fit_item_factors(scores: FloatArray, *, rank: int, l2: float = 1.0, n_sweeps: int = 20) -> ItemFactors:
    """Fit item factors by alternating ridge-logistic Newton sweeps from an SVD start.

    scores : (n_models, n_items) in [0, 1], complete; graded scores enter as soft labels.

    A fixed number of sweeps and no convergence test: any frozen predictor leaves the estimates unbiased, so a last
    digit of likelihood buys nothing. The rows are rotated and scaled to unit covariance, which is what makes N(mean, I)
    the right prior of a new row. Raises ValueError for missing scores, scores outside [0, 1] or a rank out of range.
    """
    n_models, n_items = scores.shape
    if not 1 <= rank <= min(n_models, n_items):
        raise ValueError(f"rank {rank} does not fit {n_models} models x {n_items} items")
    if not np.isfinite(scores).all() or scores.min() < 0.0 or scores.max() > 1.0:
        raise ValueError("training scores must be complete and lie in [0, 1]")
    rows, items = _svd_start(scores, rank)
    for _ in range(n_sweeps):
        rows = _newton_sweep(rows, items, scores, l2)
        items = _newton_sweep(items, rows, scores.T, l2)
    rows, items = _to_unit_covariance(rows, items)
    return ItemFactors(
        item_factors=np.ascontiguousarray(items),
        prior_mean=rows.mean(axis=0),
        l2=l2,
        training_rows=rows,
        training_loss=float(_cross_entropy(scores, rows @ items.T).mean()),
    )


def choose_rank(
    scores: FloatArray,
    families: IntArray,
    *,
    rng: np.random.Generator,
    ranks: Sequence[int] = RANK_CHOICES,
    l2: float = 1.0,
    n_folds: int = 5,
    n_answers: int = 50,
    n_sweeps: int = 8,
) -> RankChoice:
    """Choose the rank by the loss on unseen items of held-out training families after `n_answers` answers.

    scores : (n_models, n_items), families : (n_models,) labels; a family is held out as a whole.
    With one rank in `ranks` nothing is chosen, but the held-out moments are still measured.
    Raises ValueError when fewer than two families are left to hold out.
    """
    n_models, n_items = scores.shape
    labels = np.unique(families)
    if labels.size < 2:
        raise ValueError(f"{labels.size} training family; expected at least 2 to hold one out")
    if n_items > MAX_ITEMS_FOR_RANK_CHOICE:
        scores = scores[:, np.sort(rng.choice(n_items, MAX_ITEMS_FOR_RANK_CHOICE, replace=False))]
        n_items = scores.shape[1]
    folds = _family_folds(families, rng, min(n_folds, labels.size))
    n_seen = min(n_answers, max(1, n_items // 2))
    seen = rng.permuted(np.tile(np.arange(n_items), (n_models, 1)), axis=1)[:, :n_seen]
    smallest_training_set = min(int((folds != fold).sum()) for fold in np.unique(folds))
    usable = tuple(sorted(rank for rank in ranks if rank <= min(smallest_training_set, n_items)))
    if not usable:
        raise ValueError(f"no rank of {tuple(ranks)} fits {smallest_training_set} training models x {n_items} items")
    losses, errors, moments = [], [], []
    for rank in usable:
        loss, pair_moments = _held_out(scores, folds, seen, rank, l2, n_sweeps)
        family_loss = np.array([loss[families == label].mean() for label in labels])
        losses.append(float(family_loss.mean()))
        errors.append(float(family_loss.std(ddof=1) / math.sqrt(labels.size)))
        moments.append(pair_moments)
    best = int(np.argmin(losses))
    chosen = next(i for i in range(len(usable)) if losses[i] <= losses[best] + errors[best])
    return RankChoice(usable, tuple(losses), tuple(errors), usable[chosen], moments[chosen])


def predict(row: FloatArray, item_factors: FloatArray) -> FloatArray:
    """Predicted scores sigmoid(V u) of a model with the given row, (n_items,) in (0, 1)."""
    return _sigmoid(item_factors @ row)


@njit(nogil=True, cache=True)
def update_row(
    row: FloatArray,
    item_factors: FloatArray,
    prior_mean: FloatArray,
    l2: float,
    items: NDArray[np.int32],
    n_answers: int,
    scores: FloatArray,
    n_steps: int,
) -> None:
    """Move `row` (rank,) in place by `n_steps` Newton steps of the ridge-logistic fit to its own answers.

    items : item indices in the order drawn, of which the first `n_answers` are answered; scores : (n_items,), only
    those entries are read. Each step is cut to a length of 3: far from the optimum the curvature is close to the ridge
    alone and a full step overshoots.
    """
    rank = row.shape[0]
    gradient = np.empty(rank)
    hessian = np.empty((rank, rank))
    for _ in range(n_steps):
        for a in range(rank):
            gradient[a] = l2 * (prior_mean[a] - row[a])
            for b in range(rank):
                hessian[a, b] = 0.0
            hessian[a, a] = l2
        for k in range(n_answers):
            item = items[k]
            logit = 0.0
            for a in range(rank):
                logit += row[a] * item_factors[item, a]
            predicted = 1.0 / (1.0 + math.exp(-logit))
            residual = scores[item] - predicted
            curvature = predicted * (1.0 - predicted)
            for a in range(rank):
                factor = item_factors[item, a]
                gradient[a] += residual * factor
                for b in range(a + 1):
                    hessian[a, b] += curvature * factor * item_factors[item, b]
        _solve_cholesky_in_place(hessian, gradient)
        length = 0.0
        for a in range(rank):
            length += gradient[a] * gradient[a]
        length = math.sqrt(length)
        shrink = 1.0 if length <= MAX_STEP_LENGTH else MAX_STEP_LENGTH / length
        for a in range(rank):
            row[a] += shrink * gradient[a]


@njit(nogil=True, cache=True)
def _solve_cholesky_in_place(matrix: FloatArray, vector: FloatArray) -> None:
    """Replace `vector` by matrix^-1 vector; only the lower triangle is read, and it is overwritten."""
    size = vector.shape[0]
    for a in range(size):
        for b in range(a + 1):
            value = matrix[a, b]
            for c in range(b):
                value -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = math.sqrt(value) if a == b else value / matrix[b, b]
    for a in range(size):
        value = vector[a]
        for c in range(a):
            value -= matrix[a, c] * vector[c]
        vector[a] = value / matrix[a, a]
    for a in range(size - 1, -1, -1):
        value = vector[a]
        for c in range(a + 1, size):
            value -= matrix[c, a] * vector[c]
        vector[a] = value / matrix[a, a]


def _svd_start(scores: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    # 4 (s - 1/2) is the tangent of the logit at 1/2 and, unlike the logit, finite at 0 and 1.
    left, sizes, right = np.linalg.svd(4.0 * (scores - 0.5), full_matrices=False)
    # The sign of a singular vector is arbitrary; fix it, so that the start is the same on every build of LAPACK.
    signs = np.sign(right[np.arange(rank), np.abs(right[:rank]).argmax(axis=1)])
    root = np.sqrt(sizes[:rank])
    balance = (scores.shape[0] / scores.shape[1]) ** 0.25
    return left[:, :rank] * signs * root * balance, right[:rank].T * signs * root / balance


def _newton_sweep(moving: FloatArray, fixed: FloatArray, scores: FloatArray, l2: float) -> FloatArray:
    """One capped Newton step for every row of `moving` (n, rank), given `fixed` (k, rank) and scores (n, k)."""
    n_rows, rank = moving.shape
    predicted = _sigmoid(moving @ fixed.T)
    gradient = (scores - predicted) @ fixed - l2 * moving
    products = (fixed[:, :, None] * fixed[:, None, :]).reshape(fixed.shape[0], rank * rank)
    hessian = ((predicted * (1.0 - predicted)) @ products).reshape(n_rows, rank, rank) + l2 * np.eye(rank)
    step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    length = np.linalg.norm(step, axis=1, keepdims=True)
    return moving + step * np.minimum(1.0, MAX_STEP_LENGTH / np.maximum(length, 1e-300))


def _to_unit_covariance(rows: FloatArray, items: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rotate and scale so that rows have unit covariance; the products rows . items stay what they are."""
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, ddof=0))
    values, vectors = np.linalg.eigh(covariance)
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    # A direction in which the training models do not differ cannot be scaled to unit variance; it is left as it is.
    scale = np.where(values > 1e-10 * max(float(values.max()), 1e-300), np.sqrt(np.maximum(values, 0.0)), 1.0)
    return (rows @ vectors) / scale, (items @ vectors) * scale


def _held_out(
    scores: FloatArray, folds: IntArray, seen: IntArray, rank: int, l2: float, n_sweeps: int
) -> tuple[FloatArray, PairMoments]:
    """Loss of each model on its unseen items while its family is held out, and the pair moments there."""
    n_models, n_items = scores.shape
    loss = np.empty(n_models)
    sums = np.zeros(3)
    n_pairs = 0
    for fold in np.unique(folds):
        fit = fit_item_factors(scores[folds != fold], rank=rank, l2=l2, n_sweeps=n_sweeps)
        for model in np.flatnonzero(folds == fold):
            row = fit.prior_mean.copy()
            answered = seen[model].astype(np.int32)
            update_row(row, fit.item_factors, fit.prior_mean, l2, answered, answered.size, scores[model], 8)
            unseen = np.ones(n_items, dtype=bool)
            unseen[answered] = False
            logits = fit.item_factors[unseen] @ row
            actual, predicted = scores[model, unseen], _sigmoid(logits)
            loss[model] = _cross_entropy(actual, logits).mean()
            actual, predicted = actual - actual.mean(), predicted - predicted.mean()
            sums += [actual @ predicted, predicted @ predicted, actual @ actual]
            n_pairs += actual.size
    covariance, prediction_variance, score_variance = (float(value) for value in sums / n_pairs)
    return loss, PairMoments(covariance, prediction_variance, score_variance)


def _family_folds(families: IntArray, rng: np.random.Generator, n_folds: int) -> IntArray:
    labels, index, sizes = np.unique(families, return_inverse=True, return_counts=True)
    filled = np.zeros(n_folds, dtype=np.int64)
    fold_of_label = np.empty(labels.size, dtype=np.int64)
    # Largest family first into the emptiest fold; the random order decides between equals.
    order = rng.permutation(labels.size)
    for label in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of_label[label] = int(filled.argmin())
        filled[fold_of_label[label]] += sizes[label]
    return fold_of_label[index]


def _sigmoid(logits: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(0.5 * logits))


def _cross_entropy(scores: FloatArray, logits: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, logits) - scores * logits
