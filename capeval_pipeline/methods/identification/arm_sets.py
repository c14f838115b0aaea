"""Which models are the arms of a run, and how hard that set is."""

from __future__ import annotations

import numpy as np

from capeval_pipeline.methods.identification.records import FloatArray, IntArray

N_CANDIDATE_BESTS = 40


def best_gap_of(means: FloatArray) -> float:
    """Largest mean minus the second largest; 0 for ties, NaN for a single arm."""
    if means.size < 2:
        return float("nan")
    top = np.sort(means)[-2:]
    return float(top[1] - top[0])


def choose_arms(
    means: FloatArray, n_arms: int, gap_range: tuple[float, float] | None, rng: np.random.Generator
) -> IntArray:
    """Ascending indices of the arms of a run; always the same numbers from `rng` for the same call.

    means : (n_models,) true means of the models that may be arms. Without a gap range: all, or `n_arms` at random.
    With one: a best among the top 40, one model whose mean lies within the range below it, the others from below that.
    Raises ValueError where no such set exists.
    """
    if gap_range is None:
        if means.size <= n_arms:
            return np.arange(means.size)
        return np.sort(rng.choice(means.size, n_arms, replace=False))
    low, high = gap_range
    descending = np.lexsort((np.arange(means.size), -means))
    ascending = np.sort(means)
    options = []
    for best in descending[:N_CANDIDATE_BESTS]:
        gaps = means[best] - means[descending]
        is_option = (gaps >= low - 1e-12) & (gaps <= high + 1e-12) & (descending != best)
        for second in descending[is_option]:
            at_most = int(np.searchsorted(ascending, means[second], side="right"))
            below = at_most - 1 - int(means[best] <= means[second])
            options.append((int(best), int(second), min(n_arms - 2, below)))
    if not options:
        raise ValueError(f"no two of the models have means {low:g} to {high:g} apart below one of the 40 best")
    n_others = max(option[2] for option in options)
    options = [option for option in options if option[2] == n_others]
    best, second, _ = options[int(rng.integers(len(options)))]
    pool = np.flatnonzero(means <= means[second])
    pool = pool[(pool != best) & (pool != second)]
    return np.sort(np.append(rng.choice(pool, n_others, replace=False), [best, second]))
