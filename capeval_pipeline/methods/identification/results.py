"""What a policy's runs add up to: one summary, one curve, one table of intervals a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capeval_pipeline.methods.identification.intervals import INTERVALS
from capeval_pipeline.methods.identification.records import IntArray
from capeval_pipeline.methods.identification.study import (
    N_ARM_RUNS,
    N_MISSED,
    WIDTH_SUM,
    PolicyRuns,
    StudyWorld,
)
from capeval_pipeline.methods.identification.summaries import (
    Interval,
    bootstrap_counts,
    pulls_with_interval,
    saving_with_interval,
    standardised_mean,
    wilson_interval,
)

REFERENCE_POLICY = "ucb_e"
# Told beside the calls for the target: at 95 % few seeds decide.
LOWER_TARGET = 0.9
# Keeps the resampling apart from the seeds of the runs, which are small.
_BOOTSTRAP_STREAM = 2**31 - 1


@dataclass(frozen=True)
class PolicySummary:
    """Figures of one policy; NaN where one does not exist for it.

    pulls, pulls_90 : calls for the target accuracy, and for 90 %; saving : against UCB-E
    coverage : share of runs without any violation of the reported interval, with its lower Wilson limit
    n_certified : runs that ended with a certificate; seconds_per_run : median of the replays alone
    """

    policy: str
    n_runs: int
    mean_error: float
    pulls: Interval
    pulls_90: Interval
    saving: Interval
    coverage_simultaneous: float
    coverage_lower: float
    mean_interval_width: float
    bias_z: float
    seconds_per_run: float
    n_certified: int
    n_wrong_certificates: int
    median_pulls_to_certificate: float
    bonus: str
    interval: str


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy at a budget with its 95 % Wilson limits."""

    policy: str
    pull_budget: int
    accuracy: float
    lower: float
    upper: float
    n_runs: int


@dataclass(frozen=True)
class IntervalPoint:
    """Mean width after `n_answers` answers, and the share of arm-runs that missed at any count up to there."""

    policy: str
    interval: str
    n_answers: int
    mean_width: float
    miss_any_time: float
    n_arm_runs: int


def summarise(
    runs: Mapping[str, PolicyRuns], world: StudyWorld, *, target_accuracy: float = 0.95
) -> tuple[PolicySummary, ...]:
    """One summary a policy; all are resampled with the same seeds, so savings are paired."""
    budgets: IntArray = np.asarray(world.settings.pull_budgets)
    summaries = []
    for name, policy_runs in runs.items():
        hits = policy_runs.hits
        rng = np.random.default_rng([world.seed, _BOOTSTRAP_STREAM])
        weights = bootstrap_counts(rng, hits.shape[0])
        saving = Interval(math.nan, math.nan, math.nan)
        if REFERENCE_POLICY in runs and name != REFERENCE_POLICY:
            saving = saving_with_interval(hits, runs[REFERENCE_POLICY].hits, budgets, target_accuracy, weights)
        checked = [run for run in policy_runs.runs if run.n_missed_arms >= 0]
        n_covered = sum(run.n_missed_arms == 0 for run in checked)
        certificates = [run.pulls_to_certificate for run in policy_runs.runs if run.pulls_to_certificate >= 0]
        errors = np.array([run.step_error_sum for run in policy_runs.runs])
        reported = [
            point
            for point in interval_points(policy_runs, world)
            if point.interval == policy_runs.policy.interval and point.n_answers == world.reported_count
        ]
        summaries.append(
            PolicySummary(
                policy=name,
                n_runs=hits.shape[0],
                mean_error=policy_runs.mean_error,
                pulls=pulls_with_interval(hits, budgets, target_accuracy, weights),
                pulls_90=pulls_with_interval(hits, budgets, LOWER_TARGET, weights),
                saving=saving,
                coverage_simultaneous=n_covered / len(checked) if checked else math.nan,
                coverage_lower=wilson_interval(n_covered, len(checked))[0] if checked else math.nan,
                mean_interval_width=reported[0].mean_width if reported else math.nan,
                bias_z=standardised_mean(errors) if policy_runs.policy.has_single_steps else math.nan,
                seconds_per_run=float(np.median([run.seconds for run in policy_runs.runs])),
                n_certified=len(certificates),
                n_wrong_certificates=sum(run.is_certificate_wrong for run in policy_runs.runs),
                median_pulls_to_certificate=float(np.median(certificates)) if certificates else math.nan,
                bonus=policy_runs.policy.bonus,
                interval=policy_runs.policy.interval,
            )
        )
    return tuple(summaries)


def curve_points(policy_runs: PolicyRuns, world: StudyWorld) -> tuple[CurvePoint, ...]:
    """Accuracy of a policy at every budget of the study."""
    hits = policy_runs.hits
    n_runs = hits.shape[0]
    return tuple(
        CurvePoint(
            policy_runs.policy.name, int(budget), n_hits / n_runs, *wilson_interval(int(n_hits), n_runs), n_runs=n_runs
        )
        for budget, n_hits in zip(world.settings.pull_budgets, hits.sum(axis=0).tolist(), strict=True)
    )


def interval_points(policy_runs: PolicyRuns, world: StudyWorld) -> tuple[IntervalPoint, ...]:
    """Widths and misses of all intervals, from the runs in which all were computed; only counts that were reached."""
    sums = [run.interval_sums for run in policy_runs.runs if run.interval_sums.size]
    if not sums:
        return ()
    total = np.sum(sums, axis=0)
    return tuple(
        IntervalPoint(
            policy=policy_runs.policy.name,
            interval=interval,
            n_answers=count,
            mean_width=float(total[i, place, WIDTH_SUM] / total[i, place, N_ARM_RUNS]),
            miss_any_time=float(total[i, place, N_MISSED] / total[i, place, N_ARM_RUNS]),
            n_arm_runs=int(total[i, place, N_ARM_RUNS]),
        )
        for i, interval in enumerate(INTERVALS)
        for place, count in enumerate(world.interval_counts)
        if total[i, place, N_ARM_RUNS] > 0
    )
