"""Vectors that came with the items."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capeval_pipeline.embedders.tfidf import unit_rows

NAME = "given"


def stack_given(vectors: Sequence[npt.ArrayLike | None]) -> npt.NDArray[np.float64]:
    """Given vectors as rows of length 1, (n_items, n_dimensions); an item without one gets 0, a flat prior.

    Raises ValueError when lengths differ or a vector holds a number that is not finite.
    """
    arrays = [None if vector is None else np.asarray(vector, dtype=np.float64).ravel() for vector in vectors]
    lengths = {len(array) for array in arrays if array is not None and len(array)}
    if len(lengths) != 1:
        raise ValueError(f"embedding: vectors of {sorted(lengths)} numbers; expected one length")
    n_dimensions = lengths.pop()
    rows = np.zeros((len(arrays), n_dimensions))
    for i, array in enumerate(arrays):
        if array is not None and len(array):
            rows[i] = array
    if not np.isfinite(rows).all():
        raise ValueError(f"embedding: row {int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])} is not finite")
    return unit_rows(rows)
