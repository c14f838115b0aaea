"""Ways to turn prompts into vectors: a module each, registered here.

An embedder has a name, a version (both enter the data version of what it made) and `embed(texts)`, which returns rows
of length 1. Vectors that come with the items need no embedder (`given`) and win over all of them.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capeval_pipeline.embedders.tfidf import TfidfSvd


class Embedder(Protocol):
    """Turns texts into vectors of length 1 (0 where a text says nothing)."""

    @property
    def name(self) -> str:
        """Key in EMBEDDERS."""

    @property
    def version(self) -> str:
        """Changes when the vectors of a text do."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """(n_texts, n_dimensions)."""

    def place(
        self, known: Sequence[str], new: Sequence[str]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Vectors of known texts, as `embed` gives them, and of new ones that can be compared with them."""


EMBEDDERS: dict[str, Embedder] = {"tfidf_svd": TfidfSvd()}
