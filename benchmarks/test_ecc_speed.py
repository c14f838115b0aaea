"""Clusters and strengths against the obvious way, as ratios in one run; never a test of the default suite.

`pytest benchmarks/test_ecc_speed.py -s` prints every figure, in CPU seconds, so that a busy machine changes little;
BLAS on one thread, as the stage runs it.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from capeval_pipeline.methods.bradley_terry import fit_bradley_terry
from capeval_pipeline.methods.ecc.fit import fit_ecc, fit_global
from capeval_pipeline.methods.ecc.votes import Votes

N_ITEMS, N_VOTES, N_MODELS, N_CLUSTERS = 1_600, 7, 13, 30


def cpu(function, *, repeats: int = 1) -> float:
    """CPU seconds of one call, the least of some."""
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        spent.append(time.process_time() - started)
    return min(spent)


def random_votes(rng: np.random.Generator, n_items: int, n_models: int) -> Votes:
    strengths = rng.normal(size=n_models)
    first, gap = rng.integers(n_models, size=n_items * N_VOTES), rng.integers(1, n_models, size=n_items * N_VOTES)
    second = (first + gap) % n_models
    first_won = rng.uniform(size=len(first)) < 1 / (1 + np.exp(strengths[second] - strengths[first]))
    item = np.repeat(np.arange(n_items), N_VOTES)
    winner, loser = np.where(first_won, first, second), np.where(first_won, second, first)
    return Votes(item, winner, loser, np.tile(np.arange(N_VOTES), n_items), n_items, n_models)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def regressions_of_a_pass(votes: Votes, responsibilities: np.ndarray) -> np.ndarray:
    """The obvious way: a design matrix of votes, a weighted logistic regression a cluster."""
    from sklearn.linear_model import LogisticRegression

    n_votes = len(votes.item)
    design = np.zeros((2 * n_votes, votes.n_models))
    rows = np.arange(n_votes)
    design[rows, votes.winner], design[rows, votes.loser] = 1, -1
    design[n_votes:] = -design[:n_votes]
    outcome = np.repeat([1, 0], n_votes)
    strengths = []
    for k in range(responsibilities.shape[1]):
        weight = np.tile(responsibilities[votes.item, k] * votes.weight_of_item[votes.item] / 2, 2)
        model = LogisticRegression(fit_intercept=False, C=1.0, tol=1e-8, max_iter=1000)
        strengths.append(model.fit(design, outcome, sample_weight=weight).coef_[0])
    return np.array(strengths)


def test_a_pass_takes_a_hundredth_of_a_loop_over_votes():
    rng = np.random.default_rng(0)
    votes, embeddings = random_votes(rng, N_ITEMS, N_MODELS), unit(rng.normal(size=(N_ITEMS, 128)))
    start = [rng.dirichlet(np.ones(N_CLUSTERS), N_ITEMS)]

    def fit():
        return fit_ecc(votes, embeddings, n_clusters=N_CLUSTERS, embedding_weight=3.0, starts=start)

    with threadpool_limits(limits=1):
        n_passes = fit().n_passes  # compiled now
        ours = cpu(fit, repeats=5) / n_passes
        theirs = cpu(lambda: regressions_of_a_pass(votes, start[0]))
    print(f"\none pass, 1,600 items, 30 clusters, 13 models: {1e3 * ours:.2f} ms CPU; scikit-learn a vote: ", end="")
    print(f"{theirs:.2f} s; ratio {theirs / ours:,.0f}")
    assert ours <= 0.010
    assert theirs / ours >= 100


LARGE = """
import json, resource, time
import numpy as np
from threadpoolctl import threadpool_limits
from benchmarks.test_ecc_speed import random_votes
from capeval_pipeline.methods.ecc.fit import fit_ecc
rng = np.random.default_rng(0)
votes = random_votes(rng, 35_000, 50)
vectors = np.empty((35_000, 768), dtype=np.float32)
for first in range(0, 35_000, 5_000):
    block = rng.standard_normal((5_000, 768), dtype=np.float32)
    vectors[first : first + 5_000] = block / np.linalg.norm(block, axis=1, keepdims=True)
