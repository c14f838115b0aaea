"""The sentence that says how few calls find the best model, what limits the saving, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures.identification import policy_name
from capeval_pipeline.reporting.numbers import true_minus


@dataclass(frozen=True)
class PolicyFigures:
    """pulls : calls for the target accuracy, NaN when never reached; saving against UCB-E with its 90 % limits."""

    pulls: float
    saving: float = math.nan
    saving_lower: float = math.nan
    saving_upper: float = math.nan


@dataclass(frozen=True)
class RaceFigures:
    """Certified stopping: share of the matrix it read (median of the certified runs), and how often it was wrong."""

    n_certified: int
    n_wrong: int
    median_share: float
    delta: float


@dataclass(frozen=True)
class LeftOut:
    """Policies that could not run, and why."""

    policies: Sequence[str]
    reason: str


def identification_sentence(
    *,
    n_runs: int,
    n_arms: int,
    n_items: int,
    target_accuracy: float,
    first_sweep: int,
    uniform: PolicyFigures | None,
    ucb_e: PolicyFigures | None,
    pulse: PolicyFigures | None,
    residual_variance_ratio: float,
    pairing_ratio: float,
    race: RaceFigures | None,
    left_out: LeftOut | None,
    n_training_models: int = 0,
) -> str:
    """Plain text; every number beside its interval or its reference, and the number of replays it rests on.

    n_training_models : models the predictor learned from; they are no arms, so a reader misses them in n_arms
    """
    n_cells = n_arms * n_items
    parts = [_found(n_runs, n_arms, n_training_models, n_cells, target_accuracy, uniform, ucb_e, pulse)]
    if pulse is not None and ucb_e is not None:
        # The ceiling first: a saving is to be read in its light.
        if not math.isnan(residual_variance_ratio):
            parts.append(_ceiling(residual_variance_ratio, pairing_ratio, first_sweep))
        parts.append(_saving(pulse, ucb_e, n_runs, n_cells, first_sweep, residual_variance_ratio))
    if race is not None:
        parts.append(_certified(race, n_runs))
    if left_out is not None and left_out.policies:
        parts.append(
            f"Left out: {_join([policy_name(name) for name in left_out.policies])}, because {left_out.reason}."
        )
    return " ".join(parts)


def _found(
    n_runs: int,
    n_arms: int,
    n_training_models: int,
    n_cells: int,
    target: float,
    uniform: PolicyFigures | None,
    ucb_e: PolicyFigures | None,
    pulse: PolicyFigures | None,
) -> str:
    shown = [
        f"{name} {_calls(figures.pulls, n_cells)}"
        for name, figures in (("PULSE", pulse), ("UCB-E", ucb_e), ("round robin", uniform))
        if figures is not None
    ]
    others = f" ({counted(n_training_models, 'other')} taught the predictor)" if n_training_models else ""
    what = (
        f"To name the best of {counted(n_arms, 'model')}{others} in {_percent(target)} of {counted(n_runs, 'replay')}"
    )
    if not shown:
        return f"{what} none of the compared policies has a reference here."
    return f"{what} {_join(shown)}, of {counted(n_cells, 'stored answer')}."


def _saving(
    pulse: PolicyFigures,
    ucb_e: PolicyFigures,
    n_runs: int,
    n_cells: int,
    first_sweep: int,
    residual_variance_ratio: float,
) -> str:
    if math.isnan(pulse.saving):
        return (
            f"No saving can be stated from {counted(n_runs, 'replay')}, because the accuracy asked for is "
            "not always reached."
        )
    has_limits = not (math.isnan(pulse.saving_lower) or math.isnan(pulse.saving_upper))
    limits = (
        f"90 % interval {_percent(pulse.saving_lower)} to {_percent(pulse.saving_upper)}"
        if has_limits
        else "its interval is open, since not every resample reaches the accuracy"
    )
    basis = f"saving against UCB-E {_percent(pulse.saving)}, {limits}, {counted(n_runs, 'replay')}"
    if has_limits and pulse.saving_lower > 0:
        text = (
            f"Predictions from other models save {_percent(pulse.saving)} against UCB-E ({limits}, "
            f"{counted(n_runs, 'replay')})"
        )
        if pulse.saving > 1 - residual_variance_ratio:
            text += "; what exceeds the ceiling is luck of these replays, or predictions that improve with more answers"
        return f"{text}."
    if not math.isnan(residual_variance_ratio) and residual_variance_ratio > 0.95:
        reason = f"they explain only {_percent(1 - residual_variance_ratio)} of the variance of the scores"
    elif ucb_e.pulls <= 1.5 * first_sweep:
        reason = f"UCB-E is done soon after the first sweep of {counted(first_sweep, 'call')}, which nobody can skip"
    elif ucb_e.pulls >= 0.9 * n_cells:
        reason = "the best models are so close that almost every answer is needed"
    else:
        return (
            f"No saving by prediction is shown ({basis}): {counted(n_runs, 'replay')} cannot tell the "
            "difference from none."
        )
    return f"Prediction saves nothing here ({basis}), because {reason}."


def _ceiling(residual_variance_ratio: float, pairing_ratio: float, first_sweep: int) -> str:
    text = (
        f"After 50 answers of a model predictions explain {_percent(1 - residual_variance_ratio)} of the variance of "
        "its other scores, about the most they can save"
    )
    if not math.isnan(pairing_ratio):
        text += (
            f"; asking the best models the same items saves {_percent(1 - pairing_ratio)} of a comparison's variance"
        )
    return f"{text}; the first sweep alone costs {counted(first_sweep, 'call')}."


def _certified(race: RaceFigures, n_runs: int) -> str:
    if race.n_certified == 0:
        return f"The certified race never ended within its calls ({counted(n_runs, 'replay')})."
    return (
        f"The certified race proved a best model in {race.n_certified} of {counted(n_runs, 'replay')} after "
        f"{_percent(race.median_share)} of all answers (median), {race.n_wrong} wrongly, at most "
        f"{_percent(race.delta)} allowed."
    )


def _calls(pulls: float, n_cells: int) -> str:
    return "never gets there" if math.isnan(pulls) else f"needs {counted(pulls, 'call')} ({_percent(pulls / n_cells)})"


def _percent(share: float) -> str:
    return true_minus(f"{100 * share:.0f} %")


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
