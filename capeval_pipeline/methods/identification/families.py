"""Who may teach and who is examined: families of near-duplicate models, and the split by family."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from capeval_pipeline.methods.identification.records import FloatArray, IntArray

MIN_AGREEMENT = 0.995
TRAINING_SHARE = 0.4
MAX_TRAINING_MODELS = 300
MIN_TRAINING_MODELS = 20
MIN_ITEMS_FOR_PREDICTOR = 10
_BLOCK_ROWS = 1024
# With few distinct scores agreement is a sum of matrix products, with many it is counted pair by pair.
_MAX_LEVELS_FOR_PRODUCTS = 12


@dataclass(frozen=True)
class Split:
    """training, arms : ascending indices of models; families : (n_models,) smallest index of each model's family."""

    training: IntArray
    arms: IntArray
    families: IntArray


def near_duplicate_families(
    scores: FloatArray, look_alikes: Sequence[tuple[int, int]] = (), *, min_agreement: float = MIN_AGREEMENT
) -> IntArray:
    """Family of each model: models with identical scores on at least `min_agreement` of the items, joined transitively.

    scores : (n_models, n_items) complete; look_alikes : further pairs of model indices to join.
    Returns (n_models,), the smallest model index of the family.
    """
    n_models, n_items = scores.shape
    needed = math.ceil(min_agreement * n_items - 1e-9)
    levels = np.unique(scores)
    rows = [np.array([a for a, _ in look_alikes], dtype=np.int64)]
    columns = [np.array([b for _, b in look_alikes], dtype=np.int64)]
    if levels.size <= _MAX_LEVELS_FOR_PRODUCTS:
        # Counts are whole numbers below 2^24, which single precision holds exactly.
        indicators = [(scores == level).astype(np.float32) for level in levels]
        for start in range(0, n_models, _BLOCK_ROWS):
            stop = min(n_models, start + _BLOCK_ROWS)
            agreeing = sum(matrix[start:stop] @ matrix[start:].T for matrix in indicators)
            first, second = np.nonzero(np.asarray(agreeing) >= needed)
            rows.append(first + start)
            columns.append(second + start)
    else:
        for model in range(n_models - 1):
            agreeing = (scores[model + 1 :] == scores[model]).sum(axis=1)
            second = np.flatnonzero(agreeing >= needed) + model + 1
            rows.append(np.full(second.size, model))
            columns.append(second)
    row, column = np.concatenate(rows), np.concatenate(columns)
    graph = coo_matrix((np.ones(row.size, dtype=np.int8), (row, column)), shape=(n_models, n_models))
    labels = connected_components(graph, directed=False)[1]
    smallest = np.full(labels.max() + 1 if n_models else 0, n_models, dtype=np.int64)
    np.minimum.at(smallest, labels, np.arange(n_models))
    return smallest[labels]


def split_by_family(
    families: IntArray,
    model_ids: Sequence[str],
    *,
    seed: int = 0,
    training_share: float = TRAINING_SHARE,
    max_training: int = MAX_TRAINING_MODELS,
) -> Split:
    """Split models into training models and arms so that no family is on both sides.

    model_ids : ascending, so that the family label is its smallest id. The side hangs on a keyed hash of that id alone:
    a new model never moves an old family, unless it joins two of them. Families are taken in the order of their hashes,
    up to `training_share` of the hash range and `max_training` models; one that no longer fits stays with the arms.
    """
    labels, sizes = np.unique(families, return_counts=True)
    shares = {int(label): _hash_share(f"{seed}\x1f{model_ids[label]}") for label in labels}
    taken: list[int] = []
    n_training = 0
    for label, size in sorted(zip(labels.tolist(), sizes.tolist(), strict=True), key=lambda pair: shares[pair[0]]):
        if shares[label] < training_share and n_training + size <= max_training:
            taken.append(label)
            n_training += size
    is_training = np.isin(families, np.array(taken, dtype=np.int64))
    return Split(np.flatnonzero(is_training), np.flatnonzero(~is_training), families)


def _hash_share(text: str) -> float:
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:13], 16) / 16**13
