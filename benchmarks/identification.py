"""PULSE measured: the figures of its design, races, coverage, bias and speed, on planted worlds and on real benchmarks.

    python -m benchmarks.identification figures|races|coverage|bias|speed [--worlds lowrank,gsm8k] [--seeds 104]

Real benchmarks are read in place from CAPEVAL_SHARED (default ../shared). Times are CPU seconds of this process, so
that a busy machine does not count. By hand, never a test.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capeval_pipeline.executors import open_executor
from capeval_pipeline.methods.identification import plain
from capeval_pipeline.methods.identification.arm_sets import choose_arms
from capeval_pipeline.methods.identification.gap_classes import GAP_POLICIES, gap_class_runs, run_gap_classes
from capeval_pipeline.methods.identification.policies import PLAIN_POLICIES, POLICIES
from capeval_pipeline.methods.identification.records import (
    ReplaySettings,
    default_batch,
    default_pull_budgets,
    make_draws,
)
from capeval_pipeline.methods.identification.replay import replay_policy
from capeval_pipeline.methods.identification.results import PolicySummary, interval_points, summarise
from capeval_pipeline.methods.identification.study import (
    PolicyRuns,
    StudyWorld,
    fit_predictor,
    plain_n_runs,
    run_study,
)
from capeval_pipeline.methods.identification.summaries import (
    pairing_ratio,
    pulls_for_target,
    residual_variance_ratio,
    standardised_mean,
    wilson_interval,
)
from capeval_pipeline.methods.item_factors import fit_item_factors
from capeval_pipeline.methods.synthetic.low_rank_world import make_low_rank_world
from tests.cases.pulse_studies import world_of

SHARED = Path(os.environ.get("CAPEVAL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
# Folder under SHARED, and what differs from its own settings.
WORLDS: dict[str, tuple[str, dict[str, object]]] = {
    "lowrank": ("cases/pulse_lowrank_gap02", {}),
    "useless": ("cases/pulse_useless", {}),
    "gsm8k": ("data/metabench_gsm8k", {"gap_range": (0.012, 0.018), "batch": 15}),
    "arc": ("data/sysrs_arc_challenge", {}),
    "ifeval": ("data/sysrs_ifeval", {}),
}


def load_world(name: str) -> StudyWorld:
    """The world of a benchmark folder, as the stage would build it."""
    folder, changes = SHARED / WORLDS[name][0], WORLDS[name][1]
    return world_of(folder, **changes)


# ---------------------------------------------------------------- figures


@dataclass(frozen=True)
class Figures:
    """A world's study with what the design asks of it."""

    name: str
    world: StudyWorld
    runs: dict[str, PolicyRuns]
    summaries: dict[str, PolicySummary]

    def calls(self, policy: str, target: float) -> float:
        budgets = np.asarray(self.world.settings.pull_budgets, dtype=float)
        return float(pulls_for_target(budgets, self.runs[policy].hits.mean(axis=0), target))

    def ratio(self, policy: str, target: float) -> float:
        return self.calls(policy, target) / self.calls("ucb_e", target)

    def error_below_ucb_e(self, policy: str = "pulse") -> float:
        return self.summaries["ucb_e"].mean_error - self.summaries[policy].mean_error

    def width(self, interval: str) -> float:
        points = interval_points(self.runs["pulse"], self.world)
        return next(p.mean_width for p in points if (p.interval, p.n_answers) == (interval, self.world.reported_count))


def asked(figures: Figures) -> Iterator[tuple[str, str, float, bool]]:
    """(what, asked, measured, holds) of a world, from the design's list."""
    name, gain, pulse = figures.name, figures.error_below_ucb_e(), figures.summaries["pulse"]
    needed = {"lowrank": 0.025, "gsm8k": 0.008, "arc": 0.0, "ifeval": 0.0}
    if name == "useless":
        yield "mean error against UCB-E", "within .02", gain, abs(gain) <= 0.02
        for target in (0.9, 0.95):
            ratio = figures.ratio("pulse", target)
            yield f"calls against UCB-E at {target}", ".90 to 1.08", ratio, 0.90 <= ratio <= 1.08
        naive = figures.ratio("naive_pooling", 0.95)
        yield "naive pooling against UCB-E at .95", "> 1.1", naive, naive > 1.1
    else:
        yield "mean error below UCB-E", f">= {needed[name]:g}", gain, gain >= needed[name]
    if name in ("lowrank", "gsm8k"):
        for target, limit in ((0.9, 0.90 if name == "lowrank" else 1.0), (0.95, 0.96 if name == "lowrank" else 1.0)):
            ratio = figures.ratio("pulse", target)
            yield f"calls against UCB-E at {target}", f"<= {limit}", ratio, ratio <= limit
    # Limits on the width; where predictions are useless the control weight cannot narrow the interval.
    bernstein, freedman = (0.90, 0.85) if name == "useless" else (0.85, 0.70)
    for interval, limit in (("empirical_bernstein", bernstein), ("freedman_plugin", freedman)):
        ratio = figures.width("betting") / figures.width(interval)
        yield f"width of betting against {interval}", f"<= {limit}", ratio, ratio <= limit
    yield "all intervals hold (pulse)", ">= .90", pulse.coverage_simultaneous, pulse.coverage_simultaneous >= 0.9
    yield "bias z (pulse)", "abs < 3.5", pulse.bias_z, abs(pulse.bias_z) < 3.5


