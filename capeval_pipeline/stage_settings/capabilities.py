"""Fields of the stage `capabilities`: strengths, clusters of items, and how well they predict."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class CapabilitiesSettings(BaseModel):
    """Settings of strengths and of evidence-calibrated clusters."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    preset: Literal["default", "paper"] = Field(
        default="default",
        description="paper: the published method and settings alone; default: beside them the held-out choice of "
        "clusters, shrinkage and weight, and the baselines.",
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of starts and resamples.")
    embedder: str = Field(
        default="tfidf_svd",
        min_length=1,
        description="What turns prompts into vectors; vectors in the files win over it.",
    )
    strength_ridge: float = Field(default=0.1, gt=0, le=100, description="Ridge of `strengths` towards 0.")
    n_resamples: int = Field(
        default=1000, ge=50, le=100_000, description="Item resamples behind intervals of strengths, scores and gains."
    )
    n_profile_resamples: int = Field(
        default=200, ge=20, le=10_000, description="Item resamples behind intervals of cluster strengths."
    )
    level: float = Field(default=0.05, gt=0, lt=0.5, description="Family-wise level of verdicts between models.")
    n_clusters: int = Field(default=30, ge=1, le=500, description="Clusters of ecc, emb_only and comp_only.")
    embedding_weight: float = Field(
        default=3.0, ge=0, le=1000, description="Weight of texts against comparisons in ecc, emb_only and comp_only."
    )
    temperature: float = Field(default=0.1, gt=0, le=10, description="Temperature of responsibilities, all methods.")
    ridge: float = Field(default=1.0, gt=0, le=1000, description="Ridge of ecc, emb_only and comp_only towards 0.")
    cluster_counts: tuple[int, ...] = Field(
        default=(1, 2, 4, 6, 8, 12, 20, 30),
        min_length=1,
        description="Numbers of clusters the held-out choice of ecc_shrunk tries.",
    )
    ridges: tuple[float, ...] = Field(
        default=(1.0, 3.0, 10.0), min_length=1, description="Ridges the held-out choice of ecc_shrunk tries."
    )
    ood_test_categories: tuple[str, ...] = Field(
        default=(),
        description="Categories to predict without having seen them, together; by default each large one in turn.",
    )
    ood_train_categories: tuple[str, ...] = Field(
        default=(), description="Categories to fit on when ood_test_categories are predicted; by default all others."
    )

    @model_validator(mode="after")
    def _keep_domains_apart(self) -> Self:
        both = sorted({*self.ood_test_categories} & {*self.ood_train_categories})
        if both:
            raise ValueError(f"category {both[0]!r} is in ood_test_categories and in ood_train_categories")
        if self.ood_train_categories and not self.ood_test_categories:
            raise ValueError("ood_train_categories without ood_test_categories; name what to predict too")
        return self
