"""A new model: what its profile over clusters is worth after a few comparisons.

The clusters and the old models' profiles are taken as known; only the new model's strengths are fitted.
"""

from dataclasses import dataclass

import numpy as np

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
from capeval_pipeline.methods.ecc.calibration import fit_offset
from capeval_pipeline.methods.ecc.fit import EccFit, fit_ecc, fit_global, n_quick_restarts_for
from capeval_pipeline.methods.ecc.inference import log_sigmoid, losses_of, place_texts
from capeval_pipeline.methods.ecc.study import CALIBRATION_FOLD, EccProblem
from capeval_pipeline.methods.ecc.votes import Votes

METHODS = ("global", "authors_like", "hierarchical", "carry_over_control")
PULL_BUDGETS = (25, 50, 100, 200)
VOTES_OF_OLD_MODELS = 3
FEWEST_PAIRS = 30


@dataclass(frozen=True)
class ColdStartJob:
    """One held-out model; a record, so that it can be sent to another process.

    quality : (n_items, n_models), NaN where missing
    key_order : (n_items,) order in which items are walked
    is_shrunk : profiles of old models are shrunk to their one ranking, not to 0
    """

    problem: EccProblem
    quality: FloatArray
    key_order: IntArray
    held_out: int
    n_clusters: int
    ridge: float
    embedding_weight: float
    temperature: float
    seed: int
    is_shrunk: bool = True
    tie_margin: float = 1e-9
    pull_budgets: tuple[int, ...] = PULL_BUDGETS


@dataclass(frozen=True)
class ColdStartRow:
    """Figures of one method after pull_budget comparisons that did not tie; NaN where too few pairs say anything.

    n_calls : answers of the new model it took, ties included; fewer outcomes than the budget: no row
    rank_error : distance between the model's rank by predicted strength and by its mean quality on all items
    """

    method: str
    pull_budget: int
    gain_percent: float
    gain_percent_unseen: float
    n_calls: int
    rank_error: float


@dataclass(frozen=True)
class _Asked:
    """Outcomes of the new model: item, opponent (n,), is_win (n,), and calls made when each came in."""

    item: IntArray
    opponent: IntArray
    is_win: FloatArray
    n_calls: IntArray


def evaluate_cold_start(job: ColdStartJob) -> list[ColdStartRow]:
    """Hold one model out, learn it from few comparisons, predict its pairs on test items.

    The clusters come from at most three votes of old models an item, training and test items alike.
    """
    problem, new = job.problem, job.held_out
    old_votes, later_votes = _votes_without(problem.votes, new)
    fit, placed, global_strengths = _cluster_old_models(job, old_votes)
    old = np.setdiff1d(np.arange(problem.votes.n_models), [new])
    walk = job.key_order[~problem.is_test[job.key_order]]
    by_cluster = np.array([_middle(old, strengths) for strengths in fit.strengths])
    asked = _walk(job.quality, walk, by_cluster[placed[walk].argmax(axis=1)], new, job.tie_margin)
    middle = np.full(len(walk), _middle(old, global_strengths))
    asked_global = _walk(job.quality, walk, middle, new, job.tie_margin)

    item, opponent, is_win = _pairs_to_predict(job.quality, problem.test_items, new, old, job.tie_margin)
    carry_over, is_unseen = _carried_over(old_votes, item, np.full(len(item), new), opponent, is_win)
    offset = _learn_offset(problem, old_votes, later_votes, global_strengths)
    rank_of_all = _rank(np.nanmean(job.quality, axis=0), new)
    sign = np.where(is_win > 0, 1.0, -1.0)
    rows = []
    for budget in job.pull_budgets:
        if len(asked.item) < budget or len(asked_global.item) < budget:
            continue
        one = _fit_one_strength(asked_global, global_strengths, budget)
        profile = _fit_profile(asked, fit.strengths, placed, budget, ridge=job.ridge, weight=1.0, is_hierarchical=True)
        authors = _fit_profile(asked, fit.strengths, placed, budget, ridge=1.0, weight=0.25, is_hierarchical=False)
        global_logits = sign * (one - global_strengths[opponent])
        losses = {
            "global": -log_sigmoid(global_logits),
            "hierarchical": _losses(profile, fit.strengths, placed, item, opponent, sign),
            "authors_like": _losses(authors, fit.strengths, placed, item, opponent, sign),
            "carry_over_control": -log_sigmoid(global_logits + offset * carry_over),
        }
        overall = {"hierarchical": profile, "authors_like": authors}
        for method in METHODS:
            if method in overall:
                strengths = fit.strengths.copy()
                strengths[:, new] = overall[method]
                predicted = (placed @ strengths).mean(axis=0)
            else:
                predicted = global_strengths.copy()
                predicted[new] = one
            calls = asked if method in overall else asked_global
            rows.append(
                ColdStartRow(
                    method=method,
                    pull_budget=budget,
                    gain_percent=_gain(losses[method], losses["global"], np.ones(len(item), dtype=bool)),
                    gain_percent_unseen=_gain(losses[method], losses["global"], is_unseen),
                    n_calls=int(calls.n_calls[budget - 1]),
                    rank_error=float(abs(_rank(predicted, new) - rank_of_all)),
                )
            )
    return rows


