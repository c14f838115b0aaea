"""Scored answers -> an array of draws with its labels, and which models take part in the frontier.

One set of models for every oracle and frontier figure: who has too few known costs or draws is left out by name.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EncodedGenerations:
    """scores, cost_usd, latency_s : (n_items, n_models, n_generations), NaN where there is none; None: unknown.

    categories : (n_items,) text or None; left_out : 'model: reason'; n_items_left_out : items no model has enough
    draws of. With one draw a cell there is one generation, the mean of a cell's draws.
    reasons : model → why it is left out of everything; latency_reasons : model → why it is left out where latency is
    the cost (it has no latency there, NaN in latency_s, but takes part in all else)
    """

    items: list[str]
    models: list[str]
    scores: FloatArray
    cost_usd: FloatArray | None
    latency_s: FloatArray | None
    categories: NDArray[np.object_]
    reasons: dict[str, str]
    latency_reasons: dict[str, str]
    n_items_left_out: int

    @property
    def left_out(self) -> list[str]:
        """'model: reason' of everyone left out, in the order of the models."""
        return [f"{model}: {reason}" for model, reason in self.reasons.items()]


def encode_generations(
    generations: pd.DataFrame, items: pd.DataFrame | None = None, *, max_missing_share: float = 0.05
) -> EncodedGenerations:
    """Spread staging.stg_generations over items x models x generations; rows without a quality count nowhere.

    generations : item_id, model_id, generation_id, quality, cost_usd, latency_s
    items : item_id, category of staging.stg_items
    max_missing_share : a model is left out where more of its items lack a cost, or have fewer than two draws, unless
        that holds for (nearly) every model: then there are no costs, or one draw a cell

    Labels are in text order, so the order of rows cannot matter. Raises ValueError where no model has a score.
    """
    scored = generations[generations["quality"].notna()]
    if scored.empty:
        raise ValueError("no answer has a score")
    item_codes, item_ids = _codes(scored["item_id"])
    model_codes, model_ids = _codes(scored["model_id"])
    generation_ids, generation_codes = np.unique(scored["generation_id"].to_numpy(np.int64), return_inverse=True)
    shape = (len(item_ids), len(model_ids), len(generation_ids))
    flat = (item_codes * shape[1] + model_codes) * shape[2] + generation_codes
    scores, cost, latency = (_spread(scored[name], flat, shape) for name in ("quality", "cost_usd", "latency_s"))
    keeps, has_costs, has_several, reasons = _who_takes_part(scores, cost, model_ids, max_missing_share)
    scores, cost, latency = scores[:, keeps], cost[:, keeps], latency[:, keeps]
    if not has_several:
        scores, cost, latency = (_cell_means(values) for values in (scores, cost, latency))
    n_draws = (~np.isnan(scores)).sum(axis=2)
    kept_items = (n_draws >= (2 if has_several else 1)).any(axis=1)
    kept_ids = [item for item, keep in zip(item_ids, kept_items, strict=True) if keep]
    models = [model for model, keep in zip(model_ids, keeps, strict=True) if keep]
    latency, latency_reasons = _with_latency(latency, n_draws, models, max_missing_share)
    return EncodedGenerations(
        items=kept_ids,
        models=models,
        scores=scores[kept_items],
        cost_usd=cost[kept_items] if has_costs else None,
        latency_s=latency[kept_items] if len(models) - len(latency_reasons) >= 2 else None,
        categories=_categories(items, kept_ids),
        reasons=reasons,
        latency_reasons=latency_reasons,
        n_items_left_out=int((~kept_items).sum()),
    )


def _codes(labels: pd.Series) -> tuple[NDArray[np.int64], list[str]]:
    codes, unique = pd.factorize(labels)
    names = [str(name) for name in unique]
    order = sorted(range(len(names)), key=names.__getitem__)
    position = np.empty(len(names), dtype=np.int64)
    position[order] = np.arange(len(names))
    return position[codes], [names[index] for index in order]


def _spread(values: pd.Series, flat: NDArray[np.int64], shape: tuple[int, int, int]) -> FloatArray:
    spread = np.full(shape, np.nan)
    spread.reshape(-1)[flat] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return spread


def _who_takes_part(
    scores: FloatArray, cost: FloatArray, models: list[str], max_missing_share: float
) -> tuple[NDArray[np.bool_], bool, bool, dict[str, str]]:
    """Models kept, whether there are costs, whether there are several draws, and model → reason of the others."""
    n_draws = (~np.isnan(scores)).sum(axis=2)
    n_items = np.maximum((n_draws > 0).sum(axis=0), 1)
    has_cost = (~np.isnan(cost) & ~np.isnan(scores)).any(axis=2)
    without_cost = ((n_draws > 0) & ~has_cost).sum(axis=0) / n_items
    with_one_draw = (n_draws == 1).sum(axis=0) / n_items
    lacks_cost, lacks_draws = without_cost > max_missing_share, with_one_draw > max_missing_share
    # A frontier needs two models: where fewer have costs (or draws) the benchmark counts as having none.
    has_costs = int((~lacks_cost).sum()) >= min(2, len(models))
    if not has_costs:
        lacks_cost[:] = False
    has_several = int((~lacks_draws & ~lacks_cost).sum()) >= min(2, int((~lacks_cost).sum()))
    if not has_several:
        lacks_draws[:] = False
    left_out = {}
    for index, model in enumerate(models):
        reasons = []
        if lacks_cost[index]:
            reasons.append(f"no cost on {100 * without_cost[index]:.0f} % of its items")
        if lacks_draws[index]:
            reasons.append(f"fewer than 2 draws on {100 * with_one_draw[index]:.0f} % of its items")
        if reasons:
            left_out[model] = ", ".join(reasons)
    return ~(lacks_cost | lacks_draws), has_costs, has_several, left_out


def _cell_means(values: FloatArray) -> FloatArray:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=2)
    return np.where(known.any(axis=2), total / np.maximum(known.sum(axis=2), 1), np.nan)[:, :, None]


def _with_latency(
    latency: FloatArray, n_draws: NDArray[np.int64], models: list[str], max_missing_share: float
) -> tuple[FloatArray, dict[str, str]]:
    """Latency of the models that have it on nearly all of their items, NaN for the others; model → share lacking."""
    lacking = ((n_draws > 0) & np.isnan(latency).all(axis=2)).sum(axis=0) / np.maximum((n_draws > 0).sum(axis=0), 1)
    is_out = lacking > max_missing_share
    reasons = {
        model: f"no latency on {100 * share:.0f} % of its items"
        for model, share, out in zip(models, lacking, is_out, strict=True)
        if out
    }
    return np.where(is_out[None, :, None], np.nan, latency), reasons


def _categories(items: pd.DataFrame | None, item_ids: list[str]) -> NDArray[np.object_]:
    if items is None or items.empty:
        return np.full(len(item_ids), None, dtype=object)
    known = dict(zip(items["item_id"].astype(object), items["category"].astype(object), strict=True))
    return np.array([known.get(item) if isinstance(known.get(item), str) else None for item in item_ids], dtype=object)


def encode_responsibilities(
    responsibilities: pd.DataFrame, splits: pd.DataFrame, items: list[str]
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """Responsibilities of one method over `items`.

    responsibilities : item_id, cluster_id, responsibility; splits : item_id, split of intermediate.item_splits

    Returns (n_known, n_clusters) for the items that have any, and over all items: is_test, has any.
    """
    position = {item: index for index, item in enumerate(items)}
    rows = responsibilities["item_id"].map(position)
    inside = rows.notna()
    clusters = responsibilities["cluster_id"].to_numpy(np.int64)
    table = np.zeros((len(items), int(clusters.max()) + 1))
    table[rows[inside].to_numpy(np.int64), clusters[inside.to_numpy()]] = responsibilities["responsibility"][
        inside
    ].to_numpy(np.float64)
    known = table.sum(axis=1) > 0
    tests = set(splits.loc[splits["split"] == "test", "item_id"])
    return table[known], np.array([item in tests for item in items]), known
