"""One new item: its clusters from its text and what was observed on it, and the model to send it to.

Works from what is published (responsibilities, profiles, vectors), not from a fit that is still at hand. An item unlike
anything measured is not placed: the ranking of all items decides.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import BoolArray, FloatArray
from capeval_pipeline.methods.ecc.inference import log_sigmoid, softmax_rows
from capeval_pipeline.methods.ecc.probing import expected_information_gain

UNLIKE_QUANTILE = 0.01
"""An item whose best cosine to all centres is below this quantile of the training items' is unlike all of them."""
FEWEST_COMPARED = 0.5
"""A model known in clusters of less than this share of the item has the prior's strength there, not one of its own."""
EMPTY_WEIGHT = 1e-8


@dataclass(frozen=True)
class PublishedClusters:
    """What routing needs to know of a fit.

    centres : (n_clusters, n_dimensions), length 1, 0 for an empty cluster
    least_cosine : 1st percentile of the training items' best cosine to the centres
    strengths, is_compared, costs : (n_clusters, n_models); costs in dollars a call, NaN where unknown
    global_strengths, global_costs : (n_models,) over all items
    """

    centres: FloatArray
    least_cosine: float
    strengths: FloatArray
    is_compared: BoolArray
    costs: FloatArray
    global_strengths: FloatArray
    global_costs: FloatArray
    embedding_weight: float
    temperature: float


@dataclass(frozen=True)
class Route:
    """What is known of the models on one item.

    responsibilities : (n_clusters,); best_cosine, is_unlike : whether the item was placed at all
    strengths : (n_models,) of the mixture; win_probability : (n_models,) mean probability to beat another model
    costs : (n_models,) expected dollars of a call, NaN where unknown
    is_known : (n_models,) compared on items of this kind; is_affordable : (n_models,) within the cost budget
    order : models from best to worst among those known and affordable, then the others by strength
    chosen : the first of them, -1 where no model is known and affordable
    best_known : the strongest of those known, whatever it costs, -1 where none is
    most_informative_pair : the two models whose comparison on the item would tell most about its clusters
    """

    responsibilities: FloatArray
    best_cosine: float
    is_unlike: bool
    strengths: FloatArray
    win_probability: FloatArray
    costs: FloatArray
    is_known: BoolArray
    is_affordable: BoolArray
    order: npt.NDArray[np.int64]
    chosen: int
    best_known: int
    most_informative_pair: tuple[int, int]


def centres_of(responsibilities: FloatArray, embeddings: FloatArray) -> FloatArray:
    """Directions of the clusters, (n_clusters, n_dimensions), length 1; 0 for a cluster that holds nothing.

    responsibilities : (n_items, n_clusters) of training items; embeddings : (n_items, n_dimensions)
    """
    sums = responsibilities.T @ embeddings
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    is_held = (lengths > 1e-12) & (responsibilities.sum(axis=0)[:, None] > EMPTY_WEIGHT)
    return np.where(is_held, sums / np.where(is_held, lengths, 1.0), 0.0)


def least_known_cosine(centres: FloatArray, embeddings: FloatArray) -> float:
    """1st percentile of the best cosine to all centres; embeddings : (n_items, n_dimensions) of training items."""
    return float(np.quantile((embeddings @ centres.T).max(axis=1), UNLIKE_QUANTILE))


def route_item(
    clusters: PublishedClusters,
    vector: FloatArray,
    *,
    observed: tuple[int, int] | None = None,
    cost_budget: float | None = None,
) -> Route:
    """Place an item and rank the models on it.

    vector : (n_dimensions,), length 1, or 0 for a text that says nothing
    observed : (winner, loser) of one pair that was compared on this very item
    cost_budget : dollars a call; models above it, and those whose cost is unknown, are not chosen
    """
    cosines = clusters.centres @ vector
    best_cosine = float(cosines.max())
    is_unlike = best_cosine < clusters.least_cosine
    logits = clusters.embedding_weight * cosines
    if observed is not None:
        winner, loser = observed
        logits = logits + log_sigmoid(clusters.strengths[:, winner] - clusters.strengths[:, loser])
    is_empty = ~clusters.centres.any(axis=1)
    if not is_empty.all():
        logits = np.where(is_empty, -np.inf, logits)
    placed = softmax_rows(logits[None] / clusters.temperature)
    if is_unlike:
        profiles, shares = clusters.global_strengths[None], np.ones((1, 1))
        costs = clusters.global_costs
        is_known = np.ones(len(costs), dtype=bool)
    else:
        profiles, shares = clusters.strengths, placed
        costs = _expected_costs(placed[0], clusters)
        is_known = placed[0] @ clusters.is_compared >= FEWEST_COMPARED
    strengths = (shares @ profiles)[0]
    is_affordable = np.ones(len(costs), dtype=bool) if cost_budget is None else costs <= cost_budget
    is_eligible = is_known & is_affordable
    order = _strongest_first(strengths, is_eligible)
    gain = expected_information_gain(placed, clusters.strengths)[0]
    first, second = (index[int(np.argmax(np.round(gain, 12)))] for index in np.triu_indices(len(strengths), 1))
    return Route(
        responsibilities=placed[0],
        best_cosine=best_cosine,
        is_unlike=is_unlike,
        strengths=strengths,
        win_probability=_mean_win_probability(profiles, shares[0]),
        costs=costs,
        is_known=is_known,
        is_affordable=is_affordable,
        order=order,
        chosen=int(order[0]) if is_eligible.any() else -1,
        best_known=int(_strongest_first(strengths, is_known)[0]) if is_known.any() else -1,
        most_informative_pair=(int(first), int(second)),
    )


def _strongest_first(strengths: FloatArray, comes_first: BoolArray) -> npt.NDArray[np.int64]:
    """Models by strength, those that come first before the others; last bits, which hang on BLAS, decide nothing."""
    return np.lexsort((np.arange(len(strengths)), -np.round(strengths, 9), ~comes_first)).astype(np.int64)


def _expected_costs(placed: FloatArray, clusters: PublishedClusters) -> FloatArray:
    """Dollars a call on a mix of clusters; where a cluster has no cost of a model, its mean over all items."""
    costs = np.where(np.isnan(clusters.costs), clusters.global_costs, clusters.costs)
    return np.asarray(placed @ costs, dtype=np.float64)


def _mean_win_probability(profiles: FloatArray, shares: FloatArray) -> FloatArray:
    n_models = profiles.shape[1]
    wins = 1.0 / (1.0 + np.exp(profiles[:, None, :] - profiles[:, :, None]))
    mixed = np.einsum("k,kab->ab", shares, wins)
    return np.asarray((mixed.sum(axis=1) - 0.5) / max(n_models - 1, 1), dtype=np.float64)
