"""Small random matrices, predictors and draws that the identification tests share."""

import numpy as np

from capeval_pipeline.methods.identification.records import Draws, Predictor, ReplaySettings, make_draws
from capeval_pipeline.methods.item_factors import PairMoments


def small_world(seed: int, n_items: int | None = None) -> tuple[np.ndarray, Predictor, Draws, ReplaySettings]:
    """At most 6 arms and 30 items; binary on even seeds, graded on odd ones, with constant arms among them."""
    rng = np.random.default_rng([7, seed])
    n_arms = int(rng.integers(1, 7))
    n = n_items or int((1, 2, 3, 7, 12, 30)[seed % 6])
    scores = rng.random((n_arms, n)) if seed % 2 else (rng.random((n_arms, n)) < 0.6).astype(float)
    if seed % 5 == 0:
        scores[0] = 1.0
    if seed % 7 == 0:
        scores[-1] = 0.5
    rank = int(rng.integers(1, 4))
    predictor = Predictor(rng.normal(size=(n, rank)), rng.normal(size=rank), 1.0, PairMoments(0.1, 0.12, 0.24))
    budgets = np.unique(np.append(rng.integers(1, n_arms * n + 1, 4), n_arms * n))
    settings = ReplaySettings(batch=int(rng.integers(1, 5)), pull_budgets=budgets)
    return scores, predictor, make_draws(rng, n_arms, n), settings
