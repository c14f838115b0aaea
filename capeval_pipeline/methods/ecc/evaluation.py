"""Gains over one ranking, three ways, with intervals by item, and the control that no clustering is needed for."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import BoolArray, FloatArray, IntArray
from capeval_pipeline.methods.ecc.votes import Votes

FEWEST_PAIRS = 30


@dataclass(frozen=True)
class EvaluationPairs:
    """Pairs to be predicted, each beside its item's probe.

    item, winner, loser : (n_pairs,) the votes of sample_rank >= 1
    probe_winner, probe_loser : (n_items,) the vote of sample_rank 0, -1 for an item without votes
    is_shared : (n_pairs,) the pair contains a model of the probe
    carry_over : (n_pairs,) +1 where the probe's outcome, carried over, says the winner wins; -1 where it says the
        loser does; 0 where it says nothing
    """

    item: IntArray
    winner: IntArray
    loser: IntArray
    probe_winner: IntArray
    probe_loser: IntArray
    is_shared: BoolArray
    carry_over: FloatArray

    @property
    def subsets(self) -> dict[str, BoolArray]:
        """Masks of the three subsets, by name."""
        return {"all": np.ones(len(self.item), dtype=bool), "shared": self.is_shared, "disjoint": ~self.is_shared}


def carry_over_signs(
    winner: IntArray, loser: IntArray, probe_winner: IntArray, probe_loser: IntArray
) -> tuple[BoolArray, FloatArray]:
    """(is_shared, carry_over) of pairs beside their probes, all (n_pairs,); see EvaluationPairs."""
    supports = (winner == probe_winner) | (loser == probe_loser)
    opposes = (winner == probe_loser) | (loser == probe_winner)
    return supports | opposes, supports.astype(np.float64) - opposes.astype(np.float64)


def evaluation_pairs(votes: Votes) -> EvaluationPairs:
    """Split each item's votes into its probe (sample_rank 0) and the pairs to predict."""
    probes, rest = votes.of_ranks(0, 0), votes.of_ranks(1)
    probe_winner = np.full(votes.n_items, -1, dtype=np.int64)
    probe_loser = np.full(votes.n_items, -1, dtype=np.int64)
    probe_winner[probes.item], probe_loser[probes.item] = probes.winner, probes.loser
    is_shared, carry_over = carry_over_signs(rest.winner, rest.loser, probe_winner[rest.item], probe_loser[rest.item])
    return EvaluationPairs(rest.item, rest.winner, rest.loser, probe_winner, probe_loser, is_shared, carry_over)


@dataclass(frozen=True)
class Gain:
    """100 (1 - nll / nll_global) over n_pairs, with its 95 % interval and the resampled values (n_resamples,)."""

    n_pairs: int
    nll: float
    nll_global: float
    gain_percent: float
    lower: float
    upper: float
    draws: FloatArray

    def difference_interval(self, other: "Gain") -> tuple[float, float]:
        """Paired 95 % interval of this gain minus another."""
        if len(self.draws) != len(other.draws) or not len(self.draws):
            return np.nan, np.nan
        low, high = np.quantile(self.draws - other.draws, [0.025, 0.975])
        return float(low), float(high)


def estimate_gain(
    losses: FloatArray,
    losses_global: FloatArray,
    item: IntArray,
    is_used: BoolArray,
    weights: npt.NDArray[np.floating],
) -> Gain:
    """Gain on the used pairs; its interval resamples items and recomputes the ratio each time.

    losses, losses_global, item, is_used : (n_pairs,)
    weights : (n_resamples, n_items); the same weights for two methods make their difference a paired one
    Fewer than 30 pairs make no gain: NaN.
    """
    n_pairs = int(is_used.sum())
    if n_pairs == 0:
        return Gain(0, np.nan, np.nan, np.nan, np.nan, np.nan, np.empty(0))
    nll, nll_global = float(losses[is_used].mean()), float(losses_global[is_used].mean())
    if n_pairs < FEWEST_PAIRS:
        return Gain(n_pairs, nll, nll_global, np.nan, np.nan, np.nan, np.empty(0))
    n_items = weights.shape[1]
    own = np.bincount(item[is_used], weights=losses[is_used], minlength=n_items)
    reference = np.bincount(item[is_used], weights=losses_global[is_used], minlength=n_items)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = 100.0 * (1.0 - (weights @ own) / (weights @ reference))
    lower, upper = np.nanquantile(draws, [0.025, 0.975])
    return Gain(n_pairs, nll, nll_global, 100.0 * (1.0 - nll / nll_global), float(lower), float(upper), draws)


def estimate_gains(
    losses: Mapping[tuple[str, str], FloatArray],
    losses_global: FloatArray,
    pairs: EvaluationPairs,
    weights: npt.NDArray[np.floating],
) -> dict[tuple[str, str, str], Gain]:
    """Gains of every (method, inference) on the three subsets, keyed (method, inference, pair_subset)."""
    return {
        (method, inference, subset): estimate_gain(own, losses_global, pairs.item, is_used, weights)
        for (method, inference), own in losses.items()
        for subset, is_used in pairs.subsets.items()
    }


def best_of(gains: Mapping[str, Gain]) -> list[str]:
    """Methods that cannot be told from the one with the largest gain, that one first; none if it shows no gain.

    All gains are of the same pairs and resamples, so differences are paired: a method stays in the list while the
    interval of its distance to the largest holds 0.
    """
    known = {name: gain for name, gain in gains.items() if not np.isnan(gain.gain_percent)}
    if not known:
        return []
    first = max(known, key=lambda name: known[name].gain_percent)
    if not known[first].lower > 0:
        return []
    others = [name for name in known if name != first and not known[first].difference_interval(known[name])[0] > 0]
    return [first, *sorted(others, key=lambda name: -known[name].gain_percent)]
