"""Studies of shared benchmarks as the stage would make them, without the stage."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from capeval_pipeline.arrays.score_block import encode_score_block, split_block
from capeval_pipeline.methods.identification.records import ReplaySettings, default_batch, default_pull_budgets
from capeval_pipeline.methods.identification.results import PolicySummary, interval_points, summarise
from capeval_pipeline.methods.identification.study import PolicyRuns, StudyWorld, fit_predictor, run_study
from capeval_pipeline.methods.identification.summaries import pulls_for_target
from capeval_pipeline.stage_settings.identification import IdentificationSettings


def world_of(folder: Path, **changes: Any) -> StudyWorld:
    """The world its benchmark.yml configures, or that of the defaults, with some settings changed."""
    own = folder / "benchmark.yml"
    configured = yaml.safe_load(own.read_text())["identification"] if own.exists() else {}
    settings = IdentificationSettings(**(configured | changes))
    results = pd.read_parquet(folder / "results.parquet").rename(columns={"model": "model_id", "score": "quality"})
    block = encode_score_block(results.astype({"model_id": "str", "item_id": "str", "quality": float}))
    split = split_block(block, training_models=settings.training_models, arms=settings.arms)
    predictor, _ = fit_predictor(
        block.scores[split.training],
        split.families[split.training],
        rng=np.random.default_rng([settings.seed, 0]),
        rank=settings.rank,
        l2=settings.l2,
    )
    scores = block.scores[split.arms]
    n_arms, n_items = min(scores.shape[0], settings.n_arms), scores.shape[1]
    batch = settings.batch or default_batch(n_items)
    budgets = settings.pull_budgets or default_pull_budgets(n_arms, n_items, batch)
    replay = ReplaySettings(
        batch=batch,
        pull_budgets=np.array(budgets),
        exploration=settings.exploration,
        pseudo_pairs=settings.pseudo_pairs,
        delta=settings.delta,
    )
    return StudyWorld(scores, replay, n_arms=settings.n_arms, gap_range=settings.gap_range, predictor=predictor)


def study(
    folder: Path, policies: list[str], n_seeds: int = 104, **changes: Any
) -> tuple[StudyWorld, dict[str, PolicyRuns], dict[str, PolicySummary]]:
    """Some policies on the folder's world, paired by seed."""
    world = world_of(folder, **changes)
    runs = run_study(world, policies, n_seeds)
    return world, runs, {summary.policy: summary for summary in summarise(runs, world)}


def calls(runs: PolicyRuns, world: StudyWorld, target: float) -> float:
    return pulls_for_target(np.asarray(world.settings.pull_budgets, float), runs.hits.mean(axis=0), target)


def width(runs: PolicyRuns, world: StudyWorld, interval: str) -> float:
    points = interval_points(runs, world)
    return next(point.mean_width for point in points if (point.interval, point.n_answers) == (interval, 200))
