"""How often the frontier's intervals hold the truth: `python benchmarks/frontier_coverage.py [n_seeds]`, by hand.

Prints a table a line at a time; the one in docs/frontier.md was made by it. About 10 CPU minutes for 30 seeds.
"""

import sys

from capeval_pipeline.methods.debiasing.coverage_study import COVERAGE_WORLDS, study_interval_coverage


def main(n_seeds: int) -> None:
    """Oracle intervals at 2, 3, 5 and 10 draws, then the frontier's band at 5, on seeds no constant was chosen on."""
    print("world | items | models | draws | interval | coverage | mean width | share point | benchmarks", flush=True)
    for with_frontier, generations in ((False, (2, 3, 5, 10)), (True, (5,))):
        for n_generations in generations:
            for world in COVERAGE_WORLDS:
                rows = study_interval_coverage(
                    seed=9_000 + with_frontier,
                    worlds=[world],
                    generations=[n_generations],
                    n_seeds=n_seeds if world != "graded" else max(n_seeds // 3, 1),
                    with_frontier=with_frontier,
                )
                for row in rows:
                    if with_frontier and row.interval.startswith("oracle"):
                        continue
                    print(
                        f"{row.world} | {row.n_items} | {row.n_models} | {row.n_generations} | {row.interval} | "
                        f"{row.coverage:.2f} | {row.mean_width:.3f} | {row.share_point:.2f} | {row.n_seeds}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
