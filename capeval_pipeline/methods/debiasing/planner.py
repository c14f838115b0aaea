"""How many draws a cell would be enough: the naive oracle's bias forecast from posterior worlds."""

from collections.abc import Sequence

import numpy as np

from capeval_pipeline.methods.debiasing.posterior import WorldPosterior
from capeval_pipeline.methods.frontier import expected_naive_oracle

GENERATION_CHOICES: tuple[int, ...] = (2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
# Forecasts run 10–40 % low, so the target is asked of one and a half times the forecast.
_SAFETY = 1.5
_WORLDS = 3


def forecast_bias(posterior: WorldPosterior, generations: Sequence[int]) -> dict[int, float]:
    """Expected naive oracle minus true oracle by draws a cell, mean over posterior worlds (0/1 draws).

    "At least": forecasts run low and fail where the naive curve is flat.
    """
    worlds = [posterior.true_quality(index) for index in range(_WORLDS)]
    truth = [float(np.nanmax(world, axis=1).mean()) for world in worlds]
    return {
        g: float(np.mean([expected_naive_oracle(w, g) - t for w, t in zip(worlds, truth, strict=True)]))
        for g in generations
    }


def generations_needed(bias_by_generation: dict[int, float], target_bias: float) -> int | None:
    """Smallest of GENERATION_CHOICES with 1.5 x forecast ≤ target; None where none is."""
    enough = [g for g in GENERATION_CHOICES if _SAFETY * bias_by_generation[g] <= target_bias]
    return enough[0] if enough else None
