"""What clusters are good for: routing, choosing what to ask first, a new model, an unknown domain.

Each step reads the published clusters (cluster_responsibilities, cluster_strengths) or fits anew what it holds out.
"""

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.capability_inputs import (
    PUBLISHED,
    category_domains,
    cold_start_jobs,
    complete_test_items,
    load_published,
    options_of,
    routing_baselines,
)
from capeval_pipeline.orchestration.stages import Part, StageResult, Verdict, stage_asset
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

STAGE = "capabilities"
N_PROBE_DRAWS = 7
"""As many as an item has sampled pairs by default; an item with fewer takes its own in turn again."""
QUOTED_PULL_BUDGET = 100
"""The sentence on new models speaks of this many comparisons, or of the most there are below."""


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
    import numpy as np

    from capeval_pipeline.arrays.ecc_use_tables import routing_frame
    from capeval_pipeline.methods.ecc.routing_study import best_on_average, run_routing_study
    from capeval_pipeline.methods.mean_scores import draw_item_resamples
    from capeval_pipeline.reporting.verdicts.capabilities import routing_sentence

    published = load_published(part, settings)
    loaded, problem = published.loaded, published.loaded.problem
    test = complete_test_items(loaded)
    weights = draw_item_resamples(len(test), settings.n_resamples, np.random.default_rng([settings.seed, 4]))
    shrunk = published.mixtures.get("ecc_shrunk")
    study = run_routing_study(
        problem.votes.restricted_to(test),
        loaded.quality[test],
        None if np.isnan(loaded.cost[test]).all() else loaded.cost[test],
        {name: (found.responsibilities[test], found.strengths) for name, found in published.mixtures.items()},
        routing_baselines(published, settings, test),
        global_best=best_on_average(loaded.quality[problem.train_items]),
        global_strengths=published.global_strengths,
        placed_training=None if shrunk is None else shrunk.responsibilities[problem.train_items],
        temperature=published.temperature,
        weights=weights.astype(np.float64),
        rng_seed=[settings.seed, 5],
        tie_margin=loaded.tie_margin,
    )
    router = published.headline
    own, perfect = study.results[router, "none"], study.results["oracle", "none"]
    sentence = routing_sentence(
        router=router,
        score=own.mean_score,
        score_lower=own.score_lower,
        score_upper=own.score_upper,
        share=own.share_of_oracle_gain,
        global_best_model=loaded.models[study.global_best],
        global_best=study.results["global_best", "none"].mean_score,
        oracle=perfect.mean_score,
        n_items=len(test),
        is_probe_winner_oracle=study.is_probe_winner_oracle,
    )
    return StageResult(
        tables={"estimates.routing_evaluation": routing_frame(study.results)},
        verdicts=[Verdict("routing", sentence, "estimates.routing_evaluation")],
        numbers={"n_items": len(test), "mean_score": own.mean_score},
    )


