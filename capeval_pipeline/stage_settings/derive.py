"""Fields of the stage `derive`: how scores become comparisons and how items are split.

Every field is a SQL variable of the models in dbt_like_sql, of the same name.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DeriveSettings(BaseModel):
    """Settings of staging and intermediate models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(
        default=0, ge=0, le=2**31 - 1, description="Seed of the keyed choices: sampled pairs, pools of models, splits."
    )
    pairs_per_item: int = Field(
        default=7, ge=2, le=1000, description="Pairs of models kept of an item, among those whose scores differ."
    )
    tie_margin: float = Field(
        default=1e-9,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Scores (on 0…1) tie when they differ by at most this.",
    )
    comparison_source: Literal["scores", "judgments"] | None = Field(
        default=None,
        description="Where comparisons come from; unset: judgments where a benchmark has any, else scores.",
    )
    max_models: int = Field(
        default=200, ge=2, le=5000, description="Models that comparisons are sampled from: those with the highest mean."
    )
    test_share: float = Field(default=0.2, gt=0, lt=1, description="Share of the items in the test split.")
