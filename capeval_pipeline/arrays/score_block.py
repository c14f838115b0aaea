"""Item scores <-> a complete block of models and items, its split into training models and arms, the study's tables.

A replay needs every cell it may ask for, so models with holes go first, then items that not every model left answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capeval_pipeline.arrays.score_matrix import encode_score_matrix
from capeval_pipeline.methods.identification.families import Split, near_duplicate_families, split_by_family
from capeval_pipeline.methods.identification.gap_classes import GapClass
from capeval_pipeline.methods.identification.results import (
    CurvePoint,
    IntervalPoint,
    PolicySummary,
    curve_points,
    interval_points,
)
from capeval_pipeline.methods.identification.study import PolicyRuns, StudyWorld

FloatArray = npt.NDArray[np.float64]

MAX_MISSING_SHARE = 0.02
SCORE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ScoreBlock:
    """Complete scores with their labels.

    scores : (n_models, n_items) in [0, 1], larger is better; models, items : labels in text order
    n_models_dropped, n_items_dropped : left out, so that no cell is missing
    """

    scores: FloatArray
    models: list[str]
    items: list[str]
    n_models_dropped: int
    n_items_dropped: int


def encode_score_block(item_scores: pd.DataFrame, *, max_missing_share: float = MAX_MISSING_SHARE) -> ScoreBlock:
    """Largest complete block by the rule: drop models with more than 2 % of cells missing, then items with holes.

    item_scores : columns item_id, model_id, quality (0…1, larger is better); a null quality is a missing cell.
    An empty frame gives an empty block. Raises ValueError for quality outside [0, 1], naming the first such cell.
    """
    matrix = encode_score_matrix(item_scores)
    values = matrix.values.T
    outside = (values < -SCORE_TOLERANCE) | (values > 1 + SCORE_TOLERANCE)
    if outside.any():
        model, item = (int(place) for place in np.argwhere(outside)[0])
        raise ValueError(
            f"item_scores: quality {values[model, item]:g} for item_id={matrix.items[item]!r}, "
            f"model_id={matrix.models[model]!r}; expected 0 to 1 (declare score_range)"
        )
    is_missing = np.isnan(values)
    keep_models = np.flatnonzero(is_missing.mean(axis=1) <= max_missing_share) if values.size else np.arange(0)
    keep_items = np.flatnonzero(~is_missing[keep_models].any(axis=0)) if keep_models.size else np.arange(0)
    return ScoreBlock(
        scores=np.clip(np.ascontiguousarray(values[np.ix_(keep_models, keep_items)]), 0.0, 1.0),
        models=[matrix.models[i] for i in keep_models],
        items=[matrix.items[i] for i in keep_items],
        n_models_dropped=len(matrix.models) - keep_models.size,
        n_items_dropped=len(matrix.items) - keep_items.size,
    )


def split_block(
    block: ScoreBlock,
    *,
    training_models: Sequence[str] | None,
    arms: Sequence[str] | None,
    look_alikes: Iterable[tuple[str, str]] = (),
    seed: int = 0,
) -> Split:
    """Training models and arms of a block: as named, else by family; models named on neither side are left out.

    Where only one side is named, the other is every model left, but for families of the named ones.
    Raises ValueError for a named model that the block does not have, or one named on both sides.
    """
    place = {model: i for i, model in enumerate(block.models)}
    pairs = [(place[a], place[b]) for a, b in look_alikes if a in place and b in place]
    families = near_duplicate_families(block.scores, pairs)
    named = {}
    for side, names in (("training_models", training_models), ("arms", arms)):
        if names is None:
            continue
        unknown = [name for name in names if name not in place]
        if unknown:
            raise ValueError(f"identification.{side}: {unknown[0]!r} has no complete row of scores")
        named[side] = np.unique(np.array([place[name] for name in names], dtype=np.int64))
    if len(named) == 2:
        both = np.intersect1d(named["training_models"], named["arms"])
        if both.size:
            raise ValueError(f"identification: {block.models[both[0]]!r} is named as training model and as arm")
        return Split(named["training_models"], named["arms"], families)
    if named:
        own = next(iter(named.values()))
        others = np.flatnonzero(~np.isin(families, families[own]))
        return Split(own, others, families) if "training_models" in named else Split(others, own, families)
    return split_by_family(families, block.models, seed=seed)


def look_alike_pairs(models: pd.DataFrame) -> list[tuple[str, str]]:
    """(model, its declared look-alike) of raw.models."""
    if "look_alike_of" not in models:
        return []
    known = models.loc[models["look_alike_of"].notna(), ["model_id", "look_alike_of"]]
    return [(str(model), str(other)) for model, other in known.itertuples(index=False)]


def runs_frame(runs: Mapping[str, PolicyRuns], world: StudyWorld, models: Sequence[str]) -> pd.DataFrame:
    """simulations.identification_runs; `models` are the labels of the world's rows."""
    rows = []
    for name, policy_runs in runs.items():
        for run in policy_runs.runs:
            last = int(run.recommended[-1])
            rows.append(
                {
                    "policy": name,
                    "seed": run.run,
                    "n_arms": run.n_arms,
                    "n_items": world.scores.shape[1],
                    "best_gap": run.best_gap,
                    "pull_budget": int(world.settings.pull_budgets[-1]),
                    "recommended_model_id": models[last] if last >= 0 else None,
                    "is_correct": bool(run.is_hit[-1]),
                    "pulls_to_certificate": run.pulls_to_certificate if run.pulls_to_certificate >= 0 else None,
                }
            )
    frame = pd.DataFrame(rows)
    return frame.astype({"pulls_to_certificate": "Int64"})


