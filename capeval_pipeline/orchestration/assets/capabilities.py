"""Capabilities: how strong models are, which clusters of items tell them apart, and how well that predicts.

Each body reads tables, encodes them, calls methods and returns frames. What a cluster is, how it is fitted and how it
is judged stands in methods/ecc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.orchestration.assets.capability_uses import (
    cold_start,
    out_of_domain,
    probe_policies,
    probe_sensitivity,
    routing,
)
from capeval_pipeline.orchestration.capability_inputs import (
    ECC_INPUTS,
    describe_clusters,
    load_problem,
    load_tie_margin,
    options_of,
)
from capeval_pipeline.orchestration.stages import FIT_CHECK, Part, StageResult, Verdict, stage_asset
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

if TYPE_CHECKING:  # numba and scipy stay out of the definitions' import
    import pandas as pd

    from capeval_pipeline.arrays.ecc_problem import LabelledProblem
    from capeval_pipeline.methods.bradley_terry import FloatArray, IntArray
    from capeval_pipeline.methods.ecc.study import EccStudy
    from capeval_pipeline.methods.paired_tests import PairComparisons
    from capeval_pipeline.methods.ranking import Strengths
    from capeval_pipeline.reporting.verdicts.capabilities import GainFigure

STAGE = "capabilities"


@stage_asset(
    stage=STAGE,
    tables=["estimates.strengths", "estimates.model_pairs"],
    inputs=["intermediate.item_scores", "intermediate.item_stats", "staging.stg_judgments"],
    question="strengths",
    check_names={"estimates.strengths": (FIT_CHECK,)},
)
def strengths(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Mean score, Bradley–Terry strength and rank of each model, and which of two models is better.

    Intervals resample items; ranks come with the range that cannot be excluded (Holm over all pairs of models).
    Judgments without scores are ranked by strength.
    """
    needed = ["item_id", "model_id", "score", "quality"]
    item_scores = part.arrow("intermediate.item_scores").select(needed).to_pandas()
    if len(item_scores):
        return _strengths_of_scores(part, settings, item_scores)
    judgments = part.read("staging.stg_judgments")
    if len(judgments):
        return _strengths_of_judgments(settings, judgments)
    raise StageSkipped("no model has a score or a judgment")


@dataclass(frozen=True)
class _Ranked:
    """Models and what they were ranked by, scores or judgments; arrays in the order of the models.

    means : mean, lower, upper, each (n_models,); n_items_of_model : (n_models,); order : models, the best first
    agreement : of the judgments with the ranking, NaN of scores
    """

    models: Sequence[str]
    means: tuple[FloatArray, FloatArray, FloatArray]
    n_items_of_model: IntArray
    strengths: Strengths
    pairs: PairComparisons
    order: IntArray
    n_items: int
    is_judged: bool = False
    agreement: float = float("nan")


def _strengths_of_scores(part: Part, settings: CapabilitiesSettings, item_scores: pd.DataFrame) -> StageResult:
    import numpy as np

    from capeval_pipeline.arrays.score_matrix import encode_score_matrix
    from capeval_pipeline.methods.mean_scores import draw_item_resamples, estimate_mean_scores
    from capeval_pipeline.methods.paired_tests import compare_mean_scores
    from capeval_pipeline.methods.ranking import estimate_strengths, order_models

    quality = encode_score_matrix(item_scores, "quality")
    if len(quality.models) < 2:
        raise StageSkipped(f"{len(quality.models)} model; a comparison takes two")
    scores = encode_score_matrix(item_scores, "score").values
    low, high = part.benchmark.get("score_low"), part.benchmark.get("score_high")
    larger_is_better = part.benchmark.get("higher_is_better") is not False
    weights = draw_item_resamples(len(scores), settings.n_resamples, np.random.default_rng([settings.seed, 1]))
    means = estimate_mean_scores(scores, weights, score_low=low, score_high=high)
    found = estimate_strengths(quality.values, weights, ridge=settings.strength_ridge, tie_margin=load_tie_margin(part))
    pairs = compare_mean_scores(
        scores,
        larger_is_better=larger_is_better,
        score_width=None if low is None or high is None else high - low,
        level=settings.level,
        rng=np.random.default_rng([settings.seed, 2]),
    )
    order = order_models(means.mean if larger_is_better else -means.mean, found.strength)
    of_model = (means.mean, means.lower, means.upper)
    return _strengths_result(_Ranked(quality.models, of_model, means.n_items, found, pairs, order, len(quality.items)))


