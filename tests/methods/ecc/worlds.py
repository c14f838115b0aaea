"""Small planted worlds for the tests of this folder."""

from dataclasses import dataclass

import numpy as np

from capeval_pipeline.methods.ecc.votes import Votes


@dataclass(frozen=True)
class World:
    votes: Votes
    embeddings: np.ndarray
    cluster: np.ndarray
    category: np.ndarray


def planted_world(
    rng: np.random.Generator, *, n_items: int = 400, n_models: int = 8, n_clusters: int = 3, n_pairs: int = 7
) -> World:
    """Clusters with strengths of their own that show in the texts; up to n_pairs random non-tied pairs an item."""
    strengths = 2.0 * rng.normal(size=(n_clusters, n_models))
    cluster = rng.integers(n_clusters, size=n_items)
    directions = rng.normal(size=(n_clusters, 16))
    embeddings = directions[cluster] + 1.5 * rng.normal(size=(n_items, 16))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    answers = rng.uniform(size=(n_items, n_models)) < 1 / (
        1 + np.exp(rng.normal(size=(n_items, 1)) - strengths[cluster])
    )
    rows = []
    for q in range(n_items):
        winners, losers = np.flatnonzero(answers[q]), np.flatnonzero(~answers[q])
        pairs = [(winner, loser) for winner in winners for loser in losers]
        if not pairs:  # every item of a fit has a vote
            pairs = [(0, 1)]
        for rank, pick in enumerate(rng.permutation(len(pairs))[:n_pairs]):
            rows.append((q, *pairs[pick], rank))
    item, winner, loser, rank = np.array(rows, dtype=np.int64).T
    return World(Votes(item, winner, loser, rank, n_items, n_models), embeddings, cluster, cluster % 2)
