"""How many clusters, how much shrinkage, how much text: the held-out choice of `ecc_shrunk`.

Cells that differ in the ridge alone are one job: random starts for the smallest ridge, and each larger one from where
the last ended. That halves the work; the other way round, from strong to weak shrinkage, ends in worse clusters.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
from capeval_pipeline.methods.ecc.fit import draw_starts, fit_ecc, fit_global, n_quick_restarts_for
from capeval_pipeline.methods.ecc.inference import losses_of, mixture_probabilities, place_texts
from capeval_pipeline.methods.ecc.votes import Votes

CLUSTER_COUNTS = (1, 2, 4, 6, 8, 12, 20, 30)
LARGER_CLUSTER_COUNTS = (50, 80)
RIDGES = (1.0, 3.0, 10.0)
EMBEDDING_WEIGHTS = (3.0, 1.0)
"""The first is taken unless another is better by more than one standard error."""

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@dataclass(frozen=True)
class GridCell:
    """One combination that was tried; losses are of items that were not fitted."""

    n_clusters: int
    ridge: float
    embedding_weight: float
    heldout_nll: float
    heldout_nll_se: float
    is_chosen: bool


@dataclass(frozen=True)
class Choice:
    """What the held-out items chose, and all that was tried."""

    n_clusters: int
    ridge: float
    embedding_weight: float
    cells: tuple[GridCell, ...]


@dataclass(frozen=True)
class _Fold:
    votes: Votes
    embeddings: npt.NDArray[np.floating]
    prior: FloatArray
    heldout: Votes
    heldout_embeddings: npt.NDArray[np.floating]


@dataclass(frozen=True)
class _Job:
    """The fits of one number of clusters and weight; a record, so that it can be sent to another process."""

    fold: _Fold
    n_clusters: int
    embedding_weight: float
    ridges: tuple[float, ...]
    temperature: float
    seed: int


def choose_settings(
    votes: Votes,
    embeddings: npt.NDArray[np.floating],
    fold: IntArray,
    *,
    seed: int = 0,
    temperature: float = 0.1,
    cluster_counts: Sequence[int] = CLUSTER_COUNTS,
    ridges: Sequence[float] = RIDGES,
    embedding_weights: Sequence[float] = EMBEDDING_WEIGHTS,
    heldout_folds: Sequence[int] = (0, 1),
    map_cells: Map = map,
) -> Choice:
    """Choose n_clusters, ridge and embedding_weight by the loss of held-out items without a probe.

    Each of the two folds is held out once; the loss is averaged per item. While the largest number of clusters wins
    and there are 30 training items a cluster, larger ones are tried. Numbers above a fifth of the items are left out.

    votes, embeddings, fold : of the training items; fold is (n_items,)
    map_cells : `map`, or an executor's, to run cells side by side; results do not depend on it
    """
    folds = [_hold_out(votes, embeddings, fold == held) for held in heldout_folds]
    n_items = votes.n_items
    tried: dict[tuple[int, float, float], FloatArray] = {}

    def try_counts(counts: Sequence[int]) -> None:
        # One cluster has no use for texts: computed once, entered for every weight.
        keys = [(k, weight) for k in counts for weight in (embedding_weights[:1] if k == 1 else embedding_weights)]
        # Largest first, so that no long job is left for the end.
        jobs = sorted(((key, i) for key in keys for i in range(len(folds))), key=lambda job: (-job[0][0], job))
        work = [_Job(folds[i], *key, tuple(sorted(ridges)), temperature, seed) for key, i in jobs]
        found = dict(zip(jobs, map_cells(_heldout_losses, work), strict=True))
        for k, own_weight in keys:
            for ridge in ridges:
                losses = np.concatenate([found[(k, own_weight), i][ridge] for i in range(len(folds))])
                for weight in embedding_weights if k == 1 else (own_weight,):
                    tried[k, ridge, weight] = losses

    counts = [k for k in cluster_counts if k == 1 or k <= n_items / 5]
    try_counts(counts)
    chosen = _choose(tried, embedding_weights)
    for larger in LARGER_CLUSTER_COUNTS:
        if chosen[0] != max(key[0] for key in tried) or chosen[0] < max(cluster_counts) or larger > n_items / 30:
            break
        try_counts([larger])
        chosen = _choose(tried, embedding_weights)
    cells = tuple(
        GridCell(k, ridge, weight, float(losses.mean()), _standard_error(losses), (k, ridge, weight) == chosen)
        for (k, ridge, weight), losses in sorted(tried.items())
    )
    return Choice(*chosen, cells=cells)


def _choose(
    tried: dict[tuple[int, float, float], FloatArray], embedding_weights: Sequence[float]
) -> tuple[int, float, float]:
    best = [
        min((key for key in tried if key[2] == weight), key=lambda key: (round(float(tried[key].mean()), 12), key))
        for weight in embedding_weights
    ]
    chosen = best[0]
    for other in best[1:]:
        difference = tried[chosen] - tried[other]
        if other[0] > 1 and float(difference.mean()) > _standard_error(difference):
            chosen = other
    return chosen


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _hold_out(votes: Votes, embeddings: npt.NDArray[np.floating], is_heldout: npt.NDArray[np.bool_]) -> _Fold:
    fitted, heldout = np.flatnonzero(~is_heldout), np.flatnonzero(is_heldout)
    fitted_votes = votes.restricted_to(fitted)
    return _Fold(
        votes=fitted_votes,
        embeddings=embeddings[fitted],
        prior=fit_global(fitted_votes),
        heldout=votes.restricted_to(heldout),
        heldout_embeddings=embeddings[heldout],
    )


def _heldout_losses(job: _Job) -> dict[float, FloatArray]:
    """Mean loss of each held-out item's votes, (n_heldout,), by ridge."""
    fold, heldout = job.fold, job.fold.heldout
    starts = draw_starts(fold.votes.n_items, job.n_clusters, n_quick_restarts_for(job.n_clusters), job.seed)
    found = {}
    for ridge in job.ridges:
        fit = fit_ecc(
            fold.votes,
            fold.embeddings,
            n_clusters=job.n_clusters,
            embedding_weight=job.embedding_weight,
            temperature=job.temperature,
            ridge=ridge,
            prior=fold.prior,
            starts=starts,
        )
        starts = [fit.responsibilities]
        losses = losses_of(
            mixture_probabilities(
                place_texts(fit, fold.heldout_embeddings), fit.strengths, heldout.item, heldout.winner, heldout.loser
            )
        )
        weighted = losses * heldout.weight_of_item[heldout.item]
        found[ridge] = np.bincount(heldout.item, weights=weighted, minlength=heldout.n_items).astype(np.float64)
    return found
