"""A world of planted capability clusters with embeddings: what ECC should find, and what topics alone would not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ClusterWorld:
    """A planted capability structure.

    capability, topic : (n_items,) indices; half of the items have the capability of their topic
    strengths : (n_capabilities, n_models), logit scale
    difficulty : (n_items,), logit scale
    embeddings : (n_items, n_dimensions), rows of length 1
    scores : (n_items, n_models), 0 or 1, one draw a cell
    """

    capability: IntArray
    topic: IntArray
    strengths: FloatArray
    difficulty: FloatArray
    embeddings: FloatArray
    scores: FloatArray


def make_cluster_world(
    *,
    n_items: int,
    n_models: int,
    n_capabilities: int,
    n_topics: int,
    rng: np.random.Generator,
    n_dimensions: int = 64,
    strength_sd: float = 2.5,
    topic_signal: float = 0.8,
    capability_signal: float = 0.6,
    embedding_noise: float = 0.09,
) -> ClusterWorld:
    """Score of model m on item q ~ Bernoulli(σ(strength[capability of q, m] − difficulty of q)).

    strength = 0.8·normal shared by the capabilities + strength_sd·normal of each; difficulty is standard normal;
    embedding = unit(topic_signal·topic direction + capability_signal·capability direction + noise·normal).

    Raises ValueError for a size below 1.
    """
    if min(n_items, n_models, n_capabilities, n_topics, n_dimensions) < 1:
        raise ValueError("a world needs at least one item, model, capability, topic and dimension")
    topic = rng.integers(n_topics, size=n_items)
    follows_topic = rng.random(n_items) < 0.5
    capability = np.where(follows_topic, topic % n_capabilities, rng.integers(n_capabilities, size=n_items))
    shared = 0.8 * rng.normal(size=(1, n_models))
    strengths = shared + strength_sd * rng.normal(size=(n_capabilities, n_models))
    difficulty = rng.normal(size=n_items)
    topic_direction = _unit_rows(rng.normal(size=(n_topics, n_dimensions)))
    capability_direction = _unit_rows(rng.normal(size=(n_capabilities, n_dimensions)))
    embeddings = _unit_rows(
        topic_signal * topic_direction[topic]
        + capability_signal * capability_direction[capability]
        + embedding_noise * rng.normal(size=(n_items, n_dimensions))
    )
    probability = expit(strengths[capability] - difficulty[:, None])
    scores = (rng.random((n_items, n_models)) < probability).astype(np.float64)
    return ClusterWorld(capability.astype(np.int64), topic, strengths, difficulty, embeddings, scores)


def _unit_rows(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
