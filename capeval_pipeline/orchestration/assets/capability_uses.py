"""What clusters are good for: routing, choosing what to ask first, a new model, an unknown domain.

Each step reads the published clusters (cluster_responsibilities, cluster_strengths) or fits anew what it holds out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.capability_inputs import ECC_INPUTS, load_problem, options_of
from capeval_pipeline.orchestration.stages import Part, StageResult, Verdict, stage_asset
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

if TYPE_CHECKING:  # numba and scipy stay out of the definitions' import
    from capeval_pipeline.arrays.ecc_problem import LabelledProblem
    from capeval_pipeline.arrays.ecc_tables import PublishedMixture
    from capeval_pipeline.methods.ecc.selection import Choice

STAGE = "capabilities"
MIXTURES = ("ecc", "ecc_shrunk", "emb_only", "comp_only")
PUBLISHED = (
    *ECC_INPUTS,
    "estimates.ecc_fits",
    "estimates.ecc_grid",
    "estimates.cluster_responsibilities",
    "estimates.cluster_strengths",
)
POLICIES = ("random", "eig", "fixed")
LARGEST_ENUMERATED = 64
"""Above this many models the pairs to be asked or predicted are too many to list for every item."""


@dataclass(frozen=True)
class Published:
    """A benchmark's problem and its published mixtures; temperature and choice are those they were fitted with."""

    loaded: "LabelledProblem"
    mixtures: dict[str, "PublishedMixture"]
    temperature: float
    choice: "Choice | None"


def load_published(part: Part, settings: CapabilitiesSettings) -> Published:
    """Read what the ecc step wrote; raises StageSkipped where it wrote nothing."""
    from capeval_pipeline.arrays.ecc_tables import encode_choice, encode_mixture

    loaded = load_problem(part)
    if loaded.problem.embeddings is None:
        raise StageSkipped("items have no text, so clusters cannot place a new one")
    responsibilities = part.arrow("estimates.cluster_responsibilities")
    strengths = part.read("estimates.cluster_strengths")
    mixtures = {}
    for method in MIXTURES:
        found = encode_mixture(responsibilities, strengths, method, loaded.items, loaded.models)
        if found is not None:
            mixtures[method] = found
    if not mixtures:
        raise StageSkipped("no clusters were fitted")
    return Published(loaded, mixtures, settings.temperature, encode_choice(part.read("estimates.ecc_grid")))


def _complete_test_items(loaded: "LabelledProblem") -> Any:
    test = loaded.problem.test_items
    complete = test[~np.isnan(loaded.quality[test]).any(axis=1)]
    if not len(complete):
        raise StageSkipped("no test item has a score of every model")
    return complete