def _cluster_old_models(job: ColdStartJob, old_votes: Votes) -> tuple[EccFit, FloatArray, FloatArray]:
    """(fit on the old models' votes, responsibilities of every item under it, the old models' one ranking)."""
    problem = job.problem
    voted = old_votes.voted_items
    fitted_votes = old_votes.restricted_to(voted)
    global_strengths = fit_global(fitted_votes)
    fit = fit_ecc(
        fitted_votes,
        problem.vectors[voted],
        n_clusters=job.n_clusters,
        embedding_weight=job.embedding_weight,
        temperature=job.temperature,
        ridge=job.ridge,
        prior=global_strengths if job.is_shrunk else 0.0,
        n_restarts=n_quick_restarts_for(job.n_clusters),
        seed=job.seed,
    )
    placed = place_texts(fit, problem.vectors)
    placed[voted] = fit.responsibilities
    return fit, placed, global_strengths


def _votes_without(votes: Votes, model: int) -> tuple[Votes, Votes]:
    """(at most three, the rest) of each item's votes that do not contain the model, in sampled order."""
    keep = np.flatnonzero((votes.winner != model) & (votes.loser != model))
    item = votes.item[keep]
    first_of_item = np.searchsorted(item, item)
    number = np.arange(len(item)) - first_of_item

    def part(where: IntArray) -> Votes:
        index = keep[where]
        return Votes(
            votes.item[index], votes.winner[index], votes.loser[index], votes.sample_rank[index],
            votes.n_items, votes.n_models,
        )  # fmt: skip

    return part(np.flatnonzero(number < VOTES_OF_OLD_MODELS)), part(np.flatnonzero(number >= VOTES_OF_OLD_MODELS))


