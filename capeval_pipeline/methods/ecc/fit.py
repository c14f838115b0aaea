"""Evidence-calibrated clusters: the objective, its three block minimisers, restarts, and when to stop.

Source: Wu, Silwal and Zhang 2026 (arXiv 2605.17110). Departures: the ridge belongs to the objective (without it the
quantity that is minimised is not the one that is watched), the Bradley-Terry block is solved exactly for all clusters
at once, and the best of several starts is kept on request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray, fit_bradley_terry
from capeval_pipeline.methods.ecc.kernels import update_responsibilities, win_matrices
from capeval_pipeline.methods.ecc.votes import Votes, wins_of_votes

MEAN_DIVERGENCE = 1e-3
CENTRE_SHIFT = 1e-4
RELATIVE_FALL = 1e-4
N_FLAT_PASSES = 6
FEW_CLUSTERS = 12
"""Up to so many clusters more starts are tried: with few clusters one start is fragile, and a start is cheap."""
EMPTY_WEIGHT = 1e-8
"""A cluster with less responsibility than this over all items is empty: it keeps its old centre."""


@dataclass(frozen=True)
class EccFit:
    """Clusters of items, heaviest first.

    responsibilities : (n_items, n_clusters), rows sum to 1
    strengths : (n_clusters, n_models), logit scale
    centres : (n_clusters, n_dimensions), length 1 (0 for a cluster that never held an item)
    embedding_weight, temperature, ridge : what it was fitted with
    objective : free energy F, ridge included
    objectives_of_starts : (n_restarts,)
    objective_path : F after each pass of the kept start
    n_passes, stop_reason : of the kept start; responsibilities_settled or objective_settled
    """

    responsibilities: FloatArray
    strengths: FloatArray
    centres: FloatArray
    embedding_weight: float
    temperature: float
    ridge: float
    objective: float
    objectives_of_starts: FloatArray
    objective_path: FloatArray
    n_passes: int
    stop_reason: str
    max_gradient: float

    @property
    def n_clusters(self) -> int:
        """Number of clusters, empty ones included."""
        return self.strengths.shape[0]

    def reordered(self, order: npt.ArrayLike) -> "EccFit":
        """The same fit with its clusters in another order."""
        index = np.asarray(order)
        return replace(
            self,
            responsibilities=self.responsibilities[:, index],
            strengths=self.strengths[index],
            centres=self.centres[index],
        )


def fit_global(votes: Votes, *, ridge: float = 1.0) -> FloatArray:
    """The reference ranking: one Bradley-Terry on all votes, weight 1 each, (n_models,)."""
    return fit_bradley_terry(wins_of_votes(votes), ridge=ridge).strengths


def n_restarts_for(n_clusters: int) -> int:
    """Starts that find the planted clusters reliably: one start is fragile for few clusters."""
    if n_clusters == 1:
        return 1
    return 20 if n_clusters <= FEW_CLUSTERS else 4


def n_quick_restarts_for(n_clusters: int) -> int:
    """Starts of a fit that is one of hundreds, as in a grid or with each model held out; fewer, to save time."""
    return 3 if 1 < n_clusters <= FEW_CLUSTERS else 1


def draw_starts(n_items: int, n_clusters: int, n_restarts: int, seed: int) -> list[FloatArray]:
    """Responsibilities ~ Dirichlet(1, ..., 1), one keyed generator a restart; items must come in id order."""
    return [
        np.random.default_rng(np.random.SeedSequence([seed, restart])).dirichlet(np.ones(n_clusters), n_items)
        for restart in range(n_restarts)
    ]


def fit_ecc(
    votes: Votes,
    embeddings: npt.NDArray[np.floating],
    *,
    n_clusters: int,
    embedding_weight: float,
    temperature: float = 0.1,
    ridge: float = 1.0,
    prior: npt.ArrayLike = 0.0,
    uses_embeddings: bool = True,
    uses_comparisons: bool = True,
    n_restarts: int = 1,
    seed: int = 0,
    starts: Sequence[FloatArray] | None = None,
    max_passes: int = 500,
) -> EccFit:
    """Fit evidence-calibrated clusters by block minimisation of the free energy.

    F = sum_qk r_qk [l_qk - w x_q . c_k] + T sum_qk r_qk log r_qk + ridge/2 sum_k |t_k - prior|^2,
    l_qk = mean over the item's votes of -log sigma(t_k,win - t_k,lose), |c_k| = 1.

    Parameters
    ----------
    votes : of n_items items, each with at least one vote
    embeddings : (n_items, n_dimensions), rows of length 1, or 0 where there is no text
    embedding_weight : weight of embeddings against comparisons (the paper's lambda)
    temperature : of the responsibilities (the paper's T)
    ridge, prior : pull of every cluster's strengths to the prior, scalar or (n_models,)
    uses_embeddings : False leaves the embedding term out of responsibilities and F (`comp_only`); centres are averaged
        all the same, so that a text can be placed
    uses_comparisons : False clusters the texts alone (`emb_only`, soft spherical k-means), strengths follow afterwards
    n_restarts, seed : starts as in draw_starts; the lowest F is kept
    starts : responsibilities to start from, instead

    Raises ConvergenceError when F rises by more than rounding (a bug) or nothing settles within max_passes.
    """
    if n_clusters < 1:
        raise ValueError(f"n_clusters: {n_clusters}; expected at least 1")
    if embeddings.shape[0] != votes.n_items:
        raise ValueError(f"embeddings: {embeddings.shape[0]} rows; expected one for each of {votes.n_items} items")
    if starts is None:
        starts = draw_starts(votes.n_items, n_clusters, n_restarts, seed)
    problem = _Problem(
        votes=votes,
        embeddings=np.ascontiguousarray(embeddings),
        embedding_weight=embedding_weight,
        temperature=temperature,
        ridge=ridge,
        prior=np.broadcast_to(np.asarray(prior, dtype=np.float64), (votes.n_models,)),
        uses_embeddings=uses_embeddings,
        uses_comparisons=uses_comparisons,
        max_passes=max_passes,
    )
    best: EccFit | None = None
    objectives = []
    for start in starts:
        fit = problem.descend(start)
        objectives.append(fit.objective)
        if best is None or fit.objective < best.objective:
            best = fit
    if best is None:
        raise ValueError("starts: none given")
    return replace(best, objectives_of_starts=np.array(objectives)).reordered(heaviest_first(best.responsibilities))


@dataclass(frozen=True)
class _Problem:
    """What stays the same over the passes of all starts."""

    votes: Votes
    embeddings: npt.NDArray[np.floating]
    embedding_weight: float
    temperature: float
    ridge: float
    prior: FloatArray
    uses_embeddings: bool
    uses_comparisons: bool
    max_passes: int

    def descend(self, start: FloatArray) -> EccFit:
        responsibilities = np.array(start, dtype=np.float64, order="C")
        with np.errstate(divide="ignore"):
            log_responsibilities = np.log(responsibilities)
        n_clusters = responsibilities.shape[1]
        strengths = np.broadcast_to(self.prior, (n_clusters, self.votes.n_models)).copy()
        centres = np.zeros((n_clusters, self.embeddings.shape[1]), dtype=self.embeddings.dtype)
        path: list[float] = []
        n_flat = 0
        max_gradient = 0.0
        stop_reason = ""
        # Products in single precision let F jitter in its eighth digit.
        allowance = 1e-9 if self.embeddings.dtype == np.float64 else 1e-6
        for _ in range(self.max_passes):
            if self.uses_comparisons:
                strengths, max_gradient = self.best_strengths(responsibilities, strengths)
            moved = self.best_centres(responsibilities, centres)
            shift = float(np.sqrt(((moved - centres) ** 2).sum(axis=1)).max()) if path else np.inf
            centres = moved
            votes = self.votes
            log_sum, divergence = update_responsibilities(
                votes.first_of_item, votes.winner, votes.loser, votes.weight_of_item,
                strengths if self.uses_comparisons else None,
                self.embeddings @ centres.T if self.uses_embeddings else None,
                responsibilities, log_responsibilities,
                embedding_weight=self.embedding_weight, temperature=self.temperature,
            )  # fmt: skip
            objective = -self.temperature * log_sum
            if self.uses_comparisons:
                objective += 0.5 * self.ridge * float(((strengths - self.prior) ** 2).sum())
            path.append(objective)
            if len(path) > 1:
                fall = path[-2] - objective
                if fall < -allowance * abs(objective):
                    raise ConvergenceError(f"ECC: free energy rose by {-fall:.1e} in pass {len(path)}, which is a bug")
                n_flat = n_flat + 1 if fall < RELATIVE_FALL * abs(objective) else 0
            if divergence / max(self.votes.n_items, 1) < MEAN_DIVERGENCE and shift < CENTRE_SHIFT:
                stop_reason = "responsibilities_settled"
                break
            if n_flat >= N_FLAT_PASSES:
                stop_reason = "objective_settled"
                break
        if not stop_reason:
            raise ConvergenceError(f"ECC: free energy still fell after {self.max_passes} passes")
        if not self.uses_comparisons:
            strengths, max_gradient = self.best_strengths(responsibilities, strengths)
        return EccFit(
            responsibilities=responsibilities,
            strengths=strengths,
            centres=np.asarray(centres, dtype=np.float64),
            embedding_weight=self.embedding_weight,
            temperature=self.temperature,
            ridge=self.ridge,
            objective=path[-1],
            objectives_of_starts=np.array([path[-1]]),
            objective_path=np.array(path),
            n_passes=len(path),
            stop_reason=stop_reason,
            max_gradient=max_gradient,
        )

    def best_strengths(self, responsibilities: FloatArray, start: FloatArray) -> tuple[FloatArray, float]:
        votes = self.votes
        wins = win_matrices(
            votes.item, votes.winner, votes.loser, votes.weight_of_item, responsibilities, votes.n_models
        )
        fit = fit_bradley_terry(wins, ridge=self.ridge, prior=self.prior, start=start, tolerance=1e-8)
        return fit.strengths, float(fit.max_gradient.max())

    def best_centres(self, responsibilities: FloatArray, old: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        sums = np.asarray(responsibilities, dtype=self.embeddings.dtype).T @ self.embeddings
        lengths = np.sqrt((sums**2).sum(axis=1))
        is_held = (lengths > 1e-12) & (responsibilities.sum(axis=0) > EMPTY_WEIGHT)
        return np.where(is_held[:, None], sums / np.where(is_held, lengths, 1.0)[:, None], old)


def profile_intervals(
    votes: Votes, fit: EccFit, *, prior: npt.ArrayLike, weights: npt.NDArray[np.floating]
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Percentile 95 % intervals of cluster strengths over item resamples, responsibilities held fixed.

    They understate what is not known, since the clusters are taken as given.

    weights : (n_resamples, n_items) multinomial item weights
    Returns lower, upper (n_clusters, n_models) and is_compared: False where the model's weighted votes in the cluster
    are below 0.5; there the interval is the prior's, +- 1.96 / sqrt(ridge).
    """
    n_clusters, n_models = fit.strengths.shape
    draws = np.empty((len(weights), n_clusters, n_models))
    for b, item_draws in enumerate(weights):
        wins = win_matrices(
            votes.item, votes.winner, votes.loser, votes.weight_of_item * item_draws, fit.responsibilities, n_models
        )
        # A resample is one of many: the limit that every fit must meet is enough.
        draws[b] = fit_bradley_terry(wins, ridge=fit.ridge, prior=prior, start=fit.strengths, tolerance=1e-6).strengths
    lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
    wins = win_matrices(votes.item, votes.winner, votes.loser, votes.weight_of_item, fit.responsibilities, n_models)
    is_compared = wins.sum(axis=1) + wins.sum(axis=2) >= 0.5
    radius = 1.959963984540054 / np.sqrt(fit.ridge)
    lower = np.where(is_compared, lower, fit.strengths - radius)
    upper = np.where(is_compared, upper, fit.strengths + radius)
    return lower, upper, is_compared


def heaviest_first(responsibilities: FloatArray) -> IntArray:
    """Order of clusters by their share of these items, heaviest first."""
    return np.argsort(-np.round(responsibilities.sum(axis=0), 9), kind="stable")
