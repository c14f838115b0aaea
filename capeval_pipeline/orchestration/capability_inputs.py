"""What the steps of `capabilities` share: reading the tables of the ECC problem, and the clusters described."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.stages import Part
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

if TYPE_CHECKING:  # numba and scipy stay out of the definitions' import
    from capeval_pipeline.arrays.ecc_problem import LabelledProblem
    from capeval_pipeline.methods.ecc.study import EccOptions, EccStudy

FEWEST_KEPT_ITEMS = 50
ECC_INPUTS = (
    "intermediate.comparisons",
    "intermediate.item_scores",
    "intermediate.item_splits",
    "staging.stg_items",
    "staging.stg_judgments",
    "estimates.item_embeddings",
)


def load_problem(part: Part) -> "LabelledProblem":
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
    )
    n_kept = len(loaded.problem.votes.voted_items)
    if len(loaded.models) < 2:
        raise StageSkipped(f"{len(loaded.models)} model; a comparison takes two")
    if n_kept < FEWEST_KEPT_ITEMS:
        raise StageSkipped(
            f"{n_kept} of {len(loaded.items)} items have two pairs of models that differ; clusters take "
            f"{FEWEST_KEPT_ITEMS}"
        )
    return loaded


def options_of(settings: CapabilitiesSettings) -> "EccOptions":
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


def describe_clusters(
    loaded: "LabelledProblem", study: "EccStudy", settings: CapabilitiesSettings
) -> DescribedClusters:
    """Profiles with intervals, typical items, terms and categories of every mixture's clusters."""
    from capeval_pipeline.arrays.ecc_tables import cluster_categories_frame, cluster_strengths_frame, clusters_frame
    from capeval_pipeline.embedders.tfidf import count_terms
    from capeval_pipeline.methods.ecc.description import (
        adjusted_rand_index,
        category_shares,
        telling_terms,
        typical_items,
    )
    from capeval_pipeline.methods.ecc.fit import profile_intervals
    from capeval_pipeline.methods.mean_scores import draw_item_resamples

    problem = loaded.problem
    votes = problem.votes.restricted_to(problem.train_items)
    weights = draw_item_resamples(
        votes.n_items, settings.n_profile_resamples, np.random.default_rng([settings.seed, 3])
    ).astype(np.float64)
    matrix, terms = count_terms(loaded.prompts)
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
