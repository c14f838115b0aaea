"""How hard a benchmark is when its two best models are so and so close: replays on resampled subsets of its own models.

A benchmark has one gap between its two best models, so its own study tells one difficulty. Subsets of its models have
other gaps: for each class of gaps, every run draws a subset whose two best lie that far apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from capeval_pipeline.methods.identification.arm_sets import choose_arms
from capeval_pipeline.methods.identification.records import FloatArray, default_pull_budgets
from capeval_pipeline.methods.identification.results import PolicySummary, summarise
from capeval_pipeline.methods.identification.study import StudyWorld, plain_n_runs, run_study

# Name, smallest gap, and the gap at which the next class begins.
GAP_CLASSES = (
    ("<.005", 0.0, 0.005),
    (".005–.01", 0.005, 0.01),
    (".01–.02", 0.01, 0.02),
    (".02–.04", 0.02, 0.04),
    ("≥.04", 0.04, 1.0 + 1e-6),
)
# What a reader compares; the others are in the study of the benchmark's own arms.
GAP_POLICIES = ("uniform", "ucb_e", "pulse", "successive_rejects_shared", "race")
_BELOW = 1e-9  # a class ends just below the next


@dataclass(frozen=True)
class GapClass:
    """Replays of one policy on subsets whose two best are in one class.

    n_arms : models of a subset; gaps : (n_runs,) best minus second mean of each run
    certificate_shares : (n_certified,) of a subset's answers read until the certificate
    """

    name: str
    n_arms: int
    gaps: FloatArray
    certificate_shares: FloatArray
    summary: PolicySummary


def gap_class_runs(n_arms: int, n_items: int) -> int:
    """Runs a class and policy of a plain study: all classes together cost about as much as one study of a policy."""
    return plain_n_runs(len(GAP_CLASSES) * subset_size(n_arms, n_items), n_items)


def subset_size(n_arms: int, n_items: int) -> int:
    """Models of a subset: 8 to 24 by size, at most half of those there are, at least 2."""
    return max(2, min(24, max(8, 24_000 // n_items), n_arms // 2))


def run_gap_classes(
    world: StudyWorld,
    policies: Sequence[str],
    *,
    target_accuracy: float,
    n_runs: int,
    executor: Executor | None = None,
) -> tuple[GapClass, ...]:
    """Replay `policies`, `n_runs` a class, on subsets of the world's models; classes no subset is in are left out."""
    if not policies:
        return ()
    n_models, n_items = world.scores.shape
    size = subset_size(min(n_models, world.n_arms), n_items)
    settings = replace(world.settings, pull_budgets=default_pull_budgets(size, n_items, world.settings.batch))
    means = world.scores.mean(axis=1)
    classes: list[GapClass] = []
    for name, low, following in GAP_CLASSES:
        gap_range = (low, following - _BELOW)
        try:
            n_arms = choose_arms(means, size, gap_range, np.random.default_rng(0)).size
        except ValueError:
            continue
        subsets = replace(world, n_arms=size, gap_range=gap_range, settings=settings)
        runs = run_study(subsets, policies, n_runs, executor)
        for summary in summarise(runs, subsets, target_accuracy=target_accuracy):
            own = runs[summary.policy].runs
            shares = [run.pulls_to_certificate / (run.n_arms * n_items) for run in own if run.pulls_to_certificate >= 0]
            gaps = np.array([run.best_gap for run in own])
            classes.append(GapClass(name, n_arms, gaps, np.array(shares), summary))
    return tuple(classes)
