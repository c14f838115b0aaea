"""Which pair of models to ask first about a new item, and what the answer does to the prediction.

A policy never peeks (except the paper's, which only asks pairs known to differ): any pair may be asked, a tie gives no
evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import BoolArray, FloatArray, IntArray
from capeval_pipeline.methods.ecc.evaluation import Gain, carry_over_signs, estimate_gain
from capeval_pipeline.methods.ecc.inference import log_sigmoid, losses_of, mixture_probabilities, softmax_rows
from capeval_pipeline.methods.ecc.votes import Votes

LARGEST_ENUMERATED = 64
"""Above this many models pairs are asked and predicted among 64 of them alone: all would be too many to list."""
POLICIES = ("random", "eig", "fixed")
"""Ways to choose a pair without peeking; `paper`, which peeks, comes with the votes."""


@dataclass(frozen=True)
class Probes:
    """Pairs that were asked. first, second, winner, loser : (n_items,) models; winner and loser -1 after a tie."""

    first: IntArray
    second: IntArray
    winner: IntArray
    loser: IntArray

    @property
    def informative_share(self) -> float:
        """Share of probes that did not tie."""
        return float((self.winner >= 0).mean()) if len(self.winner) else float("nan")


def update_with_probe(
    placed: FloatArray, strengths: FloatArray, probes: Probes, *, temperature: float, probe_weight: float = 1.0
) -> FloatArray:
    """Responsibilities after the probe, from those before it: softmax(log r + alpha log-likelihood / T).

    The same as placing text and probe together, since log r is the text's term up to a constant of the item.
    """
    with np.errstate(divide="ignore"):
        logits = np.log(placed)
    seen = probes.winner >= 0
    gaps = strengths[:, probes.winner[seen]] - strengths[:, probes.loser[seen]]
    logits[seen] += probe_weight * log_sigmoid(gaps).T / temperature
    return softmax_rows(logits)


def expected_information_gain(placed: FloatArray, strengths: FloatArray) -> FloatArray:
    """EIG(a, b) = H(sum_k r_k p_k) - sum_k r_k H(p_k), p_k = sigma(t_ka - t_kb), in nats.

    Returns (n_items, n_pairs), pairs in the order of numpy.triu_indices(n_models, 1); mutual information between the
    outcome and the cluster, so 0 where all clusters agree.
    """
    first, second = np.triu_indices(strengths.shape[1], 1)
    p = 1.0 / (1.0 + np.exp(strengths[:, second] - strengths[:, first]))
    return _entropy(placed @ p) - placed @ _entropy(p)


def _entropy(p: FloatArray) -> FloatArray:
    q = np.clip(p, 1e-15, 1.0 - 1e-15)
    return np.asarray(-q * np.log(q) - (1.0 - q) * np.log1p(-q), dtype=np.float64)


def ask(first: IntArray, second: IntArray, quality: FloatArray, *, tie_margin: float = 1e-9) -> Probes:
    """Answers of these pairs from known qualities, (n_items, n_models); a missing cell answers like a tie."""
    rows = np.arange(len(first))
    gap = quality[rows, first] - quality[rows, second]
    a_won, b_won = gap > tie_margin, -gap > tie_margin
    winner = np.where(a_won, first, np.where(b_won, second, -1))
    loser = np.where(a_won, second, np.where(b_won, first, -1))
    return Probes(first, second, winner, loser)


def choose_probes(
    policy: str,
    placed: FloatArray,
    strengths: FloatArray,
    *,
    placed_training: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Pair to ask for each item, (first, second), each (n_items,), before any answer is seen.

    policy : `random` any pair; `eig` the pair with the largest expected information gain of the item; `fixed` the one
        pair with the largest mean gain over training items (placed_training, by their texts)
    """
    first, second = np.triu_indices(strengths.shape[1], 1)
    if policy == "random":
        pick = rng.integers(len(first), size=len(placed))
    elif policy == "eig":
        pick = np.concatenate(
            [
                np.argmax(np.round(expected_information_gain(block, strengths), 12), axis=1)
                for block in np.array_split(placed, max(1, len(placed) // 500))
            ]
        )
    elif policy == "fixed":
        total = sum(
            expected_information_gain(block, strengths).sum(axis=0)
            for block in np.array_split(placed_training, max(1, len(placed_training) // 500))
        )
        pick = np.full(len(placed), int(np.argmax(total)))
    else:
        raise ValueError(f"probe policy {policy!r}; expected random, eig or fixed")
    return first[pick], second[pick]


def models_to_ask(global_strengths: FloatArray, n_models: int = LARGEST_ENUMERATED) -> IntArray:
    """Models whose pairs may be asked, ascending: all, or n_models spread evenly over the ranking.

    Unlike the pool that votes are sampled from, it does not look at the item's scores: no probe may peek.
    """
    if len(global_strengths) <= n_models:
        return np.arange(len(global_strengths))
    ranking = np.argsort(-np.round(global_strengths, 9), kind="stable")
    return np.sort(ranking[np.linspace(0, len(ranking) - 1, n_models).round().astype(np.int64)])


def probes_of_votes(votes: Votes, asked: IntArray) -> Probes:
    """The paper's probes, each item's first sampled vote between models of `asked` (ascending), numbered within it.

    An item without such a vote has -1 everywhere, as after a tie.
    """
    position = np.full(votes.n_models, -1, dtype=np.int64)
    position[asked] = np.arange(len(asked))
    winner, loser = np.full(votes.n_items, -1, dtype=np.int64), np.full(votes.n_items, -1, dtype=np.int64)
    keep = np.flatnonzero((position[votes.winner] >= 0) & (position[votes.loser] >= 0))
    items, first = np.unique(votes.item[keep], return_index=True)
    winner[items] = position[votes.winner[keep[first]]]
    loser[items] = position[votes.loser[keep[first]]]
    return Probes(winner, loser, winner, loser)


def all_decided_pairs(quality: FloatArray, *, tie_margin: float = 1e-9) -> tuple[IntArray, IntArray, IntArray]:
    """Every non-tied pair of every item, (item, winner, loser); quality as in count_wins."""
    items, winners, losers = [], [], []
    for q in range(len(quality)):
        gaps = quality[q][:, None] - quality[q][None, :]
        winner, loser = np.nonzero(gaps > tie_margin)  # NaN compares false
        items.append(np.full(len(winner), q))
        winners.append(winner)
        losers.append(loser)
    if not items:
        return (np.empty(0, dtype=np.int64),) * 3
    return np.concatenate(items), np.concatenate(winners), np.concatenate(losers)


def evaluate_probes(
    probes: Probes,
    placed: FloatArray,
    strengths: FloatArray,
    global_strengths: FloatArray,
    decided: tuple[IntArray, IntArray, IntArray],
    *,
    temperature: float,
    weights: npt.NDArray[np.floating],
) -> dict[str, Gain]:
    """Gain on all decided pairs but the probe's own, by pair_subset (shared: contains a model that was asked)."""
    item, winner, loser = decided
    updated = update_with_probe(placed, strengths, probes, temperature=temperature)
    a, b = probes.first[item], probes.second[item]
    is_own = ((winner == a) & (loser == b)) | ((winner == b) & (loser == a))
    is_shared = (winner == a) | (winner == b) | (loser == a) | (loser == b)
    losses = losses_of(mixture_probabilities(updated, strengths, item, winner, loser))
    losses_global = -log_sigmoid(global_strengths[winner] - global_strengths[loser])
    subsets: dict[str, BoolArray] = {"all": ~is_own, "shared": is_shared & ~is_own, "disjoint": ~is_shared}
    return {name: estimate_gain(losses, losses_global, item, used, weights) for name, used in subsets.items()}


def evaluate_policies(
    votes: Votes,
    quality: FloatArray,
    placed: FloatArray,
    strengths: FloatArray,
    global_strengths: FloatArray,
    *,
    placed_training: FloatArray,
    temperature: float,
    weights: npt.NDArray[np.floating],
    rng_seed: Sequence[int],
    tie_margin: float = 1e-9,
) -> dict[str, tuple[Probes, dict[str, Gain]]]:
    """Gains of every policy on all decided pairs of the test items, by policy: its probes, and gains by pair_subset.

    votes, quality, placed : of the test items; placed_training : of the training items, by their texts
    rng_seed : of the random policy. Raises ValueError where no pair is decided.
    """
    asked = models_to_ask(global_strengths)
    decided = all_decided_pairs(quality[:, asked], tie_margin=tie_margin)
    if not len(decided[0]):
        raise ValueError("quality: no two models differ on any test item")
    own = strengths[:, asked]
    policies = {"paper": probes_of_votes(votes, asked)}
    for policy in POLICIES:
        pair = choose_probes(
            policy, placed, own, placed_training=placed_training, rng=np.random.default_rng(list(rng_seed))
        )
        policies[policy] = ask(*pair, quality[:, asked], tie_margin=tie_margin)
    return {
        policy: (
            probes,
            evaluate_probes(
                probes, placed, own, global_strengths[asked], decided, temperature=temperature, weights=weights
            ),
        )
        for policy, probes in policies.items()
    }


def evaluate_probe_draws(
    votes: Votes,
    placed: FloatArray,
    strengths: FloatArray,
    global_strengths: FloatArray,
    *,
    temperature: float,
    n_draws: int,
) -> list[dict[str, tuple[int, float]]]:
    """Gain with each of an item's sampled pairs as its probe in turn, the others to predict.

    Draw d takes the item's pair number d (counted round where it has fewer). Returns for each draw, by pair_subset,
    (n_pairs, gain_percent).
    """
    starts = np.searchsorted(votes.item, np.arange(votes.n_items))
    counts = np.bincount(votes.item, minlength=votes.n_items)
    has_votes = counts > 0
    draws = []
    for draw in range(n_draws):
        probe = np.where(has_votes, starts + draw % np.maximum(counts, 1), 0)
        winner = np.where(has_votes, votes.winner[probe], -1)
        loser = np.where(has_votes, votes.loser[probe], -1)
        updated = update_with_probe(placed, strengths, Probes(winner, loser, winner, loser), temperature=temperature)
        is_rest = np.ones(len(votes.item), dtype=bool)
        is_rest[probe[has_votes]] = False
        item, won, lost = votes.item[is_rest], votes.winner[is_rest], votes.loser[is_rest]
        losses = losses_of(mixture_probabilities(updated, strengths, item, won, lost))
        reference = -log_sigmoid(global_strengths[won] - global_strengths[lost])
        is_shared, _ = carry_over_signs(won, lost, winner[item], loser[item])
        found = {}
        for name, used in (("all", np.ones(len(item), dtype=bool)), ("shared", is_shared), ("disjoint", ~is_shared)):
            gain = estimate_gain(losses, reference, item, used, np.ones((1, votes.n_items)))
            found[name] = (gain.n_pairs, gain.gain_percent)
        draws.append(found)
    return draws


def blended_scores(
    components: Sequence[FloatArray], weights: FloatArray, mixture: tuple[FloatArray, FloatArray] | None
) -> FloatArray:
    """How each model fares against all others under a blend of logits, (n_items, n_models).

    A blend speaks of pairs, not of models: a model's score is its mean blended log-odds against the others.

    components : item strengths, (n_items, n_models) or (n_models,), in the order of the last weights
    mixture : (responsibilities, strengths) of the first weight, None where there is none
    """
    parts = []
    if mixture is not None:
        placed, strengths = mixture
        n_models = strengths.shape[1]
        mean_logit = np.zeros((len(placed), n_models))
        for a in range(n_models):
            wins = 1.0 / (1.0 + np.exp(strengths - strengths[:, [a]]))  # (n_clusters, n_models): a beats b
            p = np.clip(placed @ wins, 1e-12, 1.0 - 1e-12)
            mean_logit[:, a] = (np.log(p) - np.log1p(-p)).sum(axis=1) / max(n_models - 1, 1)
        parts.append(mean_logit)
    for component in components:
        n_models = component.shape[-1]
        parts.append((component - component.mean(axis=-1, keepdims=True)) * n_models / max(n_models - 1, 1))
    return np.asarray(sum(weight * part for weight, part in zip(weights, parts, strict=True)), dtype=np.float64)
