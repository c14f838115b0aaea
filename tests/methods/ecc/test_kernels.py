"""Kernels equal their plain references."""

import numpy as np
import pytest

from capeval_pipeline.methods.ecc.kernels import (
    item_losses_reference,
    update_responsibilities,
    update_responsibilities_reference,
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


@pytest.mark.parametrize("has_texts", [True, False])
@pytest.mark.parametrize("n_models", [8, 90, None])
def test_responsibilities_equal_the_reference(rng, n_models, has_texts):
    # 8 models take the table of pairs, 90 (8,100 pairs, fewer votes) the direct way; None leaves comparisons out.
    votes = planted_world(rng, n_models=n_models or 8).votes
    arguments = (votes.item, votes.winner, votes.loser, votes.weight_of_item)
    strengths = 3.0 * rng.normal(size=(4, votes.n_models))
    cosines = rng.uniform(-1, 1, size=(votes.n_items, 4))
    old = rng.dirichlet(np.ones(4), votes.n_items)
    losses = item_losses_reference(*arguments, strengths) if n_models else np.zeros_like(cosines)
    options = {"embedding_weight": 3.0, "temperature": 0.1}
    expected, log_sum, divergence = update_responsibilities_reference(
        losses, cosines if has_texts else np.zeros_like(cosines), old, **options
    )
    new, log_new = old.copy(), np.log(old)
    found = update_responsibilities(
        votes.first_of_item,
        *arguments[1:],
        strengths if n_models else None,
        cosines if has_texts else None,
        new,
        log_new,
        **options,
    )
    assert new == pytest.approx(expected, abs=1e-12)
    assert log_new == pytest.approx(np.log(expected), abs=1e-9)
    assert found == pytest.approx((log_sum, divergence), rel=1e-10)
