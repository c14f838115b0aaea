"""The whole comparison on one benchmark: fit every method on training items, predict the pairs of test items.

Order of things: choose (folds 0 and 1 of the training items held out in turn), calibrate (fits on folds 0 to 3, read on
fold 4), fit (all training items), evaluate (test items, never seen before).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from capeval_pipeline.methods.bradley_terry import BoolArray, FloatArray, IntArray
from capeval_pipeline.methods.ecc.baselines import LabelFit, LinearFit, fit_human_labels, fit_linear, pair_logits
from capeval_pipeline.methods.ecc.calibration import (
    ProbeCalibration,
    calibrate_probe,
    calibrated_losses,
    fit_blend,
    fit_offset,
)
from capeval_pipeline.methods.ecc.evaluation import EvaluationPairs, Gain, estimate_gains, evaluation_pairs
from capeval_pipeline.methods.ecc.fit import EccFit, fit_ecc, fit_global, heaviest_first, n_restarts_for
from capeval_pipeline.methods.ecc.inference import (
    log_sigmoid,
    logits_of,
    losses_of,
    mixture_probabilities,
    place_probes,
    place_texts,
)
from capeval_pipeline.methods.ecc.selection import CLUSTER_COUNTS, RIDGES, Choice, Map, choose_settings
from capeval_pipeline.methods.ecc.votes import Votes
from capeval_pipeline.methods.mean_scores import draw_item_resamples

CALIBRATION_FOLD = 4
CONTROL = "carry_over_control"
MIXTURES = ("ecc", "ecc_shrunk", "emb_only", "comp_only")


@dataclass(frozen=True)
class EccProblem:
    """One benchmark as arrays.

    votes : of all n_items items; items with fewer than two non-tied pairs have none
    embeddings : (n_items, n_dimensions), None without any text
    is_test : (n_items,); fold : (n_items,) 0 to 4, read of training items only
    category : (n_items,) position of the category, -1 where none; n_categories may be 0
    """

    votes: Votes
    embeddings: npt.NDArray[np.floating] | None
    is_test: BoolArray
    fold: IntArray
    category: IntArray
    n_categories: int

    @property
    def train_items(self) -> IntArray:
        """Training items with votes."""
        kept = self.votes.voted_items
        return kept[~self.is_test[kept]]

    @property
    def test_items(self) -> IntArray:
        """Test items with votes."""
        kept = self.votes.voted_items
        return kept[self.is_test[kept]]

    @property
    def vectors(self) -> npt.NDArray[np.floating]:
        """Embeddings; zero vectors, which say nothing, without text."""
        return np.zeros((self.votes.n_items, 1)) if self.embeddings is None else self.embeddings


@dataclass(frozen=True)
class EccOptions:
    """Settings of the study; names and meanings are those of stage_settings."""

    is_paper: bool = False
    seed: int = 0
    n_clusters: int = 30
    embedding_weight: float = 3.0
    temperature: float = 0.1
    ridge: float = 1.0
    n_resamples: int = 1000
    cluster_counts: tuple[int, ...] = CLUSTER_COUNTS
    ridges: tuple[float, ...] = RIDGES
    n_restarts: int | None = None
    """Starts of ecc_shrunk; by default as many as it takes to find planted clusters."""


@dataclass(frozen=True)
class FittedMethods:
    """Everything fitted on one set of items.

    global_strengths : (n_models,) the reference ranking; mixtures : by method, clusters heaviest first
    linear, labels : None where they do not apply; seconds : by method, of the clock that was given
    """

    global_strengths: FloatArray
    mixtures: Mapping[str, EccFit]
    linear: LinearFit | None
    labels: LabelFit | None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def blend_components(self) -> tuple[str, ...]:
        """What the blend is made of, in the order of its weights."""
        names = [name for name in ("ecc_shrunk",) if name in self.mixtures]
        names += ["linear"] * (self.linear is not None) + ["human_labels"] * (self.labels is not None)
        return (*names, "global")


@dataclass(frozen=True)
class EccStudy:
    """Result of the study; see run_ecc_study.

    fitted : on all training items; clusters in order of their share of all items
    responsibilities : by mixture, (n_items, n_clusters) of every item: fitted for training items, else from the text
    gains : keyed (method, inference, pair_subset); `without_probe` : the rule's reference, keyed by pair_subset
    calibrations : by mixture; blend_weights : in the order of fitted.blend_components
    agreement_of_shared_pairs : share of evaluation pairs with a probe model that the probe's outcome carries over to
    """

    fitted: FittedMethods
    responsibilities: Mapping[str, FloatArray]
    choice: Choice | None
    gains: Mapping[tuple[str, str, str], Gain]
    without_probe: Mapping[str, Gain]
    calibrations: Mapping[str, ProbeCalibration]
    blend_weights: FloatArray | None
    offset_of_control: float
    agreement_of_shared_pairs: float


def run_ecc_study(
    problem: EccProblem,
    options: EccOptions,
    *,
    choice: Choice | None = None,
    map_cells: Map = map,
    clock: Callable[[], float] = lambda: 0.0,
) -> EccStudy:
    """Fit, calibrate and evaluate every method that applies.

    choice : settings of `ecc_shrunk`; by default the held-out choice is made

    Without embeddings only `comp_only` applies and only probes place an item. Categories need at least two among the
    training items.
    """
    train = problem.train_items
    choice = _settled_choice(problem, options, choice, map_cells)
    fitted = _ordered_by_share(problem, fit_methods(problem, train, options, choice, clock=clock))
    is_calibration = problem.fold[train] == CALIBRATION_FOLD
    early = fit_methods(problem, train[~is_calibration], options, choice, for_calibration=True)
    learnt = _side(problem, early, train[is_calibration])
    tested = _side(problem, fitted, problem.test_items)

    losses = _uncalibrated_losses(problem, tested)
    offset = fit_offset(learnt.logits["global"], learnt.pairs.carry_over)
    losses[CONTROL, "probe"] = -log_sigmoid(tested.logits["global"] + offset * tested.pairs.carry_over)
    calibrated = None if choice is None else _calibrate(problem, learnt, tested)
    without: dict[tuple[str, str], FloatArray] = {}
    if calibrated is not None:
        losses |= calibrated.losses
        without["ecc_shrunk", "emb_probe_calibrated"] = calibrated.without_probe

    pairs = tested.pairs
    rng = _rng(options.seed, "gains")
    weights = draw_item_resamples(len(tested.items), options.n_resamples, rng).astype(np.float64)
    losses_global = -log_sigmoid(tested.logits["global"])
    shared = pairs.carry_over[pairs.is_shared]
    return EccStudy(
        fitted=fitted,
        responsibilities={name: place_all(problem, fit) for name, fit in fitted.mixtures.items()},
        choice=choice,
        gains=estimate_gains(losses, losses_global, pairs, weights),
        without_probe={
            subset: gain for (*_, subset), gain in estimate_gains(without, losses_global, pairs, weights).items()
        },
        calibrations={} if calibrated is None else calibrated.calibrations,
        blend_weights=None if calibrated is None else calibrated.blend_weights,
        offset_of_control=offset,
        agreement_of_shared_pairs=float((shared > 0).mean()) if len(shared) else float("nan"),
    )


def _settled_choice(problem: EccProblem, options: EccOptions, choice: Choice | None, map_cells: Map) -> Choice | None:
    """Settings of `ecc_shrunk`: as given, else by the held-out choice; None where that method does not apply."""
    if options.is_paper or problem.embeddings is None:
        return None
    if choice is not None:
        return choice
    train = problem.train_items
    return choose_settings(
        problem.votes.restricted_to(train),
        problem.vectors[train],
        problem.fold[train],
        seed=options.seed,
        temperature=options.temperature,
        cluster_counts=options.cluster_counts,
        ridges=options.ridges,
        map_cells=map_cells,
    )


@dataclass(frozen=True)
class _Side:
    """Items to predict, by fits that have not seen them.

    logits : log-odds of the pairs' winners before any answer is seen, by component of the blend
    """

    fitted: FittedMethods
    items: IntArray
    pairs: EvaluationPairs
    logits: Mapping[str, FloatArray]


def _side(problem: EccProblem, fitted: FittedMethods, items: IntArray) -> _Side:
    pairs = evaluation_pairs(problem.votes.restricted_to(items))
    return _Side(fitted, items, pairs, _logits_by_text(problem, fitted, items, pairs))


def _uncalibrated_losses(problem: EccProblem, tested: _Side) -> dict[tuple[str, str], FloatArray]:
    losses: dict[tuple[str, str], FloatArray] = {}
    for name, fit in tested.fitted.mixtures.items():
        losses |= _mixture_losses(problem, fit, name, tested.items, tested.pairs)
    for name in ("linear", "human_labels"):
        if name in tested.logits:
            losses[name, "emb"] = -log_sigmoid(tested.logits[name])
    return losses


def fit_methods(
    problem: EccProblem,
    items: IntArray,
    options: EccOptions,
    choice: Choice | None,
    *,
    for_calibration: bool = False,
    clock: Callable[[], float] = lambda: 0.0,
) -> FittedMethods:
    """Fit on these items; for_calibration leaves out what nobody calibrates (emb_only, comp_only)."""
    votes, vectors = problem.votes.restricted_to(items), problem.vectors[items]
    reference = fit_global(votes)
    mixtures: dict[str, EccFit] = {}
    seconds: dict[str, float] = {}
    linear = labels = None
    has_text = problem.embeddings is not None
    for name in ("ecc", "emb_only", "comp_only"):
        if (for_calibration and name != "ecc") or (not has_text and name != "comp_only"):
            continue
        started = clock()
        mixtures[name] = fit_ecc(
            votes,
            vectors,
            n_clusters=options.n_clusters,
            embedding_weight=options.embedding_weight,
            temperature=options.temperature,
            ridge=options.ridge,
            uses_embeddings=name != "comp_only",
            uses_comparisons=name != "emb_only",
            seed=options.seed,
        )
        seconds[name] = clock() - started
    if choice is not None:
        started = clock()
        mixtures["ecc_shrunk"] = fit_ecc(
            votes,
            vectors,
            n_clusters=choice.n_clusters,
            embedding_weight=choice.embedding_weight,
            temperature=options.temperature,
            ridge=choice.ridge,
            prior=reference,
            n_restarts=options.n_restarts or n_restarts_for(choice.n_clusters),
            seed=options.seed,
        )
        seconds["ecc_shrunk"] = clock() - started
        started = clock()
        linear, labels = _fit_baselines(problem, items, votes, reference)
        seconds["linear"] = clock() - started
    return FittedMethods(reference, mixtures, linear, labels, seconds)


def learn_blend(problem: EccProblem, options: EccOptions, choice: Choice) -> FloatArray:
    """Weights of the blend, in the order of FittedMethods.blend_components: the study's own, from the same fits."""
    train = problem.train_items
    is_calibration = problem.fold[train] == CALIBRATION_FOLD
    early = fit_methods(problem, train[~is_calibration], options, choice, for_calibration=True)
    items = train[is_calibration]
    logits = _logits_by_text(problem, early, items, evaluation_pairs(problem.votes.restricted_to(items)))
    return fit_blend(np.column_stack([logits[name] for name in early.blend_components]))


