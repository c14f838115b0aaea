"""Item scores <-> a matrix of items and models, with the labels of its rows and columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoreMatrix:
    """values : (n_items, n_models), NaN where missing; items, models : labels in id order."""

    values: FloatArray
    items: list[str]
    models: list[str]


def encode_score_matrix(
    item_scores: pd.DataFrame,
    column: str = "quality",
    *,
    items: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
) -> ScoreMatrix:
    """Spread one column of intermediate.item_scores over items x models.

    Labels default to those of the frame, in text order, so that the order of rows cannot matter; rows of labels that
    are not asked for are left out. Raises ValueError for two rows of one cell.
    """
    item_ids = item_scores["item_id"].to_numpy(dtype=object)
    model_ids = item_scores["model_id"].to_numpy(dtype=object)
    item_labels = sorted(set(item_ids)) if items is None else list(items)
    model_labels = sorted(set(model_ids)) if models is None else list(models)
    rows = positions_of(item_ids, item_labels)
    columns = positions_of(model_ids, model_labels)
    numbers = item_scores[column].to_numpy(dtype=np.float64, na_value=np.nan)
    keep = (rows >= 0) & (columns >= 0)
    cells = rows[keep] * len(model_labels) + columns[keep]
    if len(np.unique(cells)) != len(cells):
        first = np.sort(cells)[np.flatnonzero(np.diff(np.sort(cells)) == 0)[0]]
        item, model = item_labels[first // len(model_labels)], model_labels[first % len(model_labels)]
        raise ValueError(f"item_scores: 2 rows for item_id={item!r}, model_id={model!r}; expected 1")
    values = np.full((len(item_labels), len(model_labels)), np.nan)
    values[rows[keep], columns[keep]] = numbers[keep]
    return ScoreMatrix(values=values, items=item_labels, models=model_labels)


def positions_of(labels: npt.ArrayLike, known: Sequence[str]) -> npt.NDArray[np.int64]:
    """Position of each label in `known`, -1 where it is not there."""
    index = pd.Index(np.asarray(list(known), dtype=object))
    return np.asarray(index.get_indexer(pd.Index(np.asarray(labels, dtype=object))), dtype=np.int64)