def figures(names: list[str], n_seeds: int) -> None:
    """Print every policy's figures on each world, and those of the design's list beside what it asks."""
    for name in names:
        world, started = load_world(name), time.process_time()
        runs = run_study(world, list(POLICIES), n_seeds)
        own = Figures(name, world, runs, {summary.policy: summary for summary in summarise(runs, world)})
        explained = residual_variance_ratio(world.scores, world.predictor, rng=np.random.default_rng(0))
        print(f"\n{name}: {n_seeds} seeds, {time.process_time() - started:.0f} CPU s; residual variance ratio ", end="")
        print(f"{explained:.3f}, pairing ratio {pairing_ratio(world.scores):.3f}")
        for policy, summary in own.summaries.items():
            print(
                f"  {policy:26s} mean error {summary.mean_error:.4f}  calls for 90 % {own.calls(policy, 0.9):7.0f}  "
                f"95 % {own.calls(policy, 0.95):7.0f}  hold {summary.coverage_simultaneous:.3f}  "
                f"width {summary.mean_interval_width:.3f}  z {summary.bias_z:5.2f}  certified {summary.n_certified} "
                f"(wrong {summary.n_wrong_certificates})"
            )
        for what, limit, measured, holds in asked(own):
            print(f"  | {what:45s} | {limit:12s} | {measured:7.3f} | {'yes' if holds else 'NO'}")


# ---------------------------------------------------------------- races, coverage, bias


def races(names: list[str], n_seeds: int, delta: float = 0.05) -> None:
    """Share of the matrix a race reads, on scores and on residuals, and how often its certificate is wrong."""
    for name in names:
        world = load_world(name)
        settings, means = replace(world.settings, delta=delta), world.scores.mean(axis=1)
        for kind, predictor in (("scores", None), ("residuals", world.predictor)):
            shares, n_wrong = [], 0
            for seed in range(n_seeds):
                rng = np.random.default_rng([world.seed, seed])
                arms = choose_arms(means, world.n_arms, world.gap_range, rng)
                scores = world.scores[arms]
                replay = replay_policy(POLICIES["race"], scores, make_draws(rng, *scores.shape), settings, predictor)
                shares.append(replay.pulls_to_certificate / scores.size)
                n_wrong += bool((means[arms][replay.certified_arms] < means[arms].max() - 1e-12).any())
            error = np.std(shares) / np.sqrt(n_seeds)
            print(f"{name:8s} race on {kind:9s}: {np.mean(shares):.4f} ± {error:.4f} of the matrix, ", end="")
            print(f"{n_wrong} of {n_seeds} wrong at delta {delta}", flush=True)


def coverage(names: list[str], n_seeds: int) -> None:
    """Print in how many replays all intervals held at all counts, with the Wilson limits of the share."""
    for name in names:
        world = load_world(name)
        for policy, runs in run_study(world, ["uniform", "pulse", "pulse_shared_order"], n_seeds).items():
            n_held = sum(run.n_missed_arms == 0 for run in runs.runs)
            n_missed = sum(run.n_missed_arms for run in runs.runs)
            lower, upper = wilson_interval(n_held, n_seeds)
            print(
                f"{name:8s} {policy:20s} all intervals hold in {n_held} of {n_seeds} = {n_held / n_seeds:.3f} "
                f"({lower:.3f} to {upper:.3f}); {n_missed} arms missed, {world.settings.delta * n_seeds:.0f} allowed",
                flush=True,
            )


def bias(names: list[str], n_seeds: int) -> None:
    """Print how far the mean error of estimates after single steps lies from 0, in standard errors over the seeds."""
    for name in names:
        policies = [policy.name for policy in POLICIES.values() if policy.has_single_steps]
        for policy, runs in run_study(load_world(name), policies, n_seeds).items():
            z = standardised_mean(np.array([run.step_error_sum for run in runs.runs]))
            print(f"{name:8s} {policy:20s} z of the sum of theta - mu over {n_seeds} seeds: {z:.2f}", flush=True)


# ---------------------------------------------------------------- speed