def _strengths_of_judgments(settings: CapabilitiesSettings, judgments: pd.DataFrame) -> StageResult:
    import numpy as np

    from capeval_pipeline.arrays.comparisons import encode_judgments
    from capeval_pipeline.methods.mean_scores import draw_item_resamples
    from capeval_pipeline.methods.paired_tests import compare_strengths
    from capeval_pipeline.methods.ranking import estimate_strengths_from_votes, order_models

    items = sorted(set(judgments["item_id"]))
    models = sorted({*judgments["model_a_id"], *judgments["model_b_id"]})
    if len(models) < 2:
        raise StageSkipped(f"{len(models)} model; a comparison takes two")
    votes = encode_judgments(judgments, items, models)
    weights = draw_item_resamples(len(items), settings.n_resamples, np.random.default_rng([settings.seed, 1]))
    found = estimate_strengths_from_votes(
        votes.item,
        votes.winner,
        votes.loser,
        weights,
        n_models=len(models),
        was_compared=votes.n_shared,
        ridge=settings.strength_ridge,
    )
    pairs = compare_strengths(found, votes.n_shared, level=settings.level)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = (weights @ votes.outcome_sums) / (weights @ votes.n_judgments)
    lower, upper = np.nanquantile(draws, [0.025, 0.975], axis=0)
    # By strength alone: a mean outcome depends on whom a model was judged against.
    order = order_models(np.zeros(len(models)), found.strength)
    means = (votes.mean_outcome, lower, upper)
    n_items_of_model = (votes.n_judgments > 0).sum(axis=0)
    return _strengths_result(
        _Ranked(models, means, n_items_of_model, found, pairs, order, len(items), True, votes.agreement)
    )


def _strengths_result(ranked: _Ranked) -> StageResult:
    import numpy as np

    from capeval_pipeline.arrays.strength_tables import model_pairs_frame, strengths_frame
    from capeval_pipeline.methods.paired_tests import pairs_worth_showing
    from capeval_pipeline.methods.ranking import rank_models
    from capeval_pipeline.reporting.verdicts.strengths import strengths_sentence

    models, found = ranked.models, ranked.strengths
    mean, lower, upper = ranked.means
    ranking = rank_models(ranked.order, ranked.pairs.verdict)
    shown = np.flatnonzero(pairs_worth_showing(ranked.order))
    best = int(ranked.order[0])
    tied = [models[m] for m in ranked.order[1:] if ranking.tie_group[m] == 1]
    n_separated = int(found.is_separated.sum())
    sentence = strengths_sentence(
        best_model=models[best],
        mean_score=float(mean[best]),
        score_lower=float(lower[best]),
        score_upper=float(upper[best]),
        tied_models=tied,
        n_models=len(models),
        n_items=ranked.n_items,
        n_separated=n_separated,
        n_components=int(found.component.max()) + 1,
        shows_all_pairs=len(shown) == len(ranked.pairs.first),
        is_judged=ranked.is_judged,
        agreement=ranked.agreement,
    )
    return StageResult(
        tables={
            "estimates.strengths": strengths_frame(models, ranked.means, ranked.n_items_of_model, found, ranking),
            "estimates.model_pairs": model_pairs_frame(models, ranked.pairs, shown),
        },
        verdicts=[Verdict("strengths", sentence, "estimates.strengths")],
        numbers={
            "n_models": len(models),
            "n_items": ranked.n_items,
            "n_tied_with_best": len(tied),
            "n_separated": n_separated,
        },
    )


