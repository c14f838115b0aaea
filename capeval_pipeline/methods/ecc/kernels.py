"""The only loops over votes, and the update of responsibilities; each kernel beside its plain reference.

Clusters are the innermost index, so that one vote touches one stretch of memory.
"""

import numba
import numpy as np

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray


def win_matrices(
    item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    responsibilities: FloatArray,
    n_models: int,
) -> FloatArray:
    """W[k, a, b] = sum over votes "a beat b" of weight_q r_qk, (n_clusters, n_models, n_models)."""
    wins = np.zeros((n_models, n_models, responsibilities.shape[1]))
    _scatter_wins(item, winner, loser, item_weight, responsibilities, wins)
    return np.ascontiguousarray(wins.transpose(2, 0, 1))


@numba.njit(nogil=True, cache=True)
def _scatter_wins(
    item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    responsibilities: FloatArray,
    wins: FloatArray,
) -> None:
    for v in range(item.shape[0]):
        q = item[v]
        weight = item_weight[q]
        for k in range(responsibilities.shape[1]):
            wins[winner[v], loser[v], k] += weight * responsibilities[q, k]


def win_matrices_reference(
    item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    responsibilities: FloatArray,
    n_models: int,
) -> FloatArray:
    """The same by numpy's unbuffered addition."""
    wins = np.zeros((responsibilities.shape[1], n_models, n_models))
    for k in range(responsibilities.shape[1]):
        np.add.at(wins[k], (winner, loser), item_weight[item] * responsibilities[item, k])
    return wins


def item_losses(
    item: IntArray, winner: IntArray, loser: IntArray, item_weight: FloatArray, strengths: FloatArray
) -> FloatArray:
    """l_qk = weight_q times the sum over the item's votes of -log sigma(t_k,win - t_k,lose), (n_items, n_clusters).

    strengths : (n_clusters, n_models)
    """
    losses = np.zeros((len(item_weight), strengths.shape[0]))
    by_model = np.ascontiguousarray(strengths.T)
    if len(item) >= by_model.shape[0] ** 2:
        # Fewer pairs of models than votes: one logarithm a pair and cluster, then look-ups.
        _gather_losses(item, winner, loser, item_weight, _loss_table(by_model), losses)
    else:
        _compute_losses(item, winner, loser, item_weight, by_model, losses)
    return losses


@numba.njit(nogil=True, cache=True)
def _loss_table(by_model: FloatArray) -> FloatArray:
    n_models, n_clusters = by_model.shape
    table = np.zeros((n_models, n_models, n_clusters))
    for a in range(n_models):
        for b in range(a):
            for k in range(n_clusters):
                gap = by_model[a, k] - by_model[b, k]
                softplus = np.log1p(np.exp(-abs(gap)))
                table[a, b, k] = softplus + max(-gap, 0.0)
                table[b, a, k] = softplus + max(gap, 0.0)
    return table


@numba.njit(nogil=True, cache=True)
def _gather_losses(
    item: IntArray, winner: IntArray, loser: IntArray, item_weight: FloatArray, table: FloatArray, losses: FloatArray
) -> None:
    for v in range(item.shape[0]):
        q = item[v]
        weight = item_weight[q]
        for k in range(losses.shape[1]):
            losses[q, k] += weight * table[winner[v], loser[v], k]


@numba.njit(nogil=True, cache=True)
def _compute_losses(
    item: IntArray, winner: IntArray, loser: IntArray, item_weight: FloatArray, by_model: FloatArray, losses: FloatArray
) -> None:
    for v in range(item.shape[0]):
        q = item[v]
        weight = item_weight[q]
        for k in range(losses.shape[1]):
            gap = by_model[winner[v], k] - by_model[loser[v], k]
            losses[q, k] += weight * (np.log1p(np.exp(-abs(gap))) + max(-gap, 0.0))


def item_losses_reference(
    item: IntArray, winner: IntArray, loser: IntArray, item_weight: FloatArray, strengths: FloatArray
) -> FloatArray:
    """The same by numpy's unbuffered addition."""
    gaps = strengths[:, winner] - strengths[:, loser]
    losses = np.zeros((len(item_weight), strengths.shape[0]))
    np.add.at(losses, item, item_weight[item][:, None] * np.logaddexp(0.0, -gaps).T)
    return losses


@numba.njit(nogil=True, cache=True)
def update_responsibilities(
    logits: FloatArray, log_responsibilities: FloatArray, responsibilities: FloatArray
) -> tuple[float, float]:
    """Softmax by row, in place.

    logits : (n_items, n_clusters); log_responsibilities, responsibilities : the old ones, overwritten by the new.
    Returns (sum of the rows' log-sum-exp, sum of the rows' KL(old || new)).
    """
    n_items, n_clusters = logits.shape
    total_log_sum = 0.0
    total_divergence = 0.0
    for q in range(n_items):
        top = logits[q, 0]
        for k in range(1, n_clusters):
            top = max(top, logits[q, k])
        total = 0.0
        # One exponential a cell: KL(old || new) = sum old (log old - logit) + log-sum-exp needs no logarithm of new.
        for k in range(n_clusters):
            old = responsibilities[q, k]
            if old > 0.0:
                total_divergence += old * (log_responsibilities[q, k] - logits[q, k])
            share = np.exp(logits[q, k] - top)
            responsibilities[q, k] = share
            total += share
        log_sum = top + np.log(total)
        total_log_sum += log_sum
        total_divergence += log_sum
        for k in range(n_clusters):
            responsibilities[q, k] /= total
            log_responsibilities[q, k] = logits[q, k] - log_sum
    return total_log_sum, total_divergence
