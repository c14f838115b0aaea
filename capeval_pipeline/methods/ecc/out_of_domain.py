"""One category left out of every fit and then predicted."""

from dataclasses import dataclass, replace

from capeval_pipeline.methods.ecc.evaluation import Gain
from capeval_pipeline.methods.ecc.selection import Choice
from capeval_pipeline.methods.ecc.study import EccOptions, EccProblem, run_ecc_study


@dataclass(frozen=True)
class DomainJob:
    """A category to leave out; a record, so that it can be sent to another process."""

    problem: EccProblem
    domain: int
    options: EccOptions
    choice: Choice | None


def leave_domain_out(job: DomainJob) -> dict[tuple[str, str, str], tuple[int | None, Gain]]:
    """Gains on the items of the category, of fits on all other items, keyed (method, inference, pair_subset).

    Both sides of the benchmark's own split take part, each item on the side of its category. Beside each gain stands
    the number of clusters, None for methods without clusters; `ecc_shrunk` has the settings chosen on the whole.
    """
    apart = replace(job.problem, is_test=job.problem.category == job.domain)
    study = run_ecc_study(apart, job.options, choice=job.choice)
    counts = {name: fit.n_clusters for name, fit in study.fitted.mixtures.items()}
    return {key: (counts.get(key[0]), gain) for key, gain in study.gains.items()}