def fit_baselines(problem: EccProblem) -> FittedMethods:
    """The methods without a mixture alone, on all training items."""
    train = problem.train_items
    votes = problem.votes.restricted_to(train)
    reference = fit_global(votes)
    linear, labels = _fit_baselines(problem, train, votes, reference)
    return FittedMethods(reference, {}, linear, labels)


def _fit_baselines(
    problem: EccProblem, items: IntArray, votes: Votes, reference: FloatArray
) -> tuple[LinearFit, LabelFit | None]:
    linear = fit_linear(votes, problem.vectors[items])
    known = problem.category[problem.train_items]
    if len(np.unique(known[known >= 0])) < 2:
        return linear, None
    return linear, fit_human_labels(votes, problem.category[items], problem.n_categories, reference)


def place_all(problem: EccProblem, fit: EccFit) -> FloatArray:
    """Responsibilities of every item: fitted for training items, from the text for all others."""
    placed = place_texts(fit, problem.vectors)
    placed[problem.train_items] = fit.responsibilities
    return placed


def _ordered_by_share(problem: EccProblem, fitted: FittedMethods) -> FittedMethods:
    """Number clusters by their share of all items, which is what tables show, not of the training items alone."""
    mixtures = {name: fit.reordered(heaviest_first(place_all(problem, fit))) for name, fit in fitted.mixtures.items()}
    return FittedMethods(fitted.global_strengths, mixtures, fitted.linear, fitted.labels, fitted.seconds)


