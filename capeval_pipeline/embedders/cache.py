"""Vectors kept on disk by what they were made from, so that a new category or model embeds no prompt again."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from capeval_pipeline.embedders import Embedder


def embed_cached(embedder: "Embedder", texts: Sequence[str], folder: Path) -> npt.NDArray[np.float64]:
    """Vectors of the texts, read from `folder` where the same texts in the same order were embedded before.

    The key covers all texts, not one: the vectors of an embedder that learns from its corpus belong to the corpus.
    A file that cannot be read is made again.
    """
    path = folder / f"{embedder.name}-{_key(embedder, texts)}.npy"
    try:
        vectors = np.load(path, allow_pickle=False)
        if vectors.shape[0] == len(texts) and vectors.dtype == np.float64:
            return np.asarray(vectors)
    except (OSError, ValueError, EOFError):
        pass
    vectors = embedder.embed(texts)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{path.stem}.{os.getpid()}.tmp"
    with unfinished.open("wb") as handle:
        np.save(handle, vectors, allow_pickle=False)
    unfinished.replace(path)
    return vectors


def _key(embedder: "Embedder", texts: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{embedder.name}\x1f{embedder.version}".encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()[:32]
