"""The replay study: many runs of many policies on stored scores, and what they add up to.

Run s draws its arms and orders from default_rng([seed, s]) alone: the same for every policy (so policies are paired),
every executor and every number of workers. Chunks of (policy, seeds) go to the executor; kernels release the GIL.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from capeval_pipeline.methods.identification import intervals
from capeval_pipeline.methods.identification.arm_sets import best_gap_of, choose_arms
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import (
    FloatArray,
    IntArray,
    Policy,
    Predictor,
    ReplaySettings,
    default_batch,
    default_pull_budgets,
    make_draws,
)
from capeval_pipeline.methods.identification.replay import Replay, replay_policy
from capeval_pipeline.methods.identification.summaries import BoolArray
from capeval_pipeline.methods.item_factors import RANK_CHOICES, RankChoice, choose_rank, fit_item_factors

# Limits of all four intervals at many counts cost more than the replay; this many runs say enough about widths.
N_INTERVAL_SEEDS = 8
INTERVAL_COUNTS = (25, 50, 100, 200, 400, 800, 1600)
REPORTED_COUNT = 200
# Columns of interval_sums: sum of widths, arm-runs that missed up to the count, arm-runs.
WIDTH_SUM, N_MISSED, N_ARM_RUNS = 0, 1, 2


@dataclass(frozen=True)
class StudyWorld:
    """What every run of a study shares; plain arrays, so that it travels to other processes.

    scores : (n_models, n_items) of the models that may be arms, ascending by model id
    n_arms, gap_range : arms of a run, see `choose_arms`
    """

    scores: FloatArray
    settings: ReplaySettings
    n_arms: int
    gap_range: tuple[float, float] | None = None
    predictor: Predictor | None = None
    seed: int = 0

    @property
    def interval_counts(self) -> tuple[int, ...]:
        """Numbers of answers at which widths are taken; the reported one among them."""
        n_items = self.scores.shape[1]
        counts = {count for count in INTERVAL_COUNTS if count < n_items}
        return tuple(sorted(counts | {self.reported_count}))

    @property
    def reported_count(self) -> int:
        n_items = self.scores.shape[1]
        return REPORTED_COUNT if n_items > REPORTED_COUNT else max(1, n_items // 2)


@dataclass(frozen=True)
class RunRecord:
    """One run of one policy.

    recommended, is_hit : (n_budgets,); the model index recommended at each budget, -1 before the first answer
    pulls_to_certificate : -1 when none was made
    n_missed_arms : arms whose reported interval ever left out the mean; -1 where the policy makes no such interval
    step_error_sum : sum of theta - mu over all draws; NaN without single-step estimates
    interval_sums : (n_intervals, n_counts, 3), empty for runs whose intervals were not all computed
    seconds : wall time of the replay alone
    """

    policy: str
    run: int
    n_arms: int
    best_gap: float
    recommended: IntArray
    is_hit: BoolArray
    pulls_to_certificate: int
    is_certificate_wrong: bool
    n_missed_arms: int
    step_error_sum: float
    interval_sums: FloatArray
    seconds: float


@dataclass(frozen=True)
class PolicyRuns:
    """All runs of one policy, in the order of their seeds."""

    policy: Policy
    runs: tuple[RunRecord, ...] = field(repr=False)

    @property
    def hits(self) -> BoolArray:
        """(n_runs, n_budgets)."""
        return np.array([run.is_hit for run in self.runs])

    @property
    def mean_error(self) -> float:
        """1 - accuracy averaged over the budgets."""
        return float(1.0 - self.hits.mean())


def fit_predictor(
    scores: FloatArray,
    families: IntArray,
    *,
    rng: np.random.Generator,
    rank: int | None = None,
    l2: float = 1.0,
) -> tuple[Predictor, RankChoice]:
    """Item factors of training models (n_training, n_items), the rank chosen by held-out families unless given."""
    choice = choose_rank(scores, families, rng=rng, ranks=RANK_CHOICES if rank is None else (rank,), l2=l2)
    fit = fit_item_factors(scores, rank=choice.rank, l2=l2)
    return Predictor(fit.item_factors, fit.prior_mean, l2, choice.moments), choice


def plain_n_runs(n_arms: int, n_items: int) -> int:
    """Runs of a plain study, from sizes alone: about 3 million calls a policy, at least 32 runs, at most 104."""
    return int(min(104, max(32, 3_000_000 // max(1, n_arms * n_items))))


def run_study(
    world: StudyWorld, policies: Sequence[str], n_runs: int, executor: Executor | None = None, *, n_chunks: int = 8
) -> dict[str, PolicyRuns]:
    """Replay every policy on `n_runs` seeds; results do not depend on the executor or on the chunks.

    Raises KeyError for an unknown policy, ValueError where a policy lacks its predictor or no arm set fits.
    """
    names = list(dict.fromkeys(policies))
    for name in names:
        if name not in POLICIES:
            raise KeyError(f"unknown policy {name!r}; known are {', '.join(POLICIES)}")
    chunks = [chunk.tolist() for chunk in np.array_split(np.arange(n_runs), min(n_chunks, n_runs))]
    if executor is None:
        done = {name: [run_chunk(world, name, chunk) for chunk in chunks] for name in names}
    else:
        # The compiled kernels are loaded here once, not by all workers at the same time.
        warm_up(names, world.predictor)
        futures = {name: [executor.submit(run_chunk, world, name, chunk) for chunk in chunks] for name in names}
        done = {name: [future.result() for future in submitted] for name, submitted in futures.items()}
    return {name: PolicyRuns(POLICIES[name], tuple(run for records in done[name] for run in records)) for name in names}


def warm_up(policies: Sequence[str], predictor: Predictor | None) -> None:
    """Compile, or load from the cache, every kernel the policies use, on a world of two arms and six items."""
    n_items = 6
    small = None
    if predictor is not None:
        factors = np.zeros((n_items, predictor.prior_mean.size))
        small = Predictor(factors, predictor.prior_mean, predictor.l2, predictor.held_out_moments)
    settings = ReplaySettings(batch=2, pull_budgets=np.array([2 * n_items]))
    scores = np.array([[1.0, 0.0, 1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]])
    world = StudyWorld(scores, settings, n_arms=2, predictor=small)
    for name in policies:
        if small is not None or not POLICIES[name].needs_predictor:
            run_chunk(world, name, [0])


def run_chunk(world: StudyWorld, policy_name: str, runs: Sequence[int]) -> list[RunRecord]:
    """Runs of one policy at the given seeds; a top-level function, so that it can be sent to another process."""
    policy = POLICIES[policy_name]
    means = world.scores.mean(axis=1)
    return [_run_one(world, policy, means, run) for run in runs]


def _run_one(world: StudyWorld, policy: Policy, means: FloatArray, run: int) -> RunRecord:
    rng = np.random.default_rng([world.seed, run])
    arms = choose_arms(means, world.n_arms, world.gap_range, rng)
    scores = world.scores[arms]
    draws = make_draws(rng, *scores.shape)
    started = time.perf_counter()
    replay = replay_policy(policy, scores, draws, world.settings, world.predictor)
    seconds = time.perf_counter() - started
    arm_means = means[arms]
    # Sums over the same items in another order differ in their last digit; a tie must stay one.
    is_best = arm_means >= arm_means.max() - 1e-12
    named = replay.recommended >= 0
    missed, certificate, is_wrong, sums = -1, replay.pulls_to_certificate, False, np.zeros((0, 0, 3))
    if policy.interval == "betting":
        missed, certificate, is_wrong, sums = _check_intervals(world, replay, arm_means, is_best, run)
    elif certificate >= 0:
        is_wrong = not bool(is_best[replay.certified_arms].all())
    step_error_sum = math.nan
    if policy.has_single_steps:
        step_error_sum = intervals.step_error_sum(replay.trace, replay.trace_arms, scores.shape[1], arm_means)
    return RunRecord(
        policy=policy.name,
        run=run,
        n_arms=arms.size,
        best_gap=best_gap_of(arm_means),
        recommended=np.where(named, arms[replay.recommended], -1),
        is_hit=named & is_best[replay.recommended],
        pulls_to_certificate=certificate,
        is_certificate_wrong=is_wrong,
        n_missed_arms=missed,
        step_error_sum=step_error_sum,
        interval_sums=sums,
        seconds=seconds,
    )


def _check_intervals(
    world: StudyWorld, replay: Replay, means: FloatArray, is_best: BoolArray, run: int
) -> tuple[int, int, bool, FloatArray]:
    """(arms missed, pulls to the certificate, whether it is wrong, interval sums) of the betting intervals of a run."""
    n_arms, n_items = means.size, world.scores.shape[1]
    alpha = world.settings.delta / n_arms
    starts, places = intervals.group_by_arm(replay.trace_arms, n_arms)
    trace = replay.trace[places]
    bets = intervals.grouped_bets(trace, starts, n_items, alpha)
    misses = intervals.betting_misses(bets, starts, n_items, means, alpha)
    descending = np.lexsort((np.arange(n_arms), -means))
    # A wrong certificate needs a missed arm; without one only a best arm can be certified.
    leaders = descending if (misses > 0).any() else descending[is_best[descending]]
    times = [
        intervals.certificate_time(trace, bets, starts, places, n_items, alpha, int(leader), is_best, descending)
        for leader in leaders
    ]
    made = [(moment, int(leader)) for moment, leader in zip(times, leaders, strict=True) if moment > 0]
    certificate, winner = min(made) if made else (-1, -1)
    is_wrong = winner >= 0 and not bool(is_best[winner])
    sums = np.zeros((0, 0, 3))
    if run < N_INTERVAL_SEEDS:
        sums = _interval_sums(world, trace, bets, starts, means, misses, alpha)
    return int((misses > 0).sum()), certificate, is_wrong, sums


def _interval_sums(
    world: StudyWorld,
    trace: FloatArray,
    bets: FloatArray,
    starts: IntArray,
    means: FloatArray,
    betting_misses: IntArray,
    alpha: float,
) -> FloatArray:
    """Widths and misses of every interval at every count; (n_intervals, n_counts, 3)."""
    n_items, counts = world.scores.shape[1], world.interval_counts
    out = np.zeros((len(intervals.INTERVALS), len(counts), 3))
    for arm in range(means.size):
        own = trace[starts[arm] : starts[arm + 1]][: counts[-1]]
        own_bets = bets[starts[arm] : starts[arm + 1]]
        if own.shape[0] < counts[0]:
            continue
        # Freedman's bound holds at one count; over all counts its failure probability is shared among them.
        paths = [
            intervals.bernstein_path(own, n_items, alpha),
            intervals.freedman_path(own, n_items, alpha / n_items, False),
            intervals.freedman_path(own, n_items, alpha / n_items, True),
        ]
        first_misses = [int(betting_misses[arm])] + [intervals.first_miss(path, means[arm]) for path in paths]
        for place, count in enumerate(counts):
            if own.shape[0] < count:
                break
            limits = [intervals.betting_limits(own, own_bets, n_items, count, alpha)]
            limits += [(path[count - 1, 0], path[count - 1, 1]) for path in paths]
            for which, (lower, upper) in enumerate(limits):
                out[which, place, WIDTH_SUM] += max(upper - lower, 0.0)
                out[which, place, N_MISSED] += 0 < first_misses[which] <= count
                out[which, place, N_ARM_RUNS] += 1
    if bool(np.isnan(trace[:, intervals.T_TRUE_VARIANCE]).any()):
        out[intervals.INTERVALS.index("freedman_oracle")] = 0.0
    return out


__all__ = [
    "PolicyRuns",
    "RunRecord",
    "StudyWorld",
    "default_batch",
    "default_pull_budgets",
    "fit_predictor",
    "plain_n_runs",
    "run_chunk",
    "run_study",
    "warm_up",
]
