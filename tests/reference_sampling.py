"""Splits and sampled pairs in plain Python, as the specification words them: what the SQL is compared with.

Slow and plain on purpose. Keys are md5 over parts joined by chr(31), which no name holds.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SEPARATOR = chr(31)


def key(*parts: object) -> str:
    """Hex md5 of the parts."""
    return hashlib.md5(SEPARATOR.join(map(str, parts)).encode()).hexdigest()


def split_of(seed: int, benchmark: str, content: str, test_share: float = 0.2) -> tuple[str, str]:
    """(split, split_key) of an item; `content` is its content hash, or its id where it has no text."""
    split_key = key(seed, benchmark, content)
    return ("test" if int(split_key[:15], 16) / 16**15 < test_share else "train"), split_key


def sample_pairs(
    quality: pd.DataFrame, *, seed: int, benchmark: str, pairs_per_item: int = 7, tie_margin: float = 1e-9
) -> pd.DataFrame:
    """Sampled pairs of a frame of qualities, items x models (NaN missing), for up to 64 models."""
    models = sorted(quality.columns)
    values = quality[models].to_numpy(float)
    rows = []
    for position, item in enumerate(quality.index):
        candidates = []
        for a in range(len(models)):
            for b in range(a + 1, len(models)):
                gap = values[position, a] - values[position, b]
                if abs(gap) > tie_margin:  # False for NaN
                    candidates.append((key(seed, benchmark, item, models[a], models[b]), a, b, 1.0 if gap > 0 else 0.0))
        if len(candidates) < 2:
            continue
        for rank, (_, a, b, outcome) in enumerate(sorted(candidates)[:pairs_per_item]):
            rows.append((item, models[a], models[b], 0, outcome, rank, "scores"))
    return pd.DataFrame(
        rows, columns=["item_id", "model_a_id", "model_b_id", "draw", "outcome", "sample_rank", "source"]
    )


@dataclass(frozen=True)
class SampledBenchmark:
    """Frames as the stage reads them."""

    item_scores: pd.DataFrame
    items: pd.DataFrame
    item_splits: pd.DataFrame
    comparisons: pd.DataFrame


def sample_benchmark(folder: Path, *, seed: int = 0, pairs_per_item: int = 7) -> SampledBenchmark:
    """Read a canonical folder's items and results and derive what SQL would."""
    results, items = pd.read_parquet(folder / "results.parquet"), pd.read_parquet(folder / "items.parquet")
    scores = (
        results.groupby(["item_id", "model"], as_index=False)
        .agg(score=("score", "mean"), n_generations=("score", "count"))
        .rename(columns={"model": "model_id"})
    )
    scores["quality"] = scores["score"]
    benchmark = folder.name
    content = [p if isinstance(p, str) and p else i for p, i in zip(items["prompt"], items["item_id"], strict=True)]
    splits = [split_of(seed, benchmark, hashlib.sha256(c.encode()).hexdigest()) for c in content]
    item_splits = pd.DataFrame(
        {"item_id": items["item_id"], "split": [s for s, _ in splits], "split_key": [k for _, k in splits]}
    )
    wide = scores.pivot(index="item_id", columns="model_id", values="quality").sort_index()
    comparisons = sample_pairs(wide, seed=seed, benchmark=benchmark, pairs_per_item=pairs_per_item)
    comparisons = comparisons.merge(item_splits[["item_id", "split"]], on="item_id")
    for column in ("prompt", "category", "embedding"):
        if column not in items:
            items[column] = None
    return SampledBenchmark(scores, items, item_splits, comparisons.astype({"outcome": np.float64}))