def _middle(models: IntArray, strengths: FloatArray) -> int:
    """The middle-ranked of these models."""
    order = models[np.argsort(-np.round(strengths[models], 9), kind="stable")]
    return int(order[len(order) // 2])


def _walk(quality: FloatArray, items: IntArray, opponents: IntArray, new: int, tie_margin: float) -> _Asked:
    """Compare the new model with each item's opponent, in order; ties cost a call and give nothing."""
    gap = quality[items, new] - quality[items, opponents]
    is_known = ~np.isnan(gap)
    calls = np.cumsum(is_known)
    decided = np.flatnonzero(is_known & (np.abs(gap) > tie_margin))
    return _Asked(items[decided], opponents[decided], (gap[decided] > 0).astype(np.float64), calls[decided])


def _pairs_to_predict(
    quality: FloatArray, items: IntArray, new: int, old: IntArray, tie_margin: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """Every non-tied pair of the new model on these items: (item, opponent, is_win)."""
    gap = quality[items, new][:, None] - quality[np.ix_(items, old)]
    row, column = np.nonzero(np.abs(np.nan_to_num(gap)) > tie_margin)
    return items[row], old[column], (gap[row, column] > 0).astype(np.float64)


def _carried_over(
    seen: Votes, item: IntArray, first: IntArray, second: IntArray, first_won: FloatArray
) -> tuple[FloatArray, np.ndarray]:
    """(s towards the observed winner, whether neither model has a vote on the item), from votes already seen.

    s = +1 if what was seen says the winner wins (it won a vote there, or the loser lost one), -1 the other way round,
    0 for nothing or a contradiction.
    """
    won = np.zeros((seen.n_items, seen.n_models), dtype=bool)
    lost = np.zeros_like(won)
    won[seen.item, seen.winner] = True
    lost[seen.item, seen.loser] = True
    winner, loser = np.where(first_won > 0, first, second), np.where(first_won > 0, second, first)
    supports = won[item, winner] | lost[item, loser]
    opposes = lost[item, winner] | won[item, loser]
    has_vote = won[item, first] | lost[item, first] | won[item, second] | lost[item, second]
    return supports.astype(np.float64) - opposes.astype(np.float64), ~has_vote


def _learn_offset(problem: EccProblem, seen: Votes, later: Votes, global_strengths: FloatArray) -> float:
    """The control's offset, from old models' further votes on the calibration fifth of the training items."""
    used = (~problem.is_test & (problem.fold == CALIBRATION_FOLD))[later.item]
    item, winner, loser = later.item[used], later.winner[used], later.loser[used]
    carry_over, _ = _carried_over(seen, item, winner, loser, np.ones(len(item)))
    return fit_offset(global_strengths[winner] - global_strengths[loser], carry_over)


def _fit_one_strength(asked: _Asked, global_strengths: FloatArray, budget: int) -> float:
    """One strength on the scale of the global ranking, ridge 1 to zero."""
    rivals = global_strengths[asked.opponent[:budget]][None]
    found = _newton(asked.is_win[:budget], rivals, np.ones((1, budget)), ridge=1.0, is_hierarchical=False)
    return float(found[0])


def _fit_profile(
    asked: _Asked,
    strengths: FloatArray,
    placed: FloatArray,
    budget: int,
    *,
    ridge: float,
    weight: float,
    is_hierarchical: bool,
) -> FloatArray:
    """Strength of the new model in every cluster, (n_clusters,)."""
    rivals = strengths[:, asked.opponent[:budget]]
    responsibilities = weight * placed[asked.item[:budget]].T
    return _newton(asked.is_win[:budget], rivals, responsibilities, ridge=ridge, is_hierarchical=is_hierarchical)


def _newton(
    is_win: FloatArray, rivals: FloatArray, weights: FloatArray, *, ridge: float, is_hierarchical: bool
) -> FloatArray:
    """Minimise -sum_v sum_k w_kv log sigma(+-(t_k - rival_kv)) + ridge/2 sum (t_k - mu)^2 + 0.05 mu^2.

    mu is fixed at 0, without its term, unless is_hierarchical. rivals, weights : (n_clusters, n_outcomes).
    """
    n_clusters = len(rivals)
    sign = np.where(is_win > 0, 1.0, -1.0)
    t, mu = np.zeros(n_clusters), 0.0

    def objective(t: FloatArray, mu: float) -> float:
        likelihood = (weights * log_sigmoid(sign * (t[:, None] - rivals))).sum()
        return float(-likelihood + 0.5 * ridge * ((t - mu) ** 2).sum() + (0.05 * mu**2 if is_hierarchical else 0.0))

    value = objective(t, mu)
    for _ in range(200):
        surprise = np.exp(log_sigmoid(-sign * (t[:, None] - rivals)))
        gradient = np.append(-(weights * sign * surprise).sum(axis=1) + ridge * (t - mu), 0.0)
        hessian = np.diag(np.append((weights * surprise * (1.0 - surprise)).sum(axis=1) + ridge, 1.0))
        if is_hierarchical:
            gradient[-1] = -ridge * (t - mu).sum() + 0.1 * mu
            hessian[-1, -1] = ridge * n_clusters + 0.1
            hessian[-1, :-1] = hessian[:-1, -1] = -ridge
        if np.abs(gradient).max() <= 1e-8:
            return t
        step = np.linalg.solve(hessian, gradient)
        scale = 1.0
        while scale > 1e-8 and objective(t - scale * step[:-1], mu - scale * step[-1]) > value + 1e-12 * abs(value):
            scale *= 0.5
        t, mu = t - scale * step[:-1], mu - scale * float(step[-1])
        value = objective(t, mu)
    raise ConvergenceError("cold start: the new model's profile did not settle within 200 steps")


def _losses(
    profile: FloatArray, strengths: FloatArray, placed: FloatArray, item: IntArray, opponent: IntArray, sign: FloatArray
) -> FloatArray:
    wins = 1.0 / (1.0 + np.exp(-sign * (profile[:, None] - strengths[:, opponent])))
    return losses_of(np.einsum("nk,kn->n", placed[item], wins))


def _gain(losses: FloatArray, reference: FloatArray, used: np.ndarray) -> float:
    if used.sum() < FEWEST_PAIRS:
        return float("nan")
    return 100.0 * (1.0 - float(losses[used].mean()) / float(reference[used].mean()))


def _rank(strengths: FloatArray, model: int) -> int:
    return 1 + int((strengths > strengths[model] + 1e-12).sum())
