"""What the steps of `capabilities` share: reading the tables of the ECC problem, and the clusters described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import StageSkipped, UsageError
from capeval_pipeline.orchestration.stages import Part
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

if TYPE_CHECKING:  # numba and scipy stay out of the definitions' import
    import pandas as pd

    from capeval_pipeline.arrays.ecc_problem import LabelledProblem
    from capeval_pipeline.arrays.ecc_tables import PublishedMixture
    from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
    from capeval_pipeline.methods.ecc.cold_start import ColdStartJob
    from capeval_pipeline.methods.ecc.selection import Choice
    from capeval_pipeline.methods.ecc.study import EccOptions, EccStudy

FEWEST_KEPT_ITEMS = 50
MIXTURES = ("ecc", "ecc_shrunk", "emb_only", "comp_only")
MOST_HELD_OUT = 30
FEWEST_MODELS_TO_HOLD_ONE_OUT = 4
ECC_INPUTS = (
    "intermediate.comparisons",
    "intermediate.item_scores",
    "intermediate.item_splits",
    "intermediate.item_stats",
    "staging.stg_items",
    "staging.stg_judgments",
    "estimates.item_embeddings",
)


PUBLISHED = (
    *ECC_INPUTS,
    "estimates.ecc_fits",
    "estimates.ecc_grid",
    "estimates.cluster_responsibilities",
    "estimates.cluster_strengths",
)


def load_tie_margin(part: Part) -> float:
    """By how much qualities must differ, as the comparisons were made; a benchmark without scores has no use for it."""
    column = part.arrow("intermediate.item_stats").column("tie_margin")
    return float(column[0].as_py()) if len(column) else 1e-9


def load_problem(part: Part) -> LabelledProblem:
    """The benchmark's ECC problem; raises StageSkipped where there is none to solve."""
    from capeval_pipeline.arrays.ecc_problem import encode_ecc_problem

    scores = part.arrow("intermediate.item_scores").select(["item_id", "model_id", "quality", "cost_usd"]).to_pandas()
    items = part.arrow("staging.stg_items").select(["item_id", "prompt", "category"]).to_pandas()
    loaded = encode_ecc_problem(
        comparisons=part.read("intermediate.comparisons"),
        item_scores=scores,
        item_splits=part.read("intermediate.item_splits"),
        items=items,
        judgments=part.read("staging.stg_judgments"),
        embeddings=part.arrow("estimates.item_embeddings"),
        tie_margin=load_tie_margin(part),
    )
    n_kept = len(loaded.problem.votes.voted_items)
    if len(loaded.models) < 2:
        raise StageSkipped(f"{len(loaded.models)} model; a comparison takes two")
    if n_kept < FEWEST_KEPT_ITEMS:
        raise StageSkipped(
            f"items with two pairs of models that differ: {n_kept} of {len(loaded.items)}; clusters take "
            f"{FEWEST_KEPT_ITEMS}"
        )
    return loaded


def options_of(settings: CapabilitiesSettings) -> EccOptions:
    """The settings as the study takes them."""
    from capeval_pipeline.methods.ecc.study import EccOptions

    return EccOptions(
        is_paper=settings.preset == "paper",
        seed=settings.seed,
        n_clusters=settings.n_clusters,
        embedding_weight=settings.embedding_weight,
        temperature=settings.temperature,
        ridge=settings.ridge,
        n_resamples=settings.n_resamples,
        cluster_counts=settings.cluster_counts,
        ridges=settings.ridges,
    )


@dataclass(frozen=True)
class DescribedClusters:
    """Frames of cluster_strengths, clusters and cluster_categories (None without categories), all methods."""

    strengths: pd.DataFrame
    clusters: pd.DataFrame
    categories: pd.DataFrame | None
    category_ari: dict[str, float]


