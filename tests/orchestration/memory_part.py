"""A benchmark's part held in memory, so that a stage's bodies run without a workspace."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from capeval_pipeline.orchestration.stages import StageAsset, StageResult, Verdict
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings
from capeval_pipeline.storage.conformity import conform, empty
from capeval_pipeline.storage.tables import TABLES
from tests.reference_sampling import sample_benchmark, sample_pairs, split_of

JUDGMENT_COLUMNS = ["item_id", "model_a_id", "model_b_id", "judge_id", "draw", "outcome"]
CACHE = Path(tempfile.mkdtemp(prefix="capeval-vectors-"))
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)


@dataclass
class MemoryPart:
    """A benchmark's part held in memory: what steps return goes through the contract, as in the lake."""

    tables: dict[str, pa.Table]
    verdicts: list[Verdict] = field(default_factory=list)
    benchmark_id: str = "small"
    benchmark: dict[str, Any] = field(
        default_factory=lambda: {"score_low": 0.0, "score_high": 1.0, "higher_is_better": True}
    )

    def arrow(self, key: str) -> pa.Table:
        if key == "intermediate.item_stats" and key not in self.tables:
            return pa.table({"tie_margin": pa.array([], pa.float64())})
        return self.tables[key] if key in self.tables else empty(TABLES[key])

    def read(self, key: str) -> pd.DataFrame:
        return self.arrow(key).to_pandas()

    @property
    def cache_dir(self) -> Path:
        return CACHE

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        with ThreadPoolExecutor(2) as pool:
            yield pool

    def run(self, step: StageAsset, settings: CapabilitiesSettings) -> StageResult:
        result = step.body(self, settings)  # type: ignore[arg-type]
        self.verdicts += result.verdicts
        for key in step.tables:
            self.tables[key] = conform(TABLES[key], result.tables.get(key, empty(TABLES[key])), self.benchmark_id)
        return result


def part_of(folder: Path, *, n_items: int | None = None) -> MemoryPart:
    sampled = sample_benchmark(folder)
    chosen = sorted(sampled.items["item_id"])[:n_items]

    def kept(frame: pd.DataFrame) -> pa.Table:
        return pa.Table.from_pandas(frame[frame["item_id"].isin(chosen)], preserve_index=False)

    scores = sampled.item_scores.assign(cost_usd=np.nan)
    return MemoryPart(
        {
            "intermediate.item_scores": kept(scores),
            "intermediate.item_splits": kept(sampled.item_splits),
            "intermediate.comparisons": kept(sampled.comparisons),
            "staging.stg_items": kept(sampled.items),
            "staging.stg_judgments": pa.Table.from_pandas(pd.DataFrame(columns=JUDGMENT_COLUMNS).astype(str)),
        }
    )


def part_of_scores(quality: np.ndarray, prompts: Sequence[str | None], *, tie_margin: float = 1e-9) -> MemoryPart:
    """A benchmark `small` of items q000, q001, ... and models m00, m01, ..., NaN for a missing cell."""
    items = [f"q{q:03d}" for q in range(len(quality))]
    wide = pd.DataFrame(quality, index=items, columns=[f"m{m:02d}" for m in range(quality.shape[1])])
    wide.index.name, wide.columns.name = "item_id", "model_id"
    scores = wide.stack().rename("quality").dropna().reset_index()
    scores = scores.assign(score=scores["quality"], cost_usd=np.nan)
    content = [prompt or item for prompt, item in zip(prompts, items, strict=True)]
    splits = pd.DataFrame([split_of(0, "small", text) for text in content], columns=["split", "split_key"])
    splits.insert(0, "item_id", items)
    votes = sample_pairs(wide, seed=0, benchmark="small", tie_margin=tie_margin)
    votes = votes.merge(splits[["item_id", "split"]], on="item_id").astype({"outcome": np.float64})
    texts = {"item_id": items, "prompt": list(prompts), "category": [None] * len(items)}
    schema = pa.schema({"item_id": pa.string(), "prompt": pa.string(), "category": pa.string()})
    frames = {
        "intermediate.item_scores": scores,
        "intermediate.item_splits": splits,
        "intermediate.comparisons": votes,
        "intermediate.item_stats": pd.DataFrame({"item_id": items, "tie_margin": tie_margin}),
        "staging.stg_judgments": pd.DataFrame(columns=JUDGMENT_COLUMNS).astype(str),
    }
    tables = {key: pa.Table.from_pandas(frame, preserve_index=False) for key, frame in frames.items()}
    silent = pa.nulls(len(items), pa.list_(pa.float64()))
    tables["staging.stg_items"] = pa.table(texts, schema=schema).append_column("embedding", silent)
    return MemoryPart(tables)
