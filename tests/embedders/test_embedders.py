"""Embedders: same bytes, unit rows, and no meaning made up for a text that has none."""

import numpy as np
import pytest

from capeval_pipeline.embedders import EMBEDDERS
from capeval_pipeline.embedders.given import stack_given

TEXTS = [f"what is {a} plus {b} in {t}" for t in ("roman numerals", "base two") for a in "abcd" for b in "efg"]


@pytest.mark.parametrize("name", sorted(EMBEDDERS))
def test_same_texts_give_the_same_bytes(name):
    embedder = EMBEDDERS[name]
    assert embedder.embed(TEXTS).tobytes() == embedder.embed(TEXTS).tobytes()


def test_rows_have_length_one_and_like_texts_are_close():
    vectors = EMBEDDERS["tfidf_svd"].embed(TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)))
    # The topic (half of the texts each) shows: mean cosine within a topic above that across.
    cosines = vectors @ vectors.T
    assert cosines[:12, :12].mean() > cosines[:12, 12:].mean() + 0.2


def test_a_text_without_any_repeated_term_is_zero():
    vectors = EMBEDDERS["tfidf_svd"].embed([*TEXTS, "zzz", ""])
    assert not vectors[-2:].any()


def test_texts_that_share_nothing_are_all_zero():
    assert not EMBEDDERS["tfidf_svd"].embed(["alpha", "beta", "gamma"]).any()


def test_given_vectors_are_scaled_and_missing_ones_are_zero():
    rows = stack_given([[3.0, 4.0], None, np.array([0.0, 2.0])])
    assert rows.tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]


def test_given_vectors_of_two_lengths_are_refused():
    with pytest.raises(ValueError, match="one length"):
        stack_given([[1.0], [1.0, 2.0]])
