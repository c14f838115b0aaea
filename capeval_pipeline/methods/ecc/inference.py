"""From a text, and one observed pair, to the probability that one model beats another on an item.

Probabilities are averaged over clusters, not logits: p(a beats b | q) = sum_k r_qk sigma(t_ka - t_kb).
"""

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
from capeval_pipeline.methods.ecc.fit import EccFit

SMALLEST_PROBABILITY = 1e-12
"""Losses stay finite: below this a probability is rounding."""


def softmax_rows(logits: FloatArray) -> FloatArray:
    """Softmax of each row."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float64)


def log_sigmoid(values: FloatArray) -> FloatArray:
    """log sigma(x), without overflow."""
    return -np.logaddexp(0.0, -values)


def place_texts(fit: EccFit, embeddings: npt.NDArray[np.floating]) -> FloatArray:
    """Responsibilities from the text alone, softmax(w x . c / T), (n_items, n_clusters); a zero vector is flat."""
    return softmax_rows(fit.embedding_weight * _cosines(fit, embeddings) / fit.temperature)


def _cosines(fit: EccFit, embeddings: npt.NDArray[np.floating]) -> FloatArray:
    """x . c, (n_items, n_clusters), computed in the precision of the embeddings."""
    return np.asarray(embeddings @ fit.centres.T.astype(embeddings.dtype), dtype=np.float64)


def place_probes(
    fit: EccFit,
    embeddings: npt.NDArray[np.floating] | None,
    probe_winner: IntArray,
    probe_loser: IntArray,
    *,
    probe_weight: float = 1.0,
) -> FloatArray:
    """Responsibilities from one observed pair an item, with its text or without.

    softmax((alpha log sigma(t_k,win - t_k,lose) + w x . c_k) / T), the text term left out where embeddings is None.

    probe_winner, probe_loser : (n_items,) models, -1 where nothing was observed (a tie): such an item has the text's
        responsibilities, flat ones without a text
    probe_weight : the alpha of the text; 1 is the paper's rule, one probe then weighs as much as a training item's
        votes together
    """
    n_items = len(probe_winner)
    logits = np.zeros((n_items, fit.n_clusters))
    if embeddings is not None:
        logits += fit.embedding_weight * _cosines(fit, embeddings)
    seen = probe_winner >= 0
    gaps = fit.strengths[:, probe_winner[seen]] - fit.strengths[:, probe_loser[seen]]
    logits[seen] += probe_weight * log_sigmoid(gaps).T
    return softmax_rows(logits / fit.temperature)


def mixture_probabilities(
    responsibilities: FloatArray, strengths: FloatArray, item: IntArray, winner: IntArray, loser: IntArray
) -> FloatArray:
    """p(winner beats loser) for each pair, (n_pairs,).

    responsibilities : (n_items, n_clusters); strengths : (n_clusters, n_models)
    """
    probabilities = np.empty(len(item))
    for first in range(0, len(item), 100_000):
        block = slice(first, first + 100_000)
        gaps = strengths[:, winner[block]] - strengths[:, loser[block]]
        wins = 1.0 / (1.0 + np.exp(-gaps))
        probabilities[block] = np.einsum("nk,kn->n", responsibilities[item[block]], wins)
    return probabilities


def losses_of(probabilities: FloatArray) -> FloatArray:
    """Negative log-likelihoods of the pairs' winners."""
    return -np.log(np.clip(probabilities, SMALLEST_PROBABILITY, 1.0))


def logits_of(probabilities: FloatArray) -> FloatArray:
    """log p / (1 - p), finite."""
    clipped = np.clip(probabilities, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    return np.asarray(np.log(clipped) - np.log1p(-clipped), dtype=np.float64)
