"""Whether a single figure may be given. A guard, not a detector."""

import math
from dataclasses import dataclass
from typing import Literal

from capeval_pipeline.methods.debiasing.shock import SHOCK_LIMIT

Cause = Literal["", "draws", "model", "items", "ceiling", "ratio", "shock", "graded"]
VerdictKind = Literal["point", "bracket_only", "upper_bound_only"]
RATIO_LIMITS = (0.85, 1.15)
CEILING_LIMIT = 0.95
LEAST_ITEMS = 100
GRADED_LIMIT = 0.02


@dataclass(frozen=True)
class Verdict:
    """point, bracket_only or upper_bound_only, with the number and the threshold in words ('' for point).

    cause : which of the checks refused, '' for point; it decides what would be needed to know more
    """

    kind: VerdictKind
    reason: str
    cause: Cause = ""


def judge(
    *,
    n_items: int,
    n_generations: int,
    ceiling_share: float,
    bracket_ratio: float,
    shock_z: float,
    shock_factor: float,
    graded_disagreement: float,
    model_failure: str,
) -> Verdict:
    """Decide from the diagnostics; NaN means the diagnostic does not apply.

    graded_disagreement : |topic model − Gaussian| for graded scores; model_failure : why there is no topic model
    """
    if n_generations < 2:
        return Verdict("upper_bound_only", "one draw a cell: luck cannot be told from skill", "draws")
    if model_failure:
        return Verdict("bracket_only", model_failure, "model")
    if n_items < LEAST_ITEMS:
        return Verdict("bracket_only", f"{n_items} items, fewer than {LEAST_ITEMS}", "items")
    if ceiling_share >= CEILING_LIMIT:
        return Verdict(
            "bracket_only",
            f"on {100 * ceiling_share:.1f} % of the items some model is right in all {n_generations} draws "
            f"({100 * CEILING_LIMIT:.0f} % or more)",
            "ceiling",
        )
    low, high = RATIO_LIMITS
    if math.isnan(bracket_ratio):
        return Verdict("bracket_only", "the bracket has no width to check the model by", "ratio")
    if not low <= bracket_ratio <= high:
        return Verdict(
            "bracket_only",
            f"the model predicts {bracket_ratio:.2f} of the bracket's width, outside {low}–{high}",
            "ratio",
        )
    if abs(shock_z) > SHOCK_LIMIT and math.isnan(shock_factor):
        return Verdict(
            "bracket_only",
            f"models share a shock (z = {shock_z:.1f}, limit {SHOCK_LIMIT:.0f}) that cannot be sized",
            "shock",
        )
    if graded_disagreement > GRADED_LIMIT:
        return Verdict(
            "bracket_only",
            f"two models of graded scores differ by {graded_disagreement:.3f}, more than {GRADED_LIMIT}",
            "graded",
        )
    return Verdict("point", "")