@stage_asset(
    stage=STAGE,
    tables=["estimates.item_embeddings"],
    inputs=["staging.stg_items"],
    question="item_embeddings",
)
def item_embeddings(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Vectors of the items' texts: those given with the items, else the configured embedder's over all prompts."""
    from capeval_pipeline.arrays.ecc_tables import embeddings_table
    from capeval_pipeline.embedders import EMBEDDERS
    from capeval_pipeline.embedders.cache import embed_cached
    from capeval_pipeline.embedders.given import NAME, stack_given

    table = part.arrow("staging.stg_items").sort_by("item_id")
    items = table.column("item_id").to_pylist()
    given = table.column("embedding").to_pylist()
    prompts = [prompt or "" for prompt in table.column("prompt").to_pylist()]
    if any(vector for vector in given):
        embedder, vectors = NAME, stack_given([vector or None for vector in given])
    elif any(prompts):
        if settings.embedder not in EMBEDDERS:
            raise ValueError(f"embedder {settings.embedder!r} is unknown; expected one of {', '.join(EMBEDDERS)}")
        chosen = EMBEDDERS[settings.embedder]
        embedder = f"{chosen.name} {chosen.version}"
        vectors = embed_cached(chosen, prompts, part.cache_dir / "embeddings")
    else:
        raise StageSkipped("no item has a prompt or an embedding")
    n_silent = int((~vectors.any(axis=1)).sum())
    sentence = f"Vectors by {embedder}: {counted(len(items), 'item')}, {counted(vectors.shape[1], 'dimension')}" + (
        f"; without a text that could be placed: {n_silent:,}." if n_silent else "."
    )
    return StageResult(
        tables={"estimates.item_embeddings": embeddings_table(items, embedder, vectors)},
        verdicts=[Verdict("item_embeddings", sentence, "estimates.item_embeddings")],
        numbers={"n_items": len(items), "n_dimensions": vectors.shape[1], "n_without_text": n_silent},
    )


@stage_asset(
    stage=STAGE,
    tables=[
        "estimates.ecc_fits",
        "estimates.ecc_grid",
        "estimates.cluster_responsibilities",
        "estimates.cluster_strengths",
        "estimates.clusters",
        "estimates.cluster_categories",
        "estimates.ecc_evaluation",
    ],
    inputs=ECC_INPUTS,
    question="clusters",
    check_names={"estimates.ecc_fits": (FIT_CHECK,)},
)
def ecc(part: Part, settings: CapabilitiesSettings) -> StageResult:
    """Clusters of items that explain both their texts and who beats whom, and what they predict on test items.

    Every figure stands beside one ranking (gain 0), a linear model of the text, and a rule that needs no clusters.
    """
    import time

    import numpy as np

    from capeval_pipeline.arrays.ecc_tables import (
        fits_frame,
        gains_frame,
        grid_frame,
        responsibilities_table,
    )
    from capeval_pipeline.methods.ecc.study import run_ecc_study

    loaded = load_problem(part)
    problem = loaded.problem
    options = options_of(settings)
    with part.executor() as pool:
        study = run_ecc_study(problem, options, map_cells=pool.map, clock=time.process_time)
    is_fitted = np.zeros(len(loaded.items), dtype=bool)
    is_fitted[problem.train_items] = True
    described = describe_clusters(loaded, study, settings)
    tables = {
        "estimates.ecc_fits": fits_frame(
            study,
            options,
            category_ari=described.category_ari,
            n_categories=problem.n_categories,
            n_items=len(problem.train_items),
            n_dropped_all_tied=loaded.n_dropped_all_tied,
            n_dropped_one_pair=loaded.n_dropped_one_pair,
        ),
        "estimates.ecc_grid": grid_frame(study.choice),
        "estimates.cluster_responsibilities": responsibilities_table(study.responsibilities, loaded.items, is_fitted),
        "estimates.cluster_strengths": described.strengths,
        "estimates.clusters": described.clusters,
        "estimates.ecc_evaluation": gains_frame(study.gains),
    }
    if described.categories is not None:
        tables["estimates.cluster_categories"] = described.categories
    return StageResult(
        tables=tables,
        verdicts=_ecc_verdicts(loaded, study, is_paper=options.is_paper),
        numbers=_ecc_numbers(loaded, study),
    )


def _figure(study: EccStudy, method: str, inference: str = "emb") -> GainFigure | None:
    from capeval_pipeline.reporting.verdicts.capabilities import GainFigure

    gain = study.gains.get((method, inference, "all"))
    return None if gain is None else GainFigure(gain.gain_percent, gain.lower, gain.upper)


def _ecc_verdicts(loaded: LabelledProblem, study: EccStudy, *, is_paper: bool) -> list[Verdict]:
    from capeval_pipeline.methods.ecc.evaluation import best_of
    from capeval_pipeline.reporting.verdicts.capabilities import (
        GainFigure,
        clusters_sentence,
        human_labels_sentence,
        no_text_sentence,
    )

    unknown = GainFigure(float("nan"))
    source = "estimates.ecc_evaluation"
    mixtures = study.fitted.mixtures
    if loaded.problem.embeddings is None:
        sentence = no_text_sentence(
            n_clusters=mixtures["comp_only"].n_clusters,
            gain=_figure(study, "comp_only", "probe") or unknown,
            control=_figure(study, "carry_over_control", "probe") or unknown,
            n_training_items=len(loaded.problem.train_items),
        )
        return [Verdict("clusters", sentence, source)]
    method = "ecc" if is_paper else "ecc_shrunk"
    rivals = {
        name: study.gains[name, "emb", "all"]
        for name in ("ecc_shrunk", "linear", "human_labels")
        if (name, "emb", "all") in study.gains and not (name == "ecc_shrunk" and mixtures[name].n_clusters == 1)
    }
    sentences = [
        Verdict(
            "clusters",
            clusters_sentence(
                n_clusters=mixtures[method].n_clusters,
                gain=_figure(study, method) or unknown,
                linear=_figure(study, "linear"),
                paper=None if is_paper else _figure(study, "ecc"),
                blend=_figure(study, "blend"),
                n_items=len(loaded.items),
                n_dropped=loaded.n_dropped_all_tied + loaded.n_dropped_one_pair,
                n_models_left_out=loaded.n_models_left_out,
                n_training_items=len(loaded.problem.train_items),
                best=None if is_paper else best_of(rivals),
            ),
            source,
        )
    ]
    sentences.append(Verdict("probe", _probe_verdict(study, method, is_paper=is_paper), source))
    labels = _figure(study, "human_labels")
    if labels is not None:
        compared = human_labels_sentence(
            n_categories=loaded.problem.n_categories,
            labels=labels,
            shrunk=_figure(study, "ecc_shrunk") or unknown,
            paper=_figure(study, "ecc") or unknown,
        )
        sentences.append(Verdict("human_labels", compared, source))
    return sentences


def _probe_verdict(study: EccStudy, method: str, *, is_paper: bool) -> str:
    from capeval_pipeline.reporting.verdicts.capabilities import probe_sentence

    inference = "emb_probe" if is_paper else "emb_probe_calibrated"
    with_probe = study.gains[method, inference, "disjoint"]
    # Without the probe: the paper's rule is the text alone; a calibrated one is refitted without it, because the
    # sharpening it brings along gains by itself.
    without = study.gains[method, "emb", "disjoint"] if is_paper else study.without_probe["disjoint"]
    return probe_sentence(
        gain_all=study.gains[method, inference, "all"].gain_percent,
        control_all=study.gains["carry_over_control", "probe", "all"].gain_percent,
        gain_disjoint=with_probe.gain_percent,
        without_disjoint=without.gain_percent,
        excess_disjoint_lower=with_probe.difference_interval(without)[0],
    )


def _ecc_numbers(loaded: LabelledProblem, study: EccStudy) -> dict[str, float | int]:
    import numpy as np

    numbers: dict[str, float | int] = {
        "n_kept_items": len(loaded.problem.votes.voted_items),
        "n_votes": len(loaded.problem.votes.item),
        "largest_gradient": max(fit.max_gradient for fit in study.fitted.mixtures.values()),
    }
    if study.choice is not None:
        numbers["n_clusters_chosen"] = study.choice.n_clusters
    for (method, inference, subset), gain in study.gains.items():
        if subset == "all" and inference in ("emb", "probe") and not np.isnan(gain.gain_percent):
            numbers[f"gain_percent_{method}_{inference}"] = round(gain.gain_percent, 3)
    return numbers


CAPABILITY_STEPS = (
    strengths,
    item_embeddings,
    ecc,
    routing,
    probe_policies,
    probe_sensitivity,
    cold_start,
    out_of_domain,
)
"""Steps of the stage."""