small = random_votes(rng, 300, 50)
fit_ecc(small, vectors[:300], n_clusters=30, embedding_weight=3.0)  # compiled now
with threadpool_limits(limits=1):
    started = time.process_time()
    fit = fit_ecc(votes, vectors, n_clusters=30, embedding_weight=3.0)
    spent = time.process_time() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
print(json.dumps({"pass": spent / fit.n_passes, "n_passes": fit.n_passes, "gigabytes": peak}))
"""


def test_a_large_pass_in_single_precision_and_its_memory():
    """35,000 items of 768 dimensions, 30 clusters; the peak is that of a process that does nothing else."""
    found = json.loads(
        subprocess.run(
            [sys.executable, "-c", LARGE], cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
    )
    print(
        f"\n35,000 x 768, 30 clusters, float32: {found['pass']:.3f} CPU s a pass ({found['n_passes']} passes), "
        f"peak {found['gigabytes']:.2f} GB"
    )
    assert found["pass"] <= 0.5
    assert found["gigabytes"] <= 1.2


@pytest.mark.parametrize("n_models", [20, 200])
def test_strengths_against_choix(n_models):
    """The same optimum (its penalty is alpha |t|^2: half the ridge), and how much longer it takes."""
    import choix

    rng = np.random.default_rng(1)
    votes = random_votes(rng, 3_000, n_models)
    wins = np.zeros((n_models, n_models))
    np.add.at(wins, (votes.winner, votes.loser), 1.0)
    pairs = np.column_stack([votes.winner, votes.loser]).tolist()
    fit_bradley_terry(wins, ridge=0.1)

    def theirs():
        return choix.opt_pairwise(n_models, pairs, alpha=0.05, method="Newton-CG", tol=1e-12)

    with threadpool_limits(limits=1):
        found = fit_bradley_terry(wins, ridge=0.1).strengths
        spent = cpu(lambda: fit_bradley_terry(wins, ridge=0.1), repeats=5)
        reference = theirs()
        their_spent = cpu(theirs)
    difference = np.abs(found - (reference - reference.mean())).max()
    print(f"\n{n_models} models, {len(pairs):,} votes: {1e3 * spent:.1f} ms CPU, choix {their_spent:.2f} s, ", end="")
    print(f"ratio {their_spent / spent:,.0f}, largest difference {difference:.1e}")
    assert difference <= 1e-6


@pytest.mark.parametrize("n_models", [20, 200])
def test_strengths_against_logistic_regression(n_models):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    votes = random_votes(rng, 3_000, n_models)
    n_votes = len(votes.item)
    design = np.zeros((2 * n_votes, n_models))
    rows = np.arange(n_votes)
    design[rows, votes.winner], design[rows, votes.loser] = 1, -1
    design[n_votes:] = -design[:n_votes]
    outcome, weight = np.repeat([1, 0], n_votes), np.full(2 * n_votes, 0.5)

    def theirs():
        model = LogisticRegression(fit_intercept=False, C=1.0, tol=1e-10, max_iter=1000, solver="newton-cholesky")
        return model.fit(design, outcome, sample_weight=weight).coef_[0]

    fit_global(votes)
    with threadpool_limits(limits=1):
        found, spent = fit_global(votes), cpu(lambda: fit_global(votes), repeats=5)
        reference, their_spent = theirs(), cpu(theirs)
    difference = np.abs(found - reference).max()
    print(f"\n{n_models} models, {n_votes:,} votes, ridge 1: {1e3 * spent:.1f} ms CPU with the win matrix, ", end="")
    print(f"scikit-learn {their_spent:.2f} s, ratio {their_spent / spent:,.0f}, largest difference {difference:.1e}")
    assert difference <= 1e-6