def describe_clusters(loaded: LabelledProblem, study: EccStudy, settings: CapabilitiesSettings) -> DescribedClusters:
    """Profiles with intervals, typical items, terms and categories of every mixture's clusters."""
    import numpy as np
    import pandas as pd

    from capeval_pipeline.arrays.ecc_tables import cluster_categories_frame, cluster_strengths_frame, clusters_frame
    from capeval_pipeline.embedders.tfidf import count_terms
    from capeval_pipeline.methods.ecc.description import (
        adjusted_rand_index,
        category_shares,
        telling_terms,
        typical_items,
        without_boilerplate,
    )
    from capeval_pipeline.methods.ecc.fit import profile_intervals
    from capeval_pipeline.methods.mean_scores import draw_item_resamples

    problem = loaded.problem
    votes = problem.votes.restricted_to(problem.train_items)
    weights = draw_item_resamples(
        votes.n_items, settings.n_profile_resamples, np.random.default_rng([settings.seed, 3])
    ).astype(np.float64)
    matrix, terms = count_terms(without_boilerplate(loaded.prompts))
    has_category = problem.category >= 0
    strengths, clusters, categories, agreement = [], [], [], {}
    for method, fit in study.fitted.mixtures.items():
        placed = study.responsibilities[method]
        prior = study.fitted.global_strengths if method == "ecc_shrunk" else 0.0
        lower, upper, is_compared = profile_intervals(votes, fit, prior=prior, weights=weights)
        strengths.append(cluster_strengths_frame(method, fit.strengths, lower, upper, is_compared, loaded.models))
        of_cluster, of_category, lift = category_shares(placed, problem.category, problem.n_categories)
        # Without text all cosines are 0: the items a cluster is most responsible for stand for it.
        cosines = np.ones_like(placed) if problem.embeddings is None else problem.embeddings @ fit.centres.T
        clusters.append(
            clusters_frame(
                method,
                placed,
                fit.strengths,
                is_compared,
                items=loaded.items,
                models=loaded.models,
                top_items=typical_items(
                    placed, cosines, loaded.text if any(loaded.prompts) else np.arange(len(placed))
                ),
                top_terms=telling_terms(matrix, terms, placed),
                lift=lift,
                categories=loaded.categories,
            )
        )
        if problem.n_categories:
            categories.append(cluster_categories_frame(method, of_cluster, of_category, lift, loaded.categories))
        if problem.n_categories > 1 and has_category.any():
            agreement[method] = adjusted_rand_index(placed[has_category].argmax(axis=1), problem.category[has_category])
    return DescribedClusters(
        strengths=pd.concat(strengths, ignore_index=True),
        clusters=pd.concat(clusters, ignore_index=True),
        categories=pd.concat(categories, ignore_index=True) if categories else None,
        category_ari=agreement,
    )


@dataclass(frozen=True)
class Published:
    """A benchmark's problem and its published mixtures; temperature and choice are those they were fitted with.

    global_strengths : (n_models,) the reference ranking of the training votes; headline : the mixture people read
    """

    loaded: LabelledProblem
    mixtures: dict[str, PublishedMixture]
    temperature: float
    choice: Choice | None
    global_strengths: FloatArray

    @property
    def headline(self) -> str:
        """The mixture people read: the shrunk one where it was fitted."""
        return "ecc_shrunk" if "ecc_shrunk" in self.mixtures else "ecc"


def load_published(part: Part, settings: CapabilitiesSettings) -> Published:
    """Read what the ecc step wrote; raises StageSkipped where it wrote nothing."""
    from capeval_pipeline.arrays.ecc_tables import encode_choice, encode_mixture
    from capeval_pipeline.methods.ecc.fit import fit_global

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
    return Published(
        loaded,
        mixtures,
        settings.temperature,
        encode_choice(part.read("estimates.ecc_grid")),
        fit_global(loaded.problem.votes.restricted_to(loaded.problem.train_items)),
    )