def curves_frame(runs: Mapping[str, PolicyRuns], world: StudyWorld) -> pd.DataFrame:
    """simulations.identification_curves."""
    points: list[CurvePoint] = [point for own in runs.values() for point in curve_points(own, world)]
    return pd.DataFrame([asdict(point) for point in points])


def intervals_frame(runs: Mapping[str, PolicyRuns], world: StudyWorld) -> pd.DataFrame:
    """simulations.identification_intervals."""
    points: list[IntervalPoint] = [point for own in runs.values() for point in interval_points(own, world)]
    columns = list(IntervalPoint.__dataclass_fields__)
    return pd.DataFrame([asdict(point) for point in points], columns=columns)


def summary_frame(
    summaries: Sequence[PolicySummary],
    *,
    target_accuracy: float,
    n_training_models: int,
    rank: int | None,
    residual_variance_ratio: float,
    pairing_ratio: float,
) -> pd.DataFrame:
    """simulations.identification_summary; NaN where a figure does not exist, which the lake keeps as NULL."""
    rows = [
        {
            "policy": summary.policy,
            "pulls_for_target": summary.pulls.value,
            "target_accuracy": target_accuracy,
            "saving_vs_ucb_e": summary.saving.value,
            "coverage_simultaneous": summary.coverage_simultaneous,
            "coverage_lower": summary.coverage_lower,
            "mean_interval_width": summary.mean_interval_width,
            "bias_z": summary.bias_z,
            "seconds_per_run": summary.seconds_per_run,
            "n_runs": summary.n_runs,
            "n_training_models": n_training_models,
            "rank": rank,
            "bonus": summary.bonus,
            "interval": summary.interval or None,
            "mean_error": summary.mean_error,
            "pulls_lower": summary.pulls.lower,
            "pulls_upper": summary.pulls.upper,
            "pulls_for_90": summary.pulls_90.value,
            "pulls_90_lower": summary.pulls_90.lower,
            "pulls_90_upper": summary.pulls_90.upper,
            "saving_lower": summary.saving.lower,
            "saving_upper": summary.saving.upper,
            "residual_variance_ratio": residual_variance_ratio,
            "pairing_ratio": pairing_ratio,
            "n_certified": summary.n_certified,
            "n_wrong_certificates": summary.n_wrong_certificates,
        }
        for summary in summaries
    ]
    return pd.DataFrame(rows).astype({"rank": "Int64"})


def gap_classes_frame(classes: Sequence[GapClass], *, n_items: int, target_accuracy: float) -> pd.DataFrame:
    """simulations.identification_gap_classes; NaN where a figure does not exist."""
    rows = [
        {
            "gap_class": own.name,
            "policy": own.summary.policy,
            "n_runs": own.summary.n_runs,
            "n_arms": own.n_arms,
            "n_items": n_items,
            "smallest_gap": float(own.gaps.min()),
            "median_gap": float(np.median(own.gaps)),
            "mean_error": own.summary.mean_error,
            "target_accuracy": target_accuracy,
            "pulls_for_target": own.summary.pulls.value,
            "pulls_lower": own.summary.pulls.lower,
            "pulls_upper": own.summary.pulls.upper,
            "saving_vs_ucb_e": own.summary.saving.value,
            "saving_lower": own.summary.saving.lower,
            "saving_upper": own.summary.saving.upper,
            "n_certified": own.summary.n_certified,
            "n_wrong_certificates": own.summary.n_wrong_certificates,
            "median_pulls_to_certificate": own.summary.median_pulls_to_certificate,
            "mean_certificate_share": float(own.certificate_shares.mean()) if own.certificate_shares.size else np.nan,
        }
        for own in classes
    ]
    return pd.DataFrame(rows)
