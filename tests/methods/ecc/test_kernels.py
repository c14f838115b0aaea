"""Kernels equal their plain references."""

import numpy as np
import pytest

from capeval_pipeline.methods.ecc.kernels import (
    item_losses,
    item_losses_reference,
    update_responsibilities,
    win_matrices,
    win_matrices_reference,
)
from tests.methods.ecc.worlds import planted_world


def test_scattered_wins_equal_the_reference(rng):
    votes = planted_world(rng).votes
    arguments = (votes.item, votes.winner, votes.loser, votes.weight_of_item)
    responsibilities = rng.dirichlet(np.ones(5), votes.n_items)
    fast = win_matrices(*arguments, responsibilities, votes.n_models)
    assert fast == pytest.approx(win_matrices_reference(*arguments, responsibilities, votes.n_models), abs=1e-12)
    # Each item spreads one vote in all over clusters and pairs.
    assert fast.sum() == pytest.approx(votes.n_items)


@pytest.mark.parametrize("n_models", [8, 90])
def test_gathered_losses_equal_the_reference(rng, n_models):
    # 8 models take the table of pairs, 90 (8,100 pairs, fewer votes) the direct way.
    votes = planted_world(rng, n_models=n_models).votes
    arguments = (votes.item, votes.winner, votes.loser, votes.weight_of_item)
    strengths = 3.0 * rng.normal(size=(4, n_models))
    assert item_losses(*arguments, strengths) == pytest.approx(item_losses_reference(*arguments, strengths), abs=1e-12)


def test_responsibilities_are_a_softmax_with_its_divergence(rng):
    old, logits = rng.dirichlet(np.ones(4), 50), 5 * rng.normal(size=(50, 4))
    new = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    responsibilities, log_responsibilities = old.copy(), np.log(old)
    log_sum, divergence = update_responsibilities(logits, log_responsibilities, responsibilities)
    assert responsibilities == pytest.approx(new, abs=1e-12)
    assert log_responsibilities == pytest.approx(np.log(new), abs=1e-10)
    assert log_sum == pytest.approx(np.log(np.exp(logits).sum(axis=1)).sum())
    assert divergence == pytest.approx((old * np.log(old / new)).sum())
