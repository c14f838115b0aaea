"""From a benchmark and a few choices to everything that is frozen for a session: configuration, items, predictor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.methods.identification.allocation import AllocationSettings, make_allocation
from capeval_pipeline.methods.identification.families import (
    MAX_TRAINING_MODELS,
    MIN_AGREEMENT,
    MIN_ITEMS_FOR_PREDICTOR,
    MIN_TRAINING_MODELS,
    near_duplicate_families,
    split_by_family,
)
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import FloatArray, IntArray, Predictor, default_batch, make_draws
from capeval_pipeline.methods.item_factors import PairMoments
from capeval_pipeline.sessions.folder import content_version, items_content, predictor_content
from capeval_pipeline.sessions.records import SessionChoices, SessionConfig, SessionItem
from capeval_pipeline.sessions.source import BenchmarkSource, read_benchmark
from capeval_pipeline.settings import load_settings

MIN_SHARED_ITEMS = 10
"""Items that an arm and a training model must share before their agreement says anything."""

NOT_LIVE = {
    "naive_pooling": "it is the study's warning example: its estimates are wrong wherever its predictions are, so "
    "calls would be spent on the wrong models",
}


@dataclass(frozen=True)
class SessionSetup:
    """All that is frozen when a session is made; `predictor` is None where the policy uses none."""

    config: SessionConfig
    items: tuple[SessionItem, ...]
    predictor: Predictor | None = None


@dataclass(frozen=True)
class _Learned:
    predictor: Predictor | None
    n_training_models: int = 0
    reason: str | None = None


def prepare(data: str | Path, name: str, benchmark: str, choices: SessionChoices) -> SessionSetup:
    """Read the benchmark, fit the predictor on its other models, and put together what a session needs.

    Errors are those of `Session.create`. Compiles the policy's kernels, so that the first `ask` need not.
    """
    settings = load_settings(Path(data))
    choices = _checked(choices)  # before the benchmark is read, which takes long
    setup = setup_of(read_benchmark(settings, benchmark), name, choices)
    _warm_up(setup)
    return setup


def setup_of(source: BenchmarkSource, name: str, choices: SessionChoices) -> SessionSetup:
    """The setup of a session on a benchmark that was read already. Raises UsageError, CapevalError as `prepare`."""
    choices = _checked(choices)
    arms, policy = choices.arms, POLICIES[choices.policy]
    prices = _prices(choices.prices, arms, choices.cost_budget)
    asked = _items(source, choices.items)
    settings = source.identification
    has_use = policy.needs_predictor or policy.kind == "race"
    learned = _learn(source, arms, [item.item_id for item in asked]) if has_use else _Learned(None)
    predictor = learned.predictor
    if policy.needs_predictor and predictor is None:
        without = ", ".join(name for name, known in POLICIES.items() if not known.needs_predictor)
        raise CapevalError(
            f"policy {policy.name!r} predicts answers from other models, and {learned.reason}; "
            f"policies that need no predictor: {without}"
        )
    config = SessionConfig(
        session=name,
        benchmark_id=source.benchmark_id,
        policy=policy.name,
        arms=tuple(arms),
        n_items=len(asked),
        items_version=content_version(items_content(asked)),
        batch=choices.batch or settings.batch or default_batch(len(asked)),
        delta=choices.delta,
        seed=choices.seed,
        exploration=settings.exploration,
        pseudo_pairs=settings.pseudo_pairs,
        score_low=source.score_low,
        score_high=source.score_high,
        higher_is_better=source.higher_is_better,
        pull_budget=choices.pull_budget,
        cost_budget=choices.cost_budget,
        prices=prices,
        predictor_version=None if predictor is None else content_version(predictor_content(predictor)),
        n_training_models=learned.n_training_models,
        rank=None if predictor is None else int(predictor.prior_mean.size),
        l2=settings.l2,
        no_predictor=learned.reason,
    )
    return SessionSetup(config, tuple(asked), predictor)


def _arms(given: Iterable[str]) -> list[str]:
    arms = [arm.strip() for arm in given]
    if "" in arms:
        raise UsageError("an empty name among the arms; expected names of models")
    repeated = sorted(arm for arm in set(arms) if arms.count(arm) > 1)
    if repeated:
        raise UsageError(f"arm {repeated[0]!r} is named twice; expected every model once")
    if len(arms) < 2:
        raise UsageError(f"{counted(len(arms), 'arm')}; expected at least 2 models to choose among")
    # Of exactly equal arms the first is named, so their order must not be an accident.
    return sorted(arms)


def _checked(choices: SessionChoices) -> SessionChoices:
    """The choices with their arms in order. Raises UsageError."""
    arms, policy, pull_budget = _arms(choices.arms), choices.policy, choices.pull_budget
    live = ", ".join(name for name in POLICIES if name not in NOT_LIVE)
    if policy in NOT_LIVE:
        raise UsageError(f"policy {policy!r} does not run live: {NOT_LIVE[policy]}; there are: {live}")
    if policy not in POLICIES:
        raise UsageError(f"no policy {policy!r}; there are: {live}")
    if not 0 < choices.delta < 0.5:
        raise UsageError(f"delta is {choices.delta:g}; expected a probability between 0 and 0.5")
    for what, value, least in (("batch", choices.batch, 1), ("pull budget", pull_budget, 1), ("seed", choices.seed, 0)):
        if value is not None and value < least:
            raise UsageError(f"{what} is {value}; expected at least {least}")
    if choices.cost_budget is not None and not 0 < choices.cost_budget < math.inf:
        raise UsageError(f"cost budget is {choices.cost_budget:g}; expected dollars above 0")
    if POLICIES[policy].kind == "successive_rejects" and (pull_budget is None or pull_budget < len(arms)):
        raise UsageError(
            f"policy {policy!r} divides a budget that it knows beforehand; give a pull budget of at least one call an "
            f"arm ({len(arms)})"
        )
    return replace(choices, arms=arms)


def _prices(prices: Mapping[str, float], arms: Sequence[str], cost_budget: float | None) -> dict[str, float]:
    for model, price in prices.items():
        if not 0 <= price < math.inf:
            raise UsageError(f"price of {model!r} is {price!r}; expected dollars per call from 0")
    own = {arm: float(prices[arm]) for arm in arms if arm in prices}
    missing = [arm for arm in arms if arm not in own]
    if cost_budget is not None and missing:
        raise UsageError(
            f"a cost budget needs a price for every arm, else nobody knows what a call may cost: {missing[0]!r} has "
            "none in --prices"
        )
    return own


def _items(source: BenchmarkSource, items: Iterable[str] | None) -> list[SessionItem]:
    if items is None:
        return list(source.items)
    wanted = set(items)
    unknown = sorted(wanted - {item.item_id for item in source.items})
    if unknown:
        raise UsageError(
            f"item {unknown[0]!r} is not in benchmark {source.benchmark_id!r} ({counted(len(unknown), 'such item')}); "
            "`capeval ingest` its items first"
        )
    if not wanted:
        raise UsageError("no items to ask; expected at least one item_id")
    return [item for item in source.items if item.item_id in wanted]


def _learn(source: BenchmarkSource, arms: Sequence[str], item_ids: Sequence[str]) -> _Learned:
    """Item factors from the benchmark's models that are neither arms nor near-duplicates of one.

    Items that the training models did not all answer get no factors: they are predicted at one half, which costs
    efficiency there and never validity.
    """
    from capeval_pipeline.arrays.score_block import encode_score_block
    from capeval_pipeline.arrays.score_matrix import encode_score_matrix, positions_of
    from capeval_pipeline.methods.identification.study import fit_predictor

    scores = source.item_scores
    is_arm = scores["model_id"].isin(list(arms))
    try:
        block = encode_score_block(scores[~is_arm & scores["item_id"].isin(list(item_ids))])
    except ValueError as error:
        raise CapevalError(f"benchmark {source.benchmark_id!r}: {error}") from error
    place = {model: number for number, model in enumerate(block.models)}
    alike = [(place[a], place[b]) for a, b in source.look_alikes if a in place and b in place]
    families = near_duplicate_families(block.scores, alike) if block.models else np.zeros(0, dtype=np.int64)
    known_arms = sorted(set(scores.loc[is_arm, "model_id"]))
    own = encode_score_matrix(scores[is_arm], items=block.items, models=known_arms).values.T
    near = _like_an_arm(block.scores, own)
    for model, other in source.look_alikes:
        for one, two in ((model, other), (other, model)):
            if one in arms and two in place:
                near[place[two]] = True
    free = np.flatnonzero(~np.isin(families, families[near]))
    training = _at_most(free, families, block.models)
    if training.size < MIN_TRAINING_MODELS:
        return _Learned(
            None,
            reason=f"only {counted(int(training.size), 'model')} of benchmark {source.benchmark_id!r} can teach a "
            f"predictor, which needs {MIN_TRAINING_MODELS} models beside the arms with all items scored",
        )
    if np.unique(families[training]).size < 2:
        return _Learned(None, reason=f"all models to learn from ({training.size}) are one family of near-duplicates")
    if len(block.items) < MIN_ITEMS_FOR_PREDICTOR:
        return _Learned(
            None, reason=f"a predictor needs {MIN_ITEMS_FOR_PREDICTOR} items and there are {len(block.items)}"
        )
    settings = source.identification
    fitted, _ = fit_predictor(
        block.scores[training],
        families[training],
        rng=np.random.default_rng([settings.seed, 0]),
        rank=settings.rank,
        l2=settings.l2,
    )
    factors = np.zeros((len(item_ids), fitted.prior_mean.size))
    factors[positions_of(block.items, item_ids)] = fitted.item_factors
    predictor = Predictor(factors, fitted.prior_mean, fitted.l2, fitted.held_out_moments)
    return _Learned(predictor, int(training.size))


def _like_an_arm(scores: FloatArray, arms: FloatArray) -> np.ndarray:
    """Training models that answer as an arm does on nearly all items both have; arms (n_arms, n_items) with NaN."""
    near = np.zeros(scores.shape[0], dtype=np.bool_)
    for own in arms:
        shared = np.isfinite(own)
        if shared.sum() >= MIN_SHARED_ITEMS:
            near |= (scores[:, shared] == own[shared]).mean(axis=1) >= MIN_AGREEMENT
    return near


def _at_most(free: IntArray, families: IntArray, models: Sequence[str]) -> IntArray:
    """At most MAX_TRAINING_MODELS of the free models, by whole families, chosen by a keyed hash."""
    if free.size <= MAX_TRAINING_MODELS:
        return free
    names = [models[place] for place in free]
    split = split_by_family(
        np.searchsorted(free, families[free]), names, training_share=1.0, max_training=MAX_TRAINING_MODELS
    )
    return free[split.training]


def _warm_up(setup: SessionSetup) -> None:
    """Compile, or load, every kernel that the session will call, on two arms and six items."""
    n_items, rank = 6, 0 if setup.predictor is None else setup.predictor.prior_mean.size
    predictor = None
    if setup.predictor is not None:
        moments = PairMoments(0.1, 0.1, 0.25)
        predictor = Predictor(np.zeros((n_items, rank)), np.zeros(rank), setup.predictor.l2, moments)
    draws = make_draws(np.random.default_rng(0), 2, n_items)
    settings = AllocationSettings(batch=2, pull_budget=2 * n_items)
    allocation = make_allocation(POLICIES[setup.config.policy], draws, settings, predictor)
    while (batch := allocation.select(2 * n_items)) is not None:
        arms = np.full(batch.items.size, batch.arm)
        allocation.update(arms, batch.items.astype(np.int64), (batch.items % 2).astype(np.float64))
        _ = allocation.leader, allocation.candidates, allocation.limits(), allocation.estimates
