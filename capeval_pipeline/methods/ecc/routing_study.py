"""Every router on the same test items: mixtures with and without a probe, baselines, and what bounds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
from capeval_pipeline.methods.ecc.evaluation import evaluation_pairs
from capeval_pipeline.methods.ecc.probing import (
    POLICIES,
    Probes,
    ask,
    choose_probes,
    models_to_ask,
    update_with_probe,
)
from capeval_pipeline.methods.ecc.routing import (
    RouterResult,
    evaluate_random_router,
    evaluate_router,
    mixture_strengths,
    oracle_choice,
)
from capeval_pipeline.methods.ecc.votes import Votes

PROBED = "ecc_shrunk"
"""The mixture that is routed by with every policy; the others with the paper's probe alone."""


@dataclass(frozen=True)
class RoutingStudy:
    """results : by (router, probe_policy); global_best : the model with the best training mean."""

    results: Mapping[tuple[str, str], RouterResult]
    global_best: int

    @property
    def is_probe_winner_oracle(self) -> bool:
        """Whether the winner of a pair known to differ is as good as the oracle, as it must be on 0/1 scores."""
        winner, oracle = self.results["probe_winner", "paper"], self.results["oracle", "none"]
        return abs(winner.mean_score - oracle.mean_score) < 1e-12


def best_on_average(quality: FloatArray) -> int:
    """The model with the best mean, the first of equals; quality : (n_items, n_models), NaN where missing."""
    known = (~np.isnan(quality)).sum(axis=0)
    mean = np.divide(np.nansum(quality, axis=0), known, out=np.full(quality.shape[1], -np.inf), where=known > 0)
    return int(np.argmax(np.round(mean, 9)))


def run_routing_study(
    votes: Votes,
    quality: FloatArray,
    costs: FloatArray | None,
    mixtures: Mapping[str, tuple[FloatArray, FloatArray]],
    baselines: Mapping[str, FloatArray],
    *,
    global_best: int,
    global_strengths: FloatArray,
    placed_training: FloatArray | None,
    temperature: float,
    weights: npt.NDArray[np.floating],
    rng_seed: Sequence[int],
    tie_margin: float = 1e-9,
) -> RoutingStudy:
    """Score and cost of all routers.

    votes, quality, costs : of the test items, no cell of quality missing; costs None where none is known
    mixtures : by method (responsibilities of the test items, strengths); baselines : by method (n_items, n_models)
    placed_training : responsibilities of training items under ecc_shrunk, None without that mixture
    """
    n_items = len(quality)
    results = {("random", "none"): evaluate_random_router(quality, costs, global_best=global_best, weights=weights)}

    def add(router: str, policy: str, chosen: IntArray, probes: Probes | None = None) -> None:
        called = None if probes is None else (probes.first, probes.second)
        results[router, policy] = evaluate_router(
            quality, costs, chosen, global_best=global_best, probes=called, weights=weights
        )

    add("global_best", "none", np.full(n_items, global_best))
    add("oracle", "none", oracle_choice(quality, costs))
    pairs = evaluation_pairs(votes)
    papers = Probes(pairs.probe_winner, pairs.probe_loser, pairs.probe_winner, pairs.probe_loser)
    add("probe_winner", "paper", pairs.probe_winner, papers)
    for method, (placed, strengths) in mixtures.items():
        add(method, "none", np.argmax(mixture_strengths(placed, strengths), axis=1))
        policies = {"paper": papers}
        if method == PROBED and placed_training is not None:
            asked = models_to_ask(global_strengths)
            for policy in POLICIES:
                rng = np.random.default_rng(list(rng_seed))
                pair = choose_probes(policy, placed, strengths[:, asked], placed_training=placed_training, rng=rng)
                policies[policy] = _renumbered(ask(*pair, quality[:, asked], tie_margin=tie_margin), asked)
        for policy, probes in policies.items():
            updated = update_with_probe(placed, strengths, probes, temperature=temperature)
            add(method, policy, np.argmax(mixture_strengths(updated, strengths), axis=1), probes)
    for router, scores in baselines.items():
        add(router, "none", np.argmax(scores, axis=1))
    return RoutingStudy(results, global_best)


def _renumbered(probes: Probes, asked: IntArray) -> Probes:
    """Probes among `asked` with the numbers of all models."""
    padded = np.append(asked, -1)  # -1, nothing observed, stays -1
    return replace(
        probes,
        first=asked[probes.first],
        second=asked[probes.second],
        winner=padded[probes.winner],
        loser=padded[probes.loser],
    )