def random_world(n_arms: int, n_items: int, rank: int, n_training: int, n_calls: int) -> StudyWorld:
    """A planted low-rank world whose predictor is fitted on models of its own."""
    rng = np.random.default_rng(0)
    scores = make_low_rank_world(n_items=n_items, n_models=n_arms + n_training, rank=rank, rng=rng).scores.T
    predictor, _ = fit_predictor(scores[n_arms:], np.arange(n_training), rng=rng, rank=rank)
    settings = ReplaySettings(batch=default_batch(n_items), pull_budgets=np.array([n_calls]))
    return StudyWorld(np.ascontiguousarray(scores[:n_arms]), settings, n_arms=n_arms, predictor=predictor)


def seconds_of(what, *args, **kwargs) -> float:  # type: ignore[no-untyped-def]
    """CPU seconds of one call, all threads of this process together."""
    started = time.process_time()
    what(*args, **kwargs)
    return time.process_time() - started


def replay_seconds(world: StudyWorld, policy: str) -> float:
    """CPU seconds of one replay, V given and kernels compiled."""
    draws = make_draws(np.random.default_rng(1), *world.scores.shape)
    warm = replace(world.settings, pull_budgets=np.array([world.settings.batch]))
    replay_policy(POLICIES[policy], world.scores, draws, warm, world.predictor)
    return seconds_of(replay_policy, POLICIES[policy], world.scores, draws, world.settings, world.predictor)


def logistic_pass(world: StudyWorld) -> float:
    """CPU seconds of predicting every cell once in numpy, the least of three: what any predictor must spend."""
    rows = np.ones((world.scores.shape[0], world.predictor.prior_mean.size))
    return min(seconds_of(lambda: 1 / (1 + np.exp(-rows @ world.predictor.item_factors.T))) for _ in range(3))


def speed() -> None:
    """Print CPU seconds of single replays and of whole studies beside their limits."""
    for n_arms, n_items, rank, n_calls, limit in ((450, 12_032, 8, 540_000, 10), (200, 1_000, 5, 100_000, 1)):
        world = random_world(n_arms, n_items, rank, 60, n_calls)
        one_pass = logistic_pass(world)
        print(f"{n_calls:,} calls on {n_arms} x {n_items:,}, rank {rank}, limit {limit} CPU s")
        for policy in ("ucb_e", "pulse", "pulse_shared_order", "pulse_active", "race"):
            took = replay_seconds(world, policy)
            print(
                f"  {policy:20s} {took:5.2f} CPU s, {took / one_pass:.0f} times one prediction of every cell in numpy"
            )
    few = replace(world, settings=replace(world.settings, pull_budgets=np.array([1_000])))
    draws = make_draws(np.random.default_rng(1), *world.scores.shape)
    slow = seconds_of(plain.run_index_policy, POLICIES["pulse"], world.scores, draws, world.predictor, few.settings)
    fast = replay_seconds(few, "pulse")
    print(f"1,000 calls of pulse in plain Python: {slow:.1f} CPU s, {slow / fast:.0f} times the kernels")
    scores = make_low_rank_world(n_items=1_000, n_models=300, rank=6, rng=np.random.default_rng(0)).scores.T
    took = seconds_of(fit_item_factors, np.ascontiguousarray(scores), rank=6)
    svd = seconds_of(np.linalg.svd, scores, full_matrices=False)
    print(f"V on 300 x 1,000, rank 6: {took:.2f} CPU s (limit 10), {took / svd:.0f} times one SVD of the scores")
    world = load_world("lowrank")
    with open_executor("threads", 2) as pool:
        took = seconds_of(run_study, world, list(POLICIES), 104, pool)
        study = f"104 seeds x {len(POLICIES)} policies on pulse_lowrank_gap02"
        print(f"{study}: {took:.0f} CPU s on two threads (limit 2 x 240)")
        world = random_world(200, 1_000, 5, 100, 200_000)
        world = replace(world, settings=replace(world.settings, pull_budgets=default_pull_budgets(200, 1_000, 25)))
        took = seconds_of(run_study, world, PLAIN_POLICIES, plain_n_runs(200, 1_000), pool)
        kept = [name for name in PLAIN_POLICIES if name in GAP_POLICIES]
        n_runs = gap_class_runs(200, 1_000)
        more = seconds_of(run_gap_classes, world, kept, target_accuracy=0.95, n_runs=n_runs, executor=pool)
        print(f"plain study of 200 x 1,000: {took:.0f} + {more:.0f} CPU s on two threads (limit 2 x 60)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["figures", "races", "coverage", "bias", "speed"])
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--seeds", type=int)
    arguments = parser.parse_args()
    if arguments.what == "speed":
        speed()
        return
    measure, n_seeds = {
        "figures": (figures, 104),
        "races": (races, 320),
        "coverage": (coverage, 416),
        "bias": (bias, 312),
    }[arguments.what]
    measure(arguments.worlds.split(","), arguments.seeds or n_seeds)


if __name__ == "__main__":
    main()
