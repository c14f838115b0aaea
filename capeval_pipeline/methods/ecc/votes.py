"""Votes: which of two models did better on an item, as index arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray


@dataclass(frozen=True)
class Votes:
    """Decided comparisons of pairs of models on items.

    item : (n_votes,) positions 0 .. n_items - 1, ascending
    winner, loser : (n_votes,) positions 0 .. n_models - 1
    sample_rank : (n_votes,) order in which an item's pairs were drawn; 0 is the probe
    """

    item: IntArray
    winner: IntArray
    loser: IntArray
    sample_rank: IntArray
    n_items: int
    n_models: int

    def __post_init__(self) -> None:
        if len(self.item) and (np.any(np.diff(self.item) < 0) or self.item[-1] >= self.n_items):
            raise ValueError("votes: items must be ascending positions below n_items")

    @cached_property
    def weight_of_item(self) -> FloatArray:
        """1 / number of votes of each item, (n_items,); 0 for an item without votes."""
        counts = np.bincount(self.item, minlength=self.n_items)
        return np.divide(1.0, counts, out=np.zeros(self.n_items), where=counts > 0)

    @cached_property
    def first_of_item(self) -> IntArray:
        """Where each item's votes begin, (n_items + 1,); the last entry is the number of votes."""
        return np.searchsorted(self.item, np.arange(self.n_items + 1)).astype(np.int64)

    @cached_property
    def voted_items(self) -> IntArray:
        """Items with at least one vote, ascending."""
        return np.unique(self.item)

    def restricted_to(self, items: npt.NDArray[np.int64]) -> "Votes":
        """Votes of these items (ascending), renumbered to their positions in `items`."""
        position = np.full(self.n_items, -1, dtype=np.int64)
        position[items] = np.arange(len(items))
        return self._where(position[self.item] >= 0, position=position, n_items=len(items))

    def of_items(self, is_used: npt.NDArray[np.bool_]) -> "Votes":
        """Votes of the items that are used, (n_items,); items keep their numbers."""
        return self._where(is_used[self.item], position=np.arange(self.n_items), n_items=self.n_items)

    def of_ranks(self, lowest: int, highest: int | None = None) -> "Votes":
        """Votes with lowest <= sample_rank <= highest; items keep their numbers."""
        keep = self.sample_rank >= lowest
        if highest is not None:
            keep &= self.sample_rank <= highest
        return self._where(keep, position=np.arange(self.n_items), n_items=self.n_items)

    def _where(self, keep: npt.NDArray[np.bool_], *, position: IntArray, n_items: int) -> "Votes":
        return Votes(
            item=position[self.item[keep]],
            winner=self.winner[keep],
            loser=self.loser[keep],
            sample_rank=self.sample_rank[keep],
            n_items=n_items,
            n_models=self.n_models,
        )


def wins_of_votes(votes: Votes, *, per_item: bool = False) -> FloatArray:
    """Win matrix of all votes, (n_models, n_models): weight 1 a vote, or 1 / N_q with per_item."""
    wins = np.zeros((votes.n_models, votes.n_models))
    weight = votes.weight_of_item[votes.item] if per_item else 1.0
    np.add.at(wins, (votes.winner, votes.loser), weight)
    return wins