@stage_asset(
    stage=STAGE,
    tables=["estimates.probe_policies"],
    inputs=PUBLISHED,
    question="probe_policies",
    is_long=True,
)
def probe_policies(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Which pair to ask first: the paper's (known to differ), a random one, the most informative, or one for all.

    Scored with the headline's clusters on every pair of test items that differs, but the one that was asked. Above 64
    models pairs are asked and predicted among 64 of them, spread evenly over the ranking.
    """
    import numpy as np

    from capeval_pipeline.arrays.ecc_use_tables import policies_frame
    from capeval_pipeline.methods.ecc.probing import LARGEST_ENUMERATED, evaluate_policies
    from capeval_pipeline.methods.mean_scores import draw_item_resamples
    from capeval_pipeline.reporting.verdicts.capabilities import policies_sentence

    published = load_published(part, settings)
    loaded, problem = published.loaded, published.loaded.problem
    mixture = published.mixtures[published.headline]
    test = problem.test_items
    weights = draw_item_resamples(len(test), settings.n_resamples, np.random.default_rng([settings.seed, 6]))
    try:
        found = evaluate_policies(
            problem.votes.restricted_to(test),
            loaded.quality[test],
            mixture.responsibilities[test],
            mixture.strengths,
            published.global_strengths,
            placed_training=mixture.responsibilities[problem.train_items],
            temperature=published.temperature,
            weights=weights.astype(np.float64),
            rng_seed=[settings.seed, 5],
            tie_margin=loaded.tie_margin,
        )
    except ValueError as error:
        raise StageSkipped("test items have no scores that differ") from error
    gains = {(policy, subset): gain.gain_percent for policy, (_, own) in found.items() for subset, gain in own.items()}
    sentence = policies_sentence(
        informative_random=found["random"][0].informative_share,
        informative_eig=found["eig"][0].informative_share,
        random_all=gains["random", "all"],
        eig_all=gains["eig", "all"],
        fixed_all=gains["fixed", "all"],
        random_disjoint=gains["random", "disjoint"],
        eig_disjoint=gains["eig", "disjoint"],
        fixed_disjoint=gains["fixed", "disjoint"],
        n_models_asked=LARGEST_ENUMERATED if len(loaded.models) > LARGEST_ENUMERATED else None,
    )
    return StageResult(
        tables={"estimates.probe_policies": policies_frame(found)},
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
    from capeval_pipeline.arrays.ecc_use_tables import sensitivity_frame
    from capeval_pipeline.methods.ecc.probing import evaluate_probe_draws
    from capeval_pipeline.reporting.verdicts.capabilities import sensitivity_sentence

    published = load_published(part, settings)
    test = published.loaded.problem.test_items
    votes = published.loaded.problem.votes.restricted_to(test)
    draws = {
        method: evaluate_probe_draws(
            votes,
            mixture.responsibilities[test],
            mixture.strengths,
            published.global_strengths,
            temperature=published.temperature,
            n_draws=N_PROBE_DRAWS,
        )
        for method, mixture in published.mixtures.items()
    }
    frame = sensitivity_frame(draws)
    gains = frame[frame["method"] == published.headline].groupby("pair_subset")["gain_percent"]
    mean, deviation = gains.mean().to_dict(), gains.std().to_dict()
    sentence = sensitivity_sentence(
        method=published.headline,
        n_draws=N_PROBE_DRAWS,
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
    from capeval_pipeline.arrays.ecc_use_tables import cold_start_frame
    from capeval_pipeline.methods.ecc.cold_start import PULL_BUDGETS, evaluate_cold_start
    from capeval_pipeline.reporting.verdicts.capabilities import cold_start_sentence

    published = load_published(part, settings)
    jobs = cold_start_jobs(part.benchmark_id, published, settings)
    with part.executor() as pool:
        found = list(pool.map(evaluate_cold_start, jobs))
    models = [published.loaded.models[job.held_out] for job in jobs]
    frame = cold_start_frame(zip(models, found, strict=True))
    if frame.empty:
        raise StageSkipped(f"no model has {min(PULL_BUDGETS)} comparisons that do not tie on training items")
    budgets = frame["pull_budget"].unique().tolist()
    budget = QUOTED_PULL_BUDGET if QUOTED_PULL_BUDGET in budgets else max(budgets)
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


@stage_asset(
    stage=STAGE,
    tables=["estimates.ood_evaluation"],
    inputs=PUBLISHED,
    question="out_of_domain",
    is_long=True,
)
def out_of_domain(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Categories left out of all fits and then predicted: what clusters say about a domain they never saw.

    Each large category in turn, or the configured ones together. Settings of `ecc_shrunk` are those chosen on the
    whole benchmark.
    """
    from capeval_pipeline.arrays.ecc_use_tables import domains_frame
    from capeval_pipeline.methods.ecc.out_of_domain import domain_jobs, leave_domain_out
    from capeval_pipeline.reporting.verdicts.capabilities import out_of_domain_sentence

    published = load_published(part, settings)
    problem, categories = published.loaded.problem, published.loaded.categories
    domains = category_domains(published, settings)
    jobs = domain_jobs(problem, domains, options_of(settings), published.choice)
    with part.executor() as pool:
        found = list(pool.map(leave_domain_out, jobs))
    names = [", ".join(categories[c] for c in job.test) for job in jobs]
    frame = domains_frame(zip(names, found, strict=True))
    method = published.headline
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
