"""Fields of the stage `frontier`: how the luck of taking maxima is measured and removed."""

from pydantic import BaseModel, ConfigDict, Field


class FrontierSettings(BaseModel):
    """Sizes of the resampling, the topic model's choices and what is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed that keys splits, simulations and bootstraps.")
    n_splits: int = Field(default=20, ge=2, le=500, description="Splits of the draws in cross-fitting.")
    n_simulations: int = Field(
        default=30, ge=10, le=500, description="Worlds drawn from the topic model to measure the bias in."
    )
    n_permutations: int = Field(default=50, ge=20, le=1000, description="Permutations of the test for a shared shock.")
    n_refits: int = Field(
        default=10,
        ge=3,
        le=200,
        description="Simulated experiments the topic model is fitted to again, to learn how far off its answer may be.",
    )
    latency_limits_s: list[float] = Field(
        default=[],
        max_length=12,
        description="Seconds that at most 5 % of a system's answers may exceed; empty: the best single model's own "
        "95 % quantile, half and a quarter of it.",
    )
    topic_counts: list[int] = Field(
        default=[1, 3, 6], min_length=1, max_length=8, description="Numbers of topics to choose from by BIC."
    )
    n_prices: int = Field(
        default=64, ge=50, le=500, description="Prices of a dollar the frontier's support function is computed at."
    )
    n_multipliers: int = Field(default=300, ge=100, le=5000, description="Multipliers of the band's bootstrap.")
    target_bias: float = Field(
        default=0.01, gt=0, lt=1, allow_inf_nan=False, description="Bias of the naive oracle that draws should reach."
    )
    max_missing_share: float = Field(
        default=0.05,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="A model without cost, or with one draw, on a larger share of its items is left out by name.",
    )
