"""The frontier at size, each part in a process of its own: `python benchmarks/frontier_scale.py`, by hand.

Targets: exact frontier and O(g) curve of 1,000,000 x 50 in 15 CPU s and 2 GB with float32 inputs; the topic model with
its simulations and refits on 100,000 x 50 x 10 in 5 minutes and 4 GB.
"""

import resource
import subprocess
import sys
import time

import numpy as np


def exact() -> None:
    """Exact frontier of a million items and 50 models, float32."""
    from capeval_pipeline.methods.frontier import exact_frontier, frontier_quality_at

    rng = np.random.default_rng(0)
    quality = rng.random((1_000_000, 50), dtype=np.float32)
    cost = rng.random((1_000_000, 50), dtype=np.float32) + np.float32(0.01)
    exact_frontier(quality[:100], cost[:100])
    start = time.process_time()
    frontier = exact_frontier(quality, cost)
    _tell("exact frontier 1e6 x 50", start, f"{len(frontier.cost_usd)} breakpoints")
    print(frontier_quality_at(frontier, [0.1, 0.5]))


def curve() -> None:
    """O(g) of a million items, 50 models and 10 draws."""
    from capeval_pipeline.methods.frontier import subsample_oracle_curve

    counts = np.random.default_rng(0).integers(0, 11, size=(1_000_000, 50), dtype=np.int8)
    subsample_oracle_curve(counts[:100], 10)
    start = time.process_time()
    found = subsample_oracle_curve(counts, 10)
    _tell("O(g) 1e6 x 50, G = 10", start, str(found.mean(axis=0).round(4)[[0, -1]]))


def model(n_items: int = 100_000, n_models: int = 50) -> None:
    """Topic model, simulations, refits: everything the oracle's headline needs."""
    from capeval_pipeline.methods.debiasing import DEBIASERS, DrawTable, OracleProblem
    from capeval_pipeline.methods.synthetic import make_generation_world

    world = make_generation_world(
        "heterogeneous", n_items=1000, n_models=n_models, n_generations=1, rng=np.random.default_rng(0)
    )
    rng = np.random.default_rng(1)
    probability = world.success_probability[rng.integers(1000, size=n_items)]
    scores = np.empty((n_items, n_models, 10))
    for g in range(10):
        scores[:, :, g] = rng.random(probability.shape) < probability
    truth = float(probability.max(axis=1).mean())
    problem = OracleProblem(DrawTable(scores))
    start = time.process_time()
    estimate = DEBIASERS["bias_corrected"](problem)
    _tell(
        f"bias corrected oracle {n_items} x {n_models} x 10",
        start,
        f"{estimate.value:.4f} ({estimate.lower:.4f} to {estimate.upper:.4f}), truth {truth:.4f}",
    )


def stage() -> None:
    """Everything the stage computes, without tables, on 1000 x 20 x 10."""
    from capeval_pipeline.methods.debiasing import DrawTable, OracleProblem
    from capeval_pipeline.methods.debiasing.frontier_analysis import analyse_cost_axis
    from capeval_pipeline.methods.debiasing.oracle_analysis import analyse_oracle
    from capeval_pipeline.methods.synthetic import make_generation_world

    world = make_generation_world(
        "heterogeneous", n_items=1000, n_models=20, n_generations=10, rng=np.random.default_rng(0)
    )
    start = time.process_time()
    problem = OracleProblem(DrawTable(world.scores, world.cost_usd))
    oracle = analyse_oracle(problem)
    middle = time.process_time()
    analyse_cost_axis(problem, world.cost_usd, verdict=oracle.verdict)
    _tell("stage 1000 x 20 x 10, kernels compiled in it where not cached", start, f"oracle {middle - start:.1f} s")


def _tell(what: str, start: float, found: str) -> None:
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what}: {seconds:.1f} CPU s, peak {peak:.2f} GB of the process; {found}", flush=True)


PARTS = {"exact": exact, "curve": curve, "stage": stage, "model": model}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]]()
    else:
        for name in PARTS:
            subprocess.run([sys.executable, __file__, name], check=True)
