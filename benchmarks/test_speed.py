"""Speed, as ratios against the obvious way in one run; `pytest benchmarks --benchmark-only` prints them. Never a test.

Sizes are those of the design figures: 1,600 items, 7 votes an item, 13 models, 30 clusters; 450 x 12,032 answers.
"""

import numpy as np
import pytest

from capeval_pipeline.methods.bradley_terry import fit_bradley_terry
from capeval_pipeline.methods.frontier import exact_frontier

N_ITEMS, N_VOTES, N_MODELS, N_CLUSTERS = 1_600, 7, 13, 30


@pytest.fixture(scope="module")
def votes():
    """Winner, loser and item of 7 votes an item, and a responsibility of each item for each cluster."""
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(N_MODELS, 2, replace=False) for _ in range(N_ITEMS * N_VOTES)])
    responsibility = rng.dirichlet(np.ones(N_CLUSTERS), N_ITEMS)
    return pairs[:, 0], pairs[:, 1], np.repeat(np.arange(N_ITEMS), N_VOTES), responsibility


@pytest.mark.benchmark(group="strengths of 30 clusters")
def test_batched_newton_on_win_matrices(benchmark, votes):
    winner, loser, item, responsibility = votes

    def fit():
        wins = np.zeros((N_CLUSTERS, N_MODELS, N_MODELS))
        for cluster in range(N_CLUSTERS):
            np.add.at(wins[cluster], (winner, loser), responsibility[item, cluster] / N_VOTES)
        return fit_bradley_terry(wins, ridge=1.0)

    benchmark(fit)


@pytest.mark.benchmark(group="strengths of 30 clusters")
def test_a_logistic_regression_over_votes_for_each_cluster(benchmark, votes):
    from sklearn.linear_model import LogisticRegression

    winner, loser, item, responsibility = votes
    design = np.zeros((2 * len(winner), N_MODELS))
    rows = np.arange(len(winner))
    design[rows, winner], design[rows, loser] = 1, -1
    design[len(winner) :] = -design[: len(winner)]
    outcome = np.repeat([1, 0], len(winner))

    def fit():
        for cluster in range(N_CLUSTERS):
            weight = np.tile(responsibility[item, cluster] / N_VOTES / 2, 2)
            LogisticRegression(fit_intercept=False, C=1.0).fit(design, outcome, sample_weight=weight)

    benchmark.pedantic(fit, rounds=2)


@pytest.mark.benchmark(group="exact frontier")
@pytest.mark.parametrize("n_items", [10_000, 100_000])
def test_exact_frontier_grows_with_items(benchmark, n_items):
    rng = np.random.default_rng(0)
    quality, cost = rng.random((n_items, 50)), rng.lognormal(size=(n_items, 50))
    exact_frontier(quality[:10], cost[:10])
    benchmark.pedantic(exact_frontier, (quality, cost), rounds=3)