def _mixture_losses(
    problem: EccProblem, fit: EccFit, name: str, items: IntArray, pairs: EvaluationPairs
) -> dict[tuple[str, str], FloatArray]:
    def losses(responsibilities: FloatArray) -> FloatArray:
        return losses_of(mixture_probabilities(responsibilities, fit.strengths, pairs.item, pairs.winner, pairs.loser))

    found = {(name, "probe"): losses(place_probes(fit, None, pairs.probe_winner, pairs.probe_loser))}
    if problem.embeddings is not None:
        vectors = problem.vectors[items]
        found[name, "emb"] = losses(place_texts(fit, vectors))
        found[name, "emb_probe"] = losses(place_probes(fit, vectors, pairs.probe_winner, pairs.probe_loser))
    return found


def _logits_by_text(
    problem: EccProblem, fitted: FittedMethods, items: IntArray, pairs: EvaluationPairs
) -> dict[str, FloatArray]:
    """Log-odds of the pairs' winners before any answer is seen, by component of the blend."""
    strengths = fitted.global_strengths
    found = {"global": strengths[pairs.winner] - strengths[pairs.loser]}
    if "ecc_shrunk" in fitted.mixtures:
        fit = fitted.mixtures["ecc_shrunk"]
        placed = place_texts(fit, problem.vectors[items])
        found["ecc_shrunk"] = logits_of(
            mixture_probabilities(placed, fit.strengths, pairs.item, pairs.winner, pairs.loser)
        )
    for name, by_item in item_strengths(problem, fitted, items).items():
        found[name] = pair_logits(by_item, pairs.item, pairs.winner, pairs.loser)
    return found