def complete_test_items(loaded: LabelledProblem) -> IntArray:
    """Test items with votes and a score of every model; raises StageSkipped where there is none."""
    import numpy as np

    test = loaded.problem.test_items
    complete = test[~np.isnan(loaded.quality[test]).any(axis=1)]
    if not len(complete):
        raise StageSkipped("no test item has a score of every model")
    return complete


def routing_baselines(published: Published, settings: CapabilitiesSettings, test: IntArray) -> dict[str, FloatArray]:
    """How `linear` and `blend` score every model on the test items, (n_items, n_models); none in the paper's preset."""
    from capeval_pipeline.methods.ecc.probing import blended_scores
    from capeval_pipeline.methods.ecc.study import fit_baselines, item_strengths, learn_blend

    if published.choice is None:
        return {}
    problem = published.loaded.problem
    fitted = fit_baselines(problem)
    components = item_strengths(problem, fitted, test)
    shrunk = published.mixtures["ecc_shrunk"]
    blend = blended_scores(
        [*components.values(), fitted.global_strengths],
        learn_blend(problem, options_of(settings), published.choice),
        (shrunk.responsibilities[test], shrunk.strengths),
    )
    return {"linear": components["linear"], "blend": blend}


def cold_start_jobs(benchmark_id: str, published: Published, settings: CapabilitiesSettings) -> list[ColdStartJob]:
    """A job a model, MOST_HELD_OUT of lowest key where there are more; settings of `ecc_shrunk`, else the paper's."""
    import hashlib

    import numpy as np

    from capeval_pipeline.methods.ecc.cold_start import ColdStartJob

    loaded, choice = published.loaded, published.choice
    if np.isnan(loaded.quality).all():
        raise StageSkipped("judgments without scores do not say how a new model would be judged")
    if len(loaded.models) < FEWEST_MODELS_TO_HOLD_ONE_OUT:
        needed = FEWEST_MODELS_TO_HOLD_ONE_OUT
        raise StageSkipped(f"{counted(len(loaded.models), 'model')}; holding one out takes {needed}")
    keys = [
        hashlib.md5(f"{settings.seed}\x1f{benchmark_id}\x1f{model}".encode()).hexdigest() for model in loaded.models
    ]
    return [
        ColdStartJob(
            problem=loaded.problem,
            quality=loaded.quality,
            key_order=loaded.key_order,
            held_out=int(model),
            n_clusters=settings.n_clusters if choice is None else choice.n_clusters,
            ridge=settings.ridge if choice is None else choice.ridge,
            embedding_weight=settings.embedding_weight if choice is None else choice.embedding_weight,
            is_shrunk=choice is not None,
            temperature=published.temperature,
            seed=settings.seed,
            tie_margin=loaded.tie_margin,
        )
        for model in np.sort(np.argsort(np.array(keys))[:MOST_HELD_OUT])
    ]


def category_domains(
    published: Published, settings: CapabilitiesSettings
) -> list[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """(categories to predict, categories to fit on, None for all others): as configured, else each large one in turn.

    Raises UsageError for a configured category that the benchmark does not have.
    """
    from capeval_pipeline.methods.ecc.out_of_domain import FEWEST_ITEMS, large_categories

    problem, categories = published.loaded.problem, published.loaded.categories
    if settings.ood_test_categories:
        known = {name: position for position, name in enumerate(categories)}
        for name in (*settings.ood_test_categories, *settings.ood_train_categories):
            if name not in known:
                listed = ", ".join(categories[:20]) or "none"
                raise UsageError(f"capabilities: category {name!r} is not in this benchmark; it has {listed}")
        test = tuple(sorted(known[name] for name in settings.ood_test_categories))
        train = tuple(sorted(known[name] for name in settings.ood_train_categories)) or None
        return [(test, train)]
    domains = large_categories(problem)
    if len(domains) < 2:
        raise StageSkipped(f"too few categories, {len(domains)}, have {FEWEST_ITEMS} items on which models differ")
    return [((domain,), None) for domain in domains]
