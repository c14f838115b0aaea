"""Some categories left out of every fit and then predicted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capeval_pipeline.methods.ecc.evaluation import Gain
from capeval_pipeline.methods.ecc.selection import Choice
from capeval_pipeline.methods.ecc.study import EccOptions, EccProblem, run_ecc_study

FEWEST_ITEMS = 100
MOST_DOMAINS = 20
PAPER_CLUSTER_COUNTS = (10, 30, 100)
N_RESTARTS = 3
"""Starts of ecc_shrunk in each domain; the headline's twenty would cost more than the figure is worth."""


@dataclass(frozen=True)
class DomainJob:
    """Categories to predict and, where not all others are, those to fit on; a record, for another process."""

    problem: EccProblem
    test: tuple[int, ...]
    train: tuple[int, ...] | None
    options: EccOptions
    choice: Choice | None


def large_categories(problem: EccProblem) -> list[int]:
    """Categories to leave out in turn, largest first: those with 100 kept items that leave 100 others, at most 20."""
    kept = problem.votes.voted_items
    known = problem.category[kept][problem.category[kept] >= 0]
    sizes = np.bincount(known, minlength=problem.n_categories)
    largest = np.argsort(-sizes, kind="stable")[:MOST_DOMAINS]
    return [int(c) for c in largest if FEWEST_ITEMS <= sizes[c] <= len(kept) - FEWEST_ITEMS]


def domain_jobs(
    problem: EccProblem,
    domains: Sequence[tuple[tuple[int, ...], tuple[int, ...] | None]],
    options: EccOptions,
    choice: Choice | None,
) -> list[DomainJob]:
    """A job a domain (test categories, training categories) and, in the paper's preset, number of clusters."""
    counts = PAPER_CLUSTER_COUNTS if options.is_paper else (options.n_clusters,)
    return [
        DomainJob(problem, test, train, replace(options, n_clusters=count, n_restarts=N_RESTARTS), choice)
        for test, train in domains
        for count in counts
    ]


def leave_domain_out(job: DomainJob) -> dict[tuple[str, str, str], tuple[int | None, Gain]]:
    """Gains on the items of the test categories, of fits on the others, keyed (method, inference, pair_subset).

    Both sides of the benchmark's own split take part, each item on the side of its category. Beside each gain stands
    the number of clusters, None for methods without clusters; `ecc_shrunk` has the settings chosen on the whole.
    """
    problem = job.problem
    is_test = np.isin(problem.category, job.test)
    is_used = np.ones(len(is_test), dtype=bool) if job.train is None else is_test | np.isin(problem.category, job.train)
    apart = replace(problem, is_test=is_test, votes=problem.votes.of_items(is_used))
    study = run_ecc_study(apart, job.options, choice=job.choice)
    counts = {name: fit.n_clusters for name, fit in study.fitted.mixtures.items()}
    return {key: (counts.get(key[0]), gain) for key, gain in study.gains.items()}