@stage_asset(
    stage=STAGE,
    tables=["estimates.routing_evaluation"],
    inputs=PUBLISHED,
    question="routing",
)
def routing(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Sending each test item to the model its clusters call strongest, with and without asking a pair first.

    Beside it: a random model, always the best one, perfect choice, and the winner of the paper's probe, which on 0/1
    scores is right by construction.
    """
    from capeval_pipeline.methods.ecc.evaluation import evaluation_pairs
    from capeval_pipeline.methods.ecc.probing import Probes, ask, choose_probes, update_with_probe
    from capeval_pipeline.methods.ecc.routing import (
        evaluate_random_router,
        evaluate_router,
        mixture_strengths,
        oracle_choice,
    )
    from capeval_pipeline.methods.mean_scores import draw_item_resamples
    from capeval_pipeline.reporting.verdicts.capabilities import routing_sentence

    published = load_published(part, settings)
    loaded = published.loaded
    test = _complete_test_items(loaded)
    quality = loaded.quality[test]
    cost = None if np.isnan(loaded.cost[test]).all() else loaded.cost[test]
    with np.errstate(invalid="ignore"):
        training_mean = np.nanmean(loaded.quality[loaded.problem.train_items], axis=0)
    global_best = int(np.argmax(np.round(np.where(np.isnan(training_mean), -np.inf, training_mean), 9)))
    weights = draw_item_resamples(len(test), settings.n_resamples, np.random.default_rng([settings.seed, 4]))
    weights = weights.astype(np.float64)
    results = {
        ("random", "none"): evaluate_random_router(quality, cost, global_best=global_best, weights=weights),
    }

    def add(router: str, policy: str, chosen: Any, probes: "Probes | None" = None) -> None:
        results[router, policy] = evaluate_router(
            quality,
            cost,
            chosen,
            global_best=global_best,
            probes=None if probes is None else (probes.first, probes.second),
            weights=weights,
        )

    add("global_best", "none", np.full(len(test), global_best))
    add("oracle", "none", oracle_choice(quality, cost))
    pairs = evaluation_pairs(loaded.problem.votes.restricted_to(test))
    papers = Probes(pairs.probe_winner, pairs.probe_loser, pairs.probe_winner, pairs.probe_loser)
    add("probe_winner", "paper", pairs.probe_winner, papers)
    for method, mixture in published.mixtures.items():
        placed = mixture.responsibilities[test]
        add(method, "none", np.argmax(mixture_strengths(placed, mixture.strengths), axis=1))
        policies = {"paper": papers}
        if method == "ecc_shrunk" and len(loaded.models) <= LARGEST_ENUMERATED:
            for policy in POLICIES:
                asked = choose_probes(
                    policy,
                    placed,
                    mixture.strengths,
                    placed_training=mixture.responsibilities[loaded.problem.train_items],
                    rng=np.random.default_rng([settings.seed, 5]),
                )
                policies[policy] = ask(*asked, quality)
        for policy, probes in policies.items():
            updated = update_with_probe(placed, mixture.strengths, probes, temperature=published.temperature)
            add(method, policy, np.argmax(mixture_strengths(updated, mixture.strengths), axis=1), probes)
    if published.choice is not None:
        for router, scores in _baseline_scores(published, settings, test).items():
            add(router, "none", np.argmax(scores, axis=1))
    router = "ecc_shrunk" if "ecc_shrunk" in published.mixtures else "ecc"
    own, perfect = results[router, "none"], results["oracle", "none"]
    sentence = routing_sentence(
        router=router,
        score=own.mean_score,
        score_lower=own.score_lower,
        score_upper=own.score_upper,
        share=own.share_of_oracle_gain,
        global_best_model=loaded.models[global_best],
        global_best=results["global_best", "none"].mean_score,
        oracle=perfect.mean_score,
        n_items=len(test),
        is_probe_winner_oracle=abs(results["probe_winner", "paper"].mean_score - perfect.mean_score) < 1e-12,
    )
    frame = pd.DataFrame(
        [
            {
                "router": name,
                "probe_policy": policy,
                "n_items": result.n_items,
                "mean_score": result.mean_score,
                "mean_cost_usd": result.mean_cost,
                "share_of_oracle_gain": result.share_of_oracle_gain,
                "score_lower": result.score_lower,
                "score_upper": result.score_upper,
                "share_lower": result.share_lower,
                "share_upper": result.share_upper,
            }
            for (name, policy), result in results.items()
        ]
    )
    return StageResult(
        tables={"estimates.routing_evaluation": frame},
        verdicts=[Verdict("routing", sentence, "estimates.routing_evaluation")],
        numbers={"n_items": len(test), "mean_score": own.mean_score},
    )


def _baseline_scores(published: Published, settings: CapabilitiesSettings, test: Any) -> dict[str, Any]:
    """How `linear` and `blend` score every model on the test items, (n_items, n_models)."""
    from capeval_pipeline.methods.ecc.probing import blended_scores
    from capeval_pipeline.methods.ecc.study import fit_baselines, item_strengths, learn_blend

    problem = published.loaded.problem
    assert published.choice is not None
    fitted = fit_baselines(problem)
    components = item_strengths(problem, fitted, test)
    shrunk = published.mixtures["ecc_shrunk"]
    blend = blended_scores(
        [*components.values(), fitted.global_strengths],
        learn_blend(problem, options_of(settings), published.choice),
        (shrunk.responsibilities[test], shrunk.strengths),
    )
    return {"linear": components["linear"], "blend": blend}


@stage_asset(
    stage=STAGE,
    tables=["estimates.probe_policies"],
    inputs=PUBLISHED,
    question="probe_policies",
    is_long=True,
)
def probe_policies(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Which pair to ask first: the paper's (known to differ), a random one, the most informative, or one for all.

    Scored with `ecc_shrunk` on every pair of test items that differs, but the one that was asked.
    """
    from capeval_pipeline.methods.ecc.evaluation import evaluation_pairs
    from capeval_pipeline.methods.ecc.fit import fit_global
    from capeval_pipeline.methods.ecc.probing import Probes, all_decided_pairs, ask, choose_probes, evaluate_probes
    from capeval_pipeline.methods.mean_scores import draw_item_resamples
    from capeval_pipeline.reporting.verdicts.capabilities import policies_sentence

    published = load_published(part, settings)
    loaded = published.loaded
    if "ecc_shrunk" not in published.mixtures:
        raise StageSkipped("the paper's preset has no ecc_shrunk")
    if len(loaded.models) > LARGEST_ENUMERATED:
        raise StageSkipped(
            f"{len(loaded.models)} models have too many pairs to ask; at most {LARGEST_ENUMERATED} do not"
        )
    test = loaded.problem.test_items
    quality = loaded.quality[test]
    decided = all_decided_pairs(quality)
    if not len(decided[0]):
        raise StageSkipped("test items have no scores that differ")
    shrunk = published.mixtures["ecc_shrunk"]
    placed = shrunk.responsibilities[test]
    train = loaded.problem.train_items
    weights = draw_item_resamples(len(test), settings.n_resamples, np.random.default_rng([settings.seed, 6]))
    pairs = evaluation_pairs(loaded.problem.votes.restricted_to(test))
    policies = {"paper": Probes(pairs.probe_winner, pairs.probe_loser, pairs.probe_winner, pairs.probe_loser)}
    for policy in POLICIES:
        asked = choose_probes(
            policy,
            placed,
            shrunk.strengths,
            placed_training=shrunk.responsibilities[train],
            rng=np.random.default_rng([settings.seed, 5]),
        )
        policies[policy] = ask(*asked, quality)
    reference = fit_global(loaded.problem.votes.restricted_to(train))
    rows = []
    gains = {}
    for policy, probes in policies.items():
        found = evaluate_probes(
            probes,
            placed,
            shrunk.strengths,
            reference,
            decided,
            temperature=published.temperature,
            weights=weights.astype(np.float64),
        )
        for subset, gain in found.items():
            gains[policy, subset] = gain.gain_percent
            rows.append(
                {
                    "policy": policy,
                    "pair_subset": subset,
                    "informative_share": probes.informative_share,
                    "n_pairs": gain.n_pairs,
                    "gain_percent": gain.gain_percent,
                    "lower": gain.lower,
                    "upper": gain.upper,
                }
            )
    sentence = policies_sentence(
        informative_random=policies["random"].informative_share,
        informative_eig=policies["eig"].informative_share,
        random_all=gains["random", "all"],
        eig_all=gains["eig", "all"],
        fixed_all=gains["fixed", "all"],
        random_disjoint=gains["random", "disjoint"],
        eig_disjoint=gains["eig", "disjoint"],
        fixed_disjoint=gains["fixed", "disjoint"],
    )
    return StageResult(
        tables={"estimates.probe_policies": pd.DataFrame(rows)},
        verdicts=[Verdict("probe_policies", sentence, "estimates.probe_policies")],
    )


@stage_asset(
    stage=STAGE,
    tables=["estimates.probe_sensitivity"],
    inputs=PUBLISHED,
    question="probe_sensitivity",
    is_long=True,
)
def probe_sensitivity(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """How much the gain with a probe hangs on which of the sampled pairs was the probe: seven draws."""
    from capeval_pipeline.methods.ecc.fit import fit_global
    from capeval_pipeline.methods.ecc.probing import evaluate_probe_draws
    from capeval_pipeline.reporting.verdicts.capabilities import sensitivity_sentence

    published = load_published(part, settings)
    problem = published.loaded.problem
    test = problem.test_items
    votes = problem.votes.restricted_to(test)
    reference = fit_global(problem.votes.restricted_to(problem.train_items))
    rows = []
    for method, mixture in published.mixtures.items():
        draws = evaluate_probe_draws(
            votes,
            mixture.responsibilities[test],
            mixture.strengths,
            reference,
            temperature=published.temperature,
            n_draws=7,
        )
        rows += [
            {"method": method, "draw": draw, "pair_subset": subset, "n_pairs": n_pairs, "gain_percent": gain}
            for draw, found in enumerate(draws)
            for subset, (n_pairs, gain) in found.items()
        ]
    frame = pd.DataFrame(rows)
    method = "ecc_shrunk" if "ecc_shrunk" in published.mixtures else "ecc"
    gains = frame[frame["method"] == method].groupby("pair_subset")["gain_percent"]
    mean, deviation = gains.mean().to_dict(), gains.std().to_dict()
    sentence = sensitivity_sentence(
        method=method,
        n_draws=7,
        mean_all=mean["all"],
        sd_all=deviation["all"],
        mean_disjoint=mean["disjoint"],
        sd_disjoint=deviation["disjoint"],
    )
    return StageResult(
        tables={"estimates.probe_sensitivity": frame},
        verdicts=[Verdict("probe_sensitivity", sentence, "estimates.probe_sensitivity")],
    )


@stage_asset(
    stage=STAGE,
    tables=["estimates.cold_start_evaluation"],
    inputs=PUBLISHED,
    question="cold_start",
    is_long=True,
)
def cold_start(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Each model held out in turn (at most 30) and learnt anew from few comparisons, beside a rule without clusters.

    The figure to quote is the gain on unseen pairs: elsewhere the old models' votes have already decided the item.
    """
    import hashlib

    from capeval_pipeline.methods.ecc.cold_start import ColdStartJob, evaluate_cold_start
    from capeval_pipeline.reporting.verdicts.capabilities import cold_start_sentence

    published = load_published(part, settings)
    loaded, choice = published.loaded, published.choice
    if choice is None:
        raise StageSkipped("the paper's preset has no ecc_shrunk")
    if np.isnan(loaded.quality).all():
        raise StageSkipped("judgments without scores do not say how a new model would be judged")
    if len(loaded.models) < 4:
        raise StageSkipped(f"{len(loaded.models)} models; holding one out takes four")
    keys = [
        hashlib.md5(f"{settings.seed}\x1f{part.benchmark_id}\x1f{model}".encode()).hexdigest()
        for model in loaded.models
    ]
    held_out = sorted(np.argsort(np.array(keys))[:30].tolist())
    jobs = [
        ColdStartJob(
            problem=loaded.problem,
            quality=loaded.quality,
            key_order=loaded.key_order,
            held_out=model,
            n_clusters=choice.n_clusters,
            ridge=choice.ridge,
            embedding_weight=choice.embedding_weight,
            temperature=published.temperature,
            seed=settings.seed,
        )
        for model in held_out
    ]
    with part.executor() as pool:
        found = list(pool.map(evaluate_cold_start, jobs))
    frame = pd.DataFrame(
        [
            {
                "held_out_model_id": loaded.models[job.held_out],
                "method": row.method,
                "pull_budget": row.pull_budget,
                "gain_percent": row.gain_percent,
                "gain_percent_unseen": row.gain_percent_unseen,
                "n_calls": row.n_calls,
                "rank_error": row.rank_error,
            }
            for job, rows in zip(jobs, found, strict=True)
            for row in rows
        ]
    )
    if frame.empty:
        raise StageSkipped("no model has 25 comparisons that do not tie on training items")
    budgets = frame["pull_budget"].unique().tolist()
    budget = 100 if 100 in budgets else max(budgets)
    at_budget = frame[frame["pull_budget"] == budget]
    gain = at_budget.groupby("method")["gain_percent"].mean().to_dict()
    gain_unseen = at_budget.groupby("method")["gain_percent_unseen"].mean().to_dict()
    sentence = cold_start_sentence(
        pull_budget=budget,
        n_held_out=int(at_budget["held_out_model_id"].nunique()),
        hierarchical=gain["hierarchical"],
        hierarchical_unseen=gain_unseen["hierarchical"],
        authors=gain["authors_like"],
        control=gain["carry_over_control"],
    )
    return StageResult(
        tables={"estimates.cold_start_evaluation": frame},
        verdicts=[Verdict("cold_start", sentence, "estimates.cold_start_evaluation")],
    )


FEWEST_ITEMS_OF_A_DOMAIN = 100
MOST_DOMAINS = 20
PAPER_CLUSTER_COUNTS = (10, 30, 100)


@stage_asset(
    stage=STAGE,
    tables=["estimates.ood_evaluation"],
    inputs=PUBLISHED,
    question="out_of_domain",
    is_long=True,
)
def out_of_domain(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Each large category left out of all fits and then predicted: what clusters say about a domain they never saw.

    Settings of `ecc_shrunk` are those chosen on the whole benchmark.
    """
    from dataclasses import replace

    from capeval_pipeline.methods.ecc.out_of_domain import DomainJob, leave_domain_out
    from capeval_pipeline.reporting.verdicts.capabilities import out_of_domain_sentence

    published = load_published(part, settings)
    problem, categories = published.loaded.problem, published.loaded.categories
    kept = problem.votes.voted_items
    sizes = np.bincount(problem.category[kept][problem.category[kept] >= 0], minlength=problem.n_categories)
    largest = np.argsort(-sizes, kind="stable")[:MOST_DOMAINS]
    domains = [int(c) for c in largest if sizes[c] >= FEWEST_ITEMS_OF_A_DOMAIN and sizes[c] <= len(kept) - 100]
    if len(domains) < 2:
        raise StageSkipped(f"{len(domains)} categories have {FEWEST_ITEMS_OF_A_DOMAIN} items on which models differ")
    options = replace(options_of(settings), n_restarts=3)
    counts = PAPER_CLUSTER_COUNTS if options.is_paper else (options.n_clusters,)
    jobs = [
        DomainJob(problem, domain, replace(options, n_clusters=count), published.choice)
        for domain in domains
        for count in counts
    ]
    with part.executor() as pool:
        found = list(pool.map(leave_domain_out, jobs))
    rows = {}
    for job, results in zip(jobs, found, strict=True):
        for (method, inference, subset), (n_clusters, gain) in results.items():
            name = categories[job.domain]
            # The same row for every number of clusters where a method has none.
            rows[name, method, n_clusters, inference, subset] = {
                "test_categories": name,
                "method": method,
                "n_clusters": n_clusters,
                "inference": inference,
                "pair_subset": subset,
                "n_pairs": gain.n_pairs,
                "nll": gain.nll,
                "nll_global": gain.nll_global,
                "gain_percent": gain.gain_percent,
                "gain_lower": gain.lower,
                "gain_upper": gain.upper,
            }
    frame = pd.DataFrame(list(rows.values())).astype({"n_clusters": "Int64"})
    method = "ecc" if options.is_paper else "ecc_shrunk"
    own = frame[(frame["method"] == method) & (frame["inference"] == "emb") & (frame["pair_subset"] == "all")]
    worst = own.sort_values("gain_percent", kind="stable").iloc[0]
    sentence = out_of_domain_sentence(
        method=method,
        n_domains=len(domains),
        mean=float(own["gain_percent"].mean()),
        worst_category=str(worst["test_categories"]),
        worst=float(worst["gain_percent"]),
    )
    return StageResult(
        tables={"estimates.ood_evaluation": frame},
        verdicts=[Verdict("out_of_domain", sentence, "estimates.ood_evaluation")],
    )
