"""Replay of adaptive identification on the stored answers: how few would have named the best model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.stages import Part, StageResult, Verdict, stage_asset
from capeval_pipeline.stage_settings.identification import IdentificationSettings

if TYPE_CHECKING:
    from capeval_pipeline.arrays.score_block import ScoreBlock
    from capeval_pipeline.methods.identification.families import Split
    from capeval_pipeline.methods.identification.results import PolicySummary
    from capeval_pipeline.methods.identification.study import Predictor, StudyWorld

FULL_RUNS = 104
SOURCE = "simulations.identification_summary"


@stage_asset(
    stage="identification",
    tables=[
        "simulations.identification_runs",
        "simulations.identification_curves",
        "simulations.identification_summary",
        "simulations.identification_intervals",
        "simulations.identification_gap_classes",
    ],
    inputs=["intermediate.item_scores", "raw.models"],
    question="identification",
    uses_full=True,
)
def identification(part: Part, settings: IdentificationSettings) -> StageResult:
    """Replay allocation policies on a complete block of stored answers, many seeds each.

    Says how many calls each policy needs to name a best model, whether the intervals held, and what the predictions
    from other models save at most. Models are split by family: training models fit the predictor, the others are arms.
    """
    import numpy as np

    from capeval_pipeline.arrays.score_block import (
        curves_frame,
        encode_score_block,
        gap_classes_frame,
        intervals_frame,
        runs_frame,
        summary_frame,
    )
    from capeval_pipeline.methods.identification.gap_classes import GAP_POLICIES, gap_class_runs, run_gap_classes
    from capeval_pipeline.methods.identification.results import summarise
    from capeval_pipeline.methods.identification.study import plain_n_runs, run_study
    from capeval_pipeline.methods.identification.summaries import pairing_ratio, residual_variance_ratio

    try:
        block = encode_score_block(part.read("intermediate.item_scores"))
    except ValueError as error:  # of a range with an open side: what lies in a declared one is on 0 to 1
        raise StageSkipped(f"answers are compared on 0 to 1, and {error}") from error
    if not block.items or len(block.models) < 2:
        raise StageSkipped(
            "no complete block of at least 2 models and 1 item "
            f"({counted(len(block.models), 'model')} and {counted(len(block.items), 'item')} left; scores are missing "
            f"of {counted(block.n_models_dropped, 'model')} and {counted(block.n_items_dropped, 'item')})"
        )
    split, predictor, reason = _predictor(part, settings, block)
    policies, left_out = _policies(settings, part.is_full, predictor is not None)
    if not policies:
        raise StageSkipped(f"every policy asked for needs a predictor, and {reason}")
    world, n_arms = _world(settings, block, split, predictor)
    n_runs = settings.n_seeds or (FULL_RUNS if part.is_full else plain_n_runs(n_arms, len(block.items)))
    with part.executor() as pool:
        runs = run_study(world, policies, n_runs, pool)
        classes = run_gap_classes(
            world,
            [name for name in policies if name in GAP_POLICIES],
            target_accuracy=settings.target_accuracy,
            n_runs=FULL_RUNS if part.is_full else min(n_runs, gap_class_runs(n_arms, len(block.items))),
            executor=pool,
        )
    summaries = summarise(runs, world, target_accuracy=settings.target_accuracy)
    rng = np.random.default_rng([settings.seed, 1])
    residual = math.nan if predictor is None else residual_variance_ratio(world.scores, predictor, rng=rng)
    pairing = pairing_ratio(world.scores)
    models = [block.models[arm] for arm in split.arms]
    n_training_models = 0 if predictor is None else split.training.size
    sentence = _sentence(summaries, world, n_arms, settings, residual, pairing, left_out, reason, n_training_models)
    tables = {
        "simulations.identification_runs": runs_frame(runs, world, models),
        "simulations.identification_curves": curves_frame(runs, world),
        "simulations.identification_summary": summary_frame(
            summaries,
            target_accuracy=settings.target_accuracy,
            n_training_models=n_training_models,
            rank=None if predictor is None else predictor.prior_mean.size,
            residual_variance_ratio=residual,
            pairing_ratio=pairing,
        ),
        "simulations.identification_intervals": intervals_frame(runs, world),
    }
    if classes:
        tables["simulations.identification_gap_classes"] = gap_classes_frame(
            classes, n_items=len(block.items), target_accuracy=settings.target_accuracy
        )
    return StageResult(
        tables=tables,
        verdicts=[Verdict("identification", sentence, SOURCE)],
        numbers=_numbers(summaries, block, n_arms, n_runs, residual, pairing),
    )


def _predictor(part: Part, settings: IdentificationSettings, block: ScoreBlock) -> tuple[Split, Predictor | None, str]:
    """Split and predictor; None with the reason where there is too little to learn from, and then all may be arms."""
    import numpy as np

    from capeval_pipeline.arrays.score_block import look_alike_pairs, split_block
    from capeval_pipeline.methods.identification.families import MIN_ITEMS_FOR_PREDICTOR, MIN_TRAINING_MODELS, Split
    from capeval_pipeline.methods.identification.study import fit_predictor

    split = split_block(
        block,
        training_models=settings.training_models,
        arms=settings.arms,
        look_alikes=look_alike_pairs(part.read("raw.models")),
        seed=settings.seed,
    )
    families = split.families[split.training]
    reason = ""
    if split.training.size < MIN_TRAINING_MODELS:
        reason = (
            f"only {split.training.size} of {counted(len(block.models), 'model')} can be set aside to "
            "teach a predictor, "
            f"which needs {MIN_TRAINING_MODELS}"
        )
    elif np.unique(families).size < 2:
        reason = f"all models to learn from ({split.training.size}) are one family of near-duplicates"
    elif len(block.items) < MIN_ITEMS_FOR_PREDICTOR:
        reason = f"a predictor needs {MIN_ITEMS_FOR_PREDICTOR} items and the number of items is {len(block.items)}"
    if reason:
        # Nobody learns from the training side now, so its models need not be kept from the arms.
        if settings.arms is None and settings.training_models is None:
            split = Split(np.arange(0), np.arange(len(block.models)), split.families)
        predictor = None
    else:
        rng = np.random.default_rng([settings.seed, 0])
        predictor, _ = fit_predictor(
            block.scores[split.training], families, rng=rng, rank=settings.rank, l2=settings.l2
        )
    if split.arms.size < 2:
        raise StageSkipped(
            f"{counted(split.arms.size, 'model')} to choose from beside "
            f"{counted(split.training.size, 'training model')}; 2 are needed"
        )
    return split, predictor, reason


def _policies(settings: IdentificationSettings, is_full: bool, has_predictor: bool) -> tuple[list[str], list[str]]:
    """(policies that run, policies left out for want of a predictor)."""
    from capeval_pipeline.methods.identification.policies import PLAIN_POLICIES, POLICIES

    asked: tuple[str, ...] = settings.policies or (tuple(POLICIES) if is_full else PLAIN_POLICIES)
    left_out = [name for name in asked if POLICIES[name].needs_predictor and not has_predictor]
    return [name for name in asked if name not in left_out], left_out


def _world(
    settings: IdentificationSettings, block: ScoreBlock, split: Split, predictor: Predictor | None
) -> tuple[StudyWorld, int]:
    """What all runs share, and how many arms a run has."""
    import numpy as np

    from capeval_pipeline.methods.identification.arm_sets import choose_arms
    from capeval_pipeline.methods.identification.records import (
        ReplaySettings,
        default_batch,
        default_pull_budgets,
    )
    from capeval_pipeline.methods.identification.study import StudyWorld

    scores = block.scores[split.arms]
    try:
        arms = choose_arms(scores.mean(axis=1), settings.n_arms, settings.gap_range, np.random.default_rng(0))
    except ValueError as error:
        raise StageSkipped(str(error)) from error
    n_arms, n_items = arms.size, scores.shape[1]
    batch = settings.batch or default_batch(n_items)
    if settings.pull_budgets is None:
        budgets = default_pull_budgets(n_arms, n_items, batch)
    else:
        budgets = np.unique(np.array(settings.pull_budgets, dtype=np.int64))
    replay = ReplaySettings(
        batch=batch,
        pull_budgets=budgets,
        exploration=settings.exploration,
        pseudo_pairs=settings.pseudo_pairs,
        delta=settings.delta,
    )
    world = StudyWorld(
        scores,
        replay,
        n_arms=settings.n_arms,
        gap_range=settings.gap_range,
        predictor=predictor,
        seed=settings.seed,
    )
    return world, n_arms


def _sentence(
    summaries: tuple[PolicySummary, ...],
    world: StudyWorld,
    n_arms: int,
    settings: IdentificationSettings,
    residual: float,
    pairing: float,
    left_out: list[str],
    reason: str,
    n_training_models: int,
) -> str:
    from capeval_pipeline.reporting.verdicts.identification import (
        LeftOut,
        PolicyFigures,
        RaceFigures,
        identification_sentence,
    )

    by_name = {summary.policy: summary for summary in summaries}
    n_items = world.scores.shape[1]

    def figures(name: str) -> PolicyFigures | None:
        if name not in by_name:
            return None
        saving = by_name[name].saving
        return PolicyFigures(by_name[name].pulls.value, saving.value, saving.lower, saving.upper)

    race = None
    if "race" in by_name:
        own = by_name["race"]
        share = own.median_pulls_to_certificate / (n_arms * n_items)
        race = RaceFigures(own.n_certified, own.n_wrong_certificates, share, settings.delta)
    return identification_sentence(
        n_runs=summaries[0].n_runs,
        n_arms=n_arms,
        n_items=n_items,
        target_accuracy=settings.target_accuracy,
        first_sweep=n_arms * min(world.settings.batch, n_items),
        uniform=figures("uniform"),
        ucb_e=figures("ucb_e"),
        pulse=figures("pulse"),
        residual_variance_ratio=residual,
        pairing_ratio=pairing,
        race=race,
        left_out=LeftOut(left_out, reason),
        n_training_models=n_training_models,
    )


def _numbers(
    summaries: tuple[PolicySummary, ...],
    block: ScoreBlock,
    n_arms: int,
    n_runs: int,
    residual: float,
    pairing: float,
) -> dict[str, float | int]:
    """Figures worth a plot over time; unknown ones are left out."""
    numbers: dict[str, float | int] = {
        "n_runs": n_runs,
        "n_arms": n_arms,
        "n_items": len(block.items),
        "n_models_dropped": block.n_models_dropped,
        "n_items_dropped": block.n_items_dropped,
        "residual_variance_ratio": residual,
        "pairing_ratio": pairing,
    }
    for summary in summaries:
        numbers[f"pulls_for_target_{summary.policy}"] = summary.pulls.value
        if summary.policy == "pulse":
            numbers["saving_vs_ucb_e"] = summary.saving.value
    return {name: value for name, value in numbers.items() if not math.isnan(value)}
