"""The only loops over votes, and the update of responsibilities; each kernel beside its plain reference.

Clusters are the innermost index, so that one vote touches one stretch of memory.
"""

import numba
import numpy as np
import numpy.typing as npt

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
    n_clusters = responsibilities.shape[1]
    for v in range(item.shape[0]):
        # Rows of their own, so that the inner loop is a plain sum of two vectors.
        added, row = responsibilities[item[v]], wins[winner[v], loser[v]]
        weight = item_weight[item[v]]
        for k in range(n_clusters):
            row[k] += weight * added[k]


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


def item_losses_reference(
    item: IntArray, winner: IntArray, loser: IntArray, item_weight: FloatArray, strengths: FloatArray
) -> FloatArray:
    """l_qk = weight_q times the sum over the item's votes of -log sigma(t_k,win - t_k,lose), (n_items, n_clusters).

    strengths : (n_clusters, n_models)
    """
    gaps = strengths[:, winner] - strengths[:, loser]
    losses = np.zeros((len(item_weight), strengths.shape[0]))
    np.add.at(losses, item, item_weight[item][:, None] * np.logaddexp(0.0, -gaps).T)
    return losses


def update_responsibilities(
    first_of_item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    strengths: FloatArray | None,
    cosines: npt.NDArray[np.floating] | None,
    responsibilities: FloatArray,
    log_responsibilities: FloatArray,
    *,
    embedding_weight: float,
    temperature: float,
) -> tuple[float, float]:
    """Set r_q = softmax_k((w x_q . c_k - l_qk) / T) in place, l_qk as in item_losses_reference.

    first_of_item : (n_items + 1,) where each item's votes begin
    strengths : (n_clusters, n_models), None leaves the losses out
    cosines : (n_items, n_clusters), None leaves the texts out
    responsibilities, log_responsibilities : (n_items, n_clusters), the old ones, overwritten by the new
    Returns (sum of the rows' log-sum-exp, sum of the rows' KL(old || new)).
    """
    table, by_model, has_table = _NO_TABLE, _NO_STRENGTHS, False
    if strengths is None:
        first_of_item = np.zeros_like(first_of_item)
    else:
        by_model = np.ascontiguousarray(strengths.T)
        # Fewer pairs of models than votes: one logarithm a pair and cluster, then look-ups.
        has_table = len(winner) >= by_model.shape[0] ** 2
        if has_table:
            table = _loss_table(by_model)
    return _update_responsibilities(
        first_of_item, winner, loser, item_weight, by_model, table, has_table,
        _NO_COSINES if cosines is None else cosines, cosines is not None,
        embedding_weight, temperature, responsibilities, log_responsibilities,
    )  # fmt: skip


_NO_TABLE = np.zeros((0, 0, 0))
_NO_STRENGTHS = np.zeros((0, 0))
_NO_COSINES = np.zeros((0, 0))


@numba.njit(nogil=True, cache=True)
def _update_responsibilities(
    first_of_item: IntArray,
    winner: IntArray,
    loser: IntArray,
    item_weight: FloatArray,
    by_model: FloatArray,
    table: FloatArray,
    has_table: bool,
    cosines: npt.NDArray[np.floating],
    has_cosines: bool,
    embedding_weight: float,
    temperature: float,
    responsibilities: FloatArray,
    log_responsibilities: FloatArray,
) -> tuple[float, float]:
    n_items, n_clusters = responsibilities.shape
    logits = np.zeros(n_clusters)
    total_log_sum = 0.0
    total_divergence = 0.0
    for q in range(n_items):
        # All of an item's work while its row of clusters is at hand.
        logits[:] = 0.0
        for v in range(first_of_item[q], first_of_item[q + 1]):
            if has_table:
                losses = table[winner[v], loser[v]]
                for k in range(n_clusters):
                    logits[k] -= losses[k]
            else:
                of_winner, of_loser = by_model[winner[v]], by_model[loser[v]]
                for k in range(n_clusters):
                    gap = of_winner[k] - of_loser[k]
                    logits[k] -= np.log1p(np.exp(-abs(gap))) + max(-gap, 0.0)
        weight = item_weight[q]
        if has_cosines:
            for k in range(n_clusters):
                logits[k] = (embedding_weight * cosines[q, k] + weight * logits[k]) / temperature
        else:
            for k in range(n_clusters):
                logits[k] = weight * logits[k] / temperature
        top = logits[0]
        for k in range(1, n_clusters):
            top = max(top, logits[k])
        old, log_old = responsibilities[q], log_responsibilities[q]
        total = 0.0
        # One exponential a cell: KL(old || new) = sum old (log old - logit) + log-sum-exp needs no logarithm of new.
        for k in range(n_clusters):
            if old[k] > 0.0:
                total_divergence += old[k] * (log_old[k] - logits[k])
            share = np.exp(logits[k] - top)
            old[k] = share
            total += share
        log_sum = top + np.log(total)
        total_log_sum += log_sum
        total_divergence += log_sum
        for k in range(n_clusters):
            old[k] /= total
            log_old[k] = logits[k] - log_sum
    return total_log_sum, total_divergence


def update_responsibilities_reference(
    losses: FloatArray, cosines: FloatArray, old: FloatArray, *, embedding_weight: float, temperature: float
) -> tuple[FloatArray, float, float]:
    """(responsibilities, sum of log-sum-exp, sum of KL(old || new)) by the formula; arrays (n_items, n_clusters)."""
    logits = (embedding_weight * cosines - losses) / temperature
    log_sum = np.logaddexp.reduce(logits, axis=1)
    log_new = logits - log_sum[:, None]
    return np.exp(log_new), float(log_sum.sum()), float((old * (np.log(old) - log_new)).sum())
