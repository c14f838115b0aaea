"""The default embedder: TF-IDF of words and word pairs, reduced by a singular value decomposition.

No network, no weights, deterministic, and on boilerplate-heavy prompts as good as a small neural one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TfidfSvd:
    """TF-IDF (1–2-grams, sublinear) reduced to `n_dimensions`."""

    n_dimensions: int = 128
    max_terms: int = 30_000
    name: str = "tfidf_svd"
    version: str = "1"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Vectors of length 1, (n_texts, <= n_dimensions); 0 for a text without any known term.

        The decomposition is of these texts, so vectors of different calls cannot be compared. The same texts in the
        same order give the same bytes with BLAS on one thread.
        """
        return self.place(texts, ())[0]

    def place(
        self, known: Sequence[str], new: Sequence[str]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Vectors of known texts as `embed` gives them, and of new ones in the same space, which they do not change."""
        from scipy.sparse import csr_matrix
        from sklearn.decomposition import TruncatedSVD

        vectorizer = _vectorizer(self.max_terms)
        try:
            matrix = vectorizer.fit_transform(known)
        except ValueError:  # no term is in two texts
            matrix = csr_matrix((len(known), 0))
        n_dimensions = min(self.n_dimensions, min(matrix.shape) - 1)
        if n_dimensions < 1:
            return np.zeros((len(known), 1)), np.zeros((len(new), 1))
        reducer = TruncatedSVD(n_components=n_dimensions, algorithm="randomized", n_iter=5, random_state=0)
        vectors = unit_rows(reducer.fit_transform(matrix))
        if not len(new):
            return vectors, np.zeros((0, n_dimensions))
        return vectors, unit_rows(reducer.transform(vectorizer.transform(new)))


def count_terms(texts: Sequence[str], *, max_terms: int = 30_000) -> tuple[Any, list[str]]:
    """Sparse TF-IDF matrix (n_texts, n_terms) and its terms; terms are in at least two texts.

    Texts of which no term repeats make a matrix without terms.
    """
    from scipy.sparse import csr_matrix

    vectorizer = _vectorizer(max_terms)
    try:
        matrix = vectorizer.fit_transform(texts)
    except ValueError:  # no term is in two texts
        return csr_matrix((len(texts), 0)), []
    return matrix, list(vectorizer.get_feature_names_out())


def _vectorizer(max_terms: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, max_features=max_terms)


def unit_rows(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Rows scaled to length 1; a row shorter than 1e-12 becomes 0, which says nothing about the text."""
    matrix = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.where(lengths > 1e-12, matrix / np.maximum(lengths, 1e-12), 0.0)
