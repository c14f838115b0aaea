"""What clusters must be compared with: a linear model of the text, and one ranking a category people named."""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray, fit_bradley_terry
from capeval_pipeline.methods.ecc.kernels import win_matrices
from capeval_pipeline.methods.ecc.votes import Votes

RIDGE = 1.0
"""Of both baselines: on intercepts and slopes towards 0, on categories' strengths towards the ranking of all."""


@dataclass(frozen=True)
class LinearFit:
    """Contextual Bradley-Terry: strengths(x) = intercept + slope (x - mean).

    intercept : (n_models,); slope : (n_models, n_dimensions); mean : (n_dimensions,)
    """

    intercept: FloatArray
    slope: FloatArray
    mean: FloatArray
    ridge: float

    def strengths(self, embeddings: npt.NDArray[np.floating]) -> FloatArray:
        """Strengths on each item, (n_items, n_models)."""
        return np.asarray(self.intercept + (embeddings - self.mean) @ self.slope.T, dtype=np.float64)


@numba.njit(nogil=True, cache=True)
def _loss_and_gradient(
    item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    strengths: FloatArray,
    gradient: FloatArray,
) -> float:
    loss = 0.0
    for v in range(item.shape[0]):
        q = item[v]
        gap = strengths[q, winner[v]] - strengths[q, loser[v]]
        tail = np.exp(-abs(gap))
        loss += item_weight[q] * (np.log1p(tail) + max(-gap, 0.0))
        surprise = tail / (1.0 + tail) if gap >= 0.0 else 1.0 / (1.0 + tail)
        gradient[q, winner[v]] -= item_weight[q] * surprise
        gradient[q, loser[v]] += item_weight[q] * surprise
    return loss


def fit_linear(
    votes: Votes, embeddings: npt.NDArray[np.floating], *, ridge: float = RIDGE, max_iterations: int = 2000
) -> LinearFit:
    """Fit the contextual Bradley-Terry model by L-BFGS, weights 1 / N_q, ridge on intercepts and slopes.

    Raises ConvergenceError when the gradient does not vanish to 1e-3 of a vote.
    """
    n_models, n_dimensions = votes.n_models, embeddings.shape[1]
    mean = np.asarray(embeddings.mean(axis=0), dtype=np.float64)
    centred = np.asarray(embeddings, dtype=np.float64) - mean
    weight = votes.weight_of_item

    def value_and_gradient(parameters: FloatArray) -> tuple[float, FloatArray]:
        table = parameters.reshape(n_models, n_dimensions + 1)
        strengths = table[:, 0] + centred @ table[:, 1:].T
        by_item = np.zeros_like(strengths)
        loss = _loss_and_gradient(votes.item, votes.winner, votes.loser, weight, strengths, by_item)
        gradient = ridge * table
        gradient[:, 0] += by_item.sum(axis=0)
        gradient[:, 1:] += by_item.T @ centred
        return loss + 0.5 * ridge * float((table**2).sum()), gradient.ravel()

    found = minimize(
        value_and_gradient,
        np.zeros(n_models * (n_dimensions + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "maxcor": 20, "gtol": 1e-4, "ftol": 1e-12},
    )
    worst = float(np.abs(found.jac).max())
    if worst > 1e-3 * max(1.0, np.sqrt(votes.n_items)):
        raise ConvergenceError(f"linear: largest gradient entry {worst:.1e} after {found.nit} iterations")
    table = found.x.reshape(n_models, n_dimensions + 1)
    return LinearFit(intercept=table[:, 0].copy(), slope=table[:, 1:].copy(), mean=mean, ridge=ridge)


@dataclass(frozen=True)
class LabelFit:
    """One ranking a category. by_category : (n_categories, n_models); unlabelled : (n_models,) for all other items."""

    by_category: FloatArray
    unlabelled: FloatArray
    ridge: float

    def strengths(self, category: IntArray) -> FloatArray:
        """Strengths on items of these categories, -1 for none or unseen, (n_items, n_models)."""
        return np.vstack([self.by_category, self.unlabelled])[category]


def fit_human_labels(
    votes: Votes, category: IntArray, n_categories: int, prior: FloatArray, *, ridge: float = RIDGE
) -> LabelFit:
    """One Bradley-Terry a category, weights 1 / N_q, shrunk to the ranking of all.

    category : (n_items,) position of the item's category, -1 where it has none
    prior : (n_models,) the reference global strengths, which items without a seen category get
    """
    member = np.zeros((votes.n_items, n_categories))
    known = np.flatnonzero(category >= 0)
    member[known, category[known]] = 1.0
    wins = win_matrices(votes.item, votes.winner, votes.loser, votes.weight_of_item, member, votes.n_models)
    fit = fit_bradley_terry(wins, ridge=ridge, prior=prior, tolerance=1e-8)
    return LabelFit(by_category=fit.strengths, unlabelled=np.asarray(prior, dtype=np.float64), ridge=ridge)


def pair_logits(item_strengths: FloatArray, item: IntArray, winner: IntArray, loser: IntArray) -> FloatArray:
    """Strength gaps winner minus loser of each pair, (n_pairs,); item_strengths : (n_items, n_models)."""
    return item_strengths[item, winner] - item_strengths[item, loser]
