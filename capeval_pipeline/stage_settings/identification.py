"""Fields of the stage `identification`: who teaches, who is examined, and how long the replay is."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

PolicyName = Literal[
    "uniform",
    "ucb_e",
    "naive_pooling",
    "paper_literal",
    "pulse",
    "pulse_shared_order",
    "pulse_active",
    "successive_rejects_shared",
    "race",
]
PullBudget = Annotated[int, Field(ge=1)]


class IdentificationSettings(BaseModel):
    """Settings of the replay study of best-model identification."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    training_models: tuple[str, ...] | None = Field(
        default=None, description="Models the predictor is fitted on; unset: 40 % of the families, at most 300 models."
    )
    arms: tuple[str, ...] | None = Field(
        default=None, min_length=2, description="Models to choose among; unset: all that are no training models."
    )
    policies: tuple[PolicyName, ...] | None = Field(
        default=None, min_length=1, description="Policies to compare; unset: six, or all nine with --full."
    )
    n_seeds: int | None = Field(
        default=None, ge=1, le=10_000, description="Runs a policy; unset: 32 to 104 by size, 104 with --full."
    )
    n_arms: int = Field(default=200, ge=2, le=1000, description="Most arms of a run; with more models, a random set.")
    gap_range: tuple[float, float] | None = Field(
        default=None, description="Smallest and largest gap between best and second mean of a run's arms (on 0…1)."
    )
    batch: int | None = Field(
        default=None, ge=1, le=10_000, description="Calls per decision; unset: a fortieth of the items, 5 to 32."
    )
    exploration: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="Weight a of the bonus sqrt(a / N); below 1 a best arm may get lost.",
    )
    rank: int | None = Field(
        default=None, ge=1, le=50, description="Factors of the predictor; unset: chosen by held-out families."
    )
    l2: float = Field(default=1.0, gt=0, le=1000, description="Ridge of the predictor.")
    pseudo_pairs: float = Field(
        default=10.0, gt=0, le=10_000, description="Pairs by which control weights are shrunk to those of all arms."
    )
    delta: float = Field(default=0.1, gt=0, lt=0.5, description="Failure probability of intervals and certificates.")
    target_accuracy: float = Field(default=0.95, gt=0, lt=1, description="Accuracy whose price in calls is reported.")
    pull_budgets: tuple[PullBudget, ...] | None = Field(
        default=None,
        min_length=1,
        description="Calls at which accuracy is read; unset: 24, log-spaced up to all.",
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of arms, orders, splits and resamples.")

    @model_validator(mode="after")
    def _ranges_ascend(self) -> Self:
        if self.gap_range is not None and not 0 <= self.gap_range[0] <= self.gap_range[1] <= 1:
            raise ValueError(f"gap_range {list(self.gap_range)} must ascend within 0…1")
        return self