def item_strengths(problem: EccProblem, fitted: FittedMethods, items: IntArray) -> dict[str, FloatArray]:
    """Strengths on each of the items by the methods without a mixture, (n_items, n_models)."""
    found = {}
    if fitted.linear is not None:
        found["linear"] = fitted.linear.strengths(problem.vectors[items])
    if fitted.labels is not None:
        category = problem.category[items]
        # A category without training items has no ranking of its own.
        seen = np.isin(category, np.unique(problem.category[problem.train_items]))
        found["human_labels"] = fitted.labels.strengths(np.where(seen, category, -1))
    return found


@dataclass(frozen=True)
class _Calibrated:
    """Losses of what is learnt on the calibration fifth; without_probe : those of ecc_shrunk refitted at alpha = 0."""

    losses: Mapping[tuple[str, str], FloatArray]
    without_probe: FloatArray
    calibrations: Mapping[str, ProbeCalibration]
    blend_weights: FloatArray


def _calibrate(problem: EccProblem, learnt: _Side, tested: _Side) -> _Calibrated:
    """Learn probes and the blend on one side, predict the other."""
    known, vectors = problem.vectors[learnt.items], problem.vectors[tested.items]
    losses: dict[tuple[str, str], FloatArray] = {}
    calibrations = {}
    for name in ("ecc", "ecc_shrunk"):
        found = calibrate_probe(learnt.fitted.mixtures[name], known, learnt.pairs)
        calibrations[name] = found
        fit = tested.fitted.mixtures[name]
        losses[name, "emb_probe_calibrated"] = calibrated_losses(found, fit, vectors, tested.pairs)
    sharpened = calibrate_probe(learnt.fitted.mixtures["ecc_shrunk"], known, learnt.pairs, probe_weights=(0.0,))
    slope = fit_offset(learnt.logits["linear"], learnt.pairs.carry_over)
    with_offset = tested.logits["linear"] + slope * tested.pairs.carry_over
    losses["linear", "emb_probe_calibrated"] = -log_sigmoid(with_offset)
    components = tested.fitted.blend_components
    blend_weights = fit_blend(np.column_stack([learnt.logits[name] for name in components]))
    blended = np.column_stack([tested.logits[name] for name in components]) @ blend_weights
    losses["blend", "emb"] = -log_sigmoid(blended)
    return _Calibrated(
        losses=losses,
        without_probe=calibrated_losses(sharpened, tested.fitted.mixtures["ecc_shrunk"], vectors, tested.pairs),
        calibrations=calibrations,
        blend_weights=blend_weights,
    )


def _rng(seed: int, purpose: str) -> np.random.Generator:
    """A generator of its own for each purpose, so that leaving one method out moves no other's numbers."""
    return np.random.default_rng(np.random.SeedSequence([seed, *purpose.encode()]))
