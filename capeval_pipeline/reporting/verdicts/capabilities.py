"""Sentences about clusters, probes, labels and routing: each number beside its interval and its control."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures.ecc_gains import router_name
from capeval_pipeline.reporting.numbers import true_minus

SMALLEST_USEFUL_DIFFERENCE = 1.0
"""Points of disjoint gain that a probe must add for sure before it is called useful."""


@dataclass(frozen=True)
class GainFigure:
    """A gain in percent with its 95 % interval; NaN where unknown."""

    gain: float
    lower: float = math.nan
    upper: float = math.nan


def percent(figure: GainFigure) -> str:
    """9.3 % (7.7 to 11.5)."""
    if math.isnan(figure.gain):
        return "an unknown gain (too few test pairs)"
    if math.isnan(figure.lower):
        return _points(figure.gain)
    return f"{_points(figure.gain)} ({_decimal(figure.lower)} to {_decimal(figure.upper)})"


def clusters_sentence(
    *,
    n_clusters: int,
    gain: GainFigure,
    linear: GainFigure | None,
    paper: GainFigure | None,
    blend: GainFigure | None,
    n_items: int,
    n_dropped: int,
    n_models_left_out: int = 0,
    n_training_items: int | None = None,
    best: Sequence[str] | None = None,
) -> str:
    """How much clusters explain of who beats whom, beside one ranking, the linear model and the paper's settings."""
    if n_clusters == 1:
        head = "no clusters found that predict better than one ranking"
    elif math.isnan(gain.gain):
        head = f"{n_clusters} clusters of items; too few test pairs to say what they explain"
    elif gain.lower <= 0.0 <= gain.upper:
        head = f"{n_clusters} clusters of items; no difference to one ranking shown: {percent(gain)}"
    elif gain.gain < 0:
        head = f"{n_clusters} clusters of items explain who beats whom worse than one ranking: {percent(gain)}"
    else:
        head = f"{n_clusters} clusters of items explain who beats whom {percent(gain)} better than one ranking"
    parts = [head[0].upper() + head[1:]]
    if linear is not None:
        parts.append(f"a linear model of the text does {_short(linear)}")
        if linear.gain > gain.gain:
            parts[-1] += ", which is more"
    if blend is not None:
        parts.append(f"a blend of all, the one to use for prediction, {_short(blend)}")
    if paper is not None:
        parts.append(f"the paper's settings {_short(paper)}")
    sentence = "; ".join(parts) + "." + _best_sentence(best)
    if n_dropped:
        sentence += (
            f" {n_dropped:,} of {counted(n_items, 'item')} had fewer than two pairs of models that "
            "differ and say nothing: "
            "every gain is for items on which models disagree."
        )
    if n_models_left_out:
        sentence += f" Left out of the clusters: {counted(n_models_left_out, 'model')} with lower scores."
    return sentence + _crowded(n_clusters, n_training_items)


def _best_sentence(best: Sequence[str] | None) -> str:
    """Who wins; best : methods that cannot be told from the best one, that one first, None where nobody compared."""
    if best is None:
        return ""
    if not best:
        return " Who wins before any answer is seen: nothing; none is shown to predict better than one ranking."
    names = [f"the {method_word(method)}" for method in best]
    if len(names) == 1:
        return f" Who wins before any answer is seen: {names[0]}."
    told = ", ".join(names[:-1]) + f" and {names[-1]}"
    return f" Who wins before any answer is seen: {told} cannot be told apart."


WORDS = {"ecc_shrunk": "clusters", "linear": "linear model of the text", "human_labels": "given categories"}


def method_word(method: str) -> str:
    """A method in a word or two, for a sentence."""
    return WORDS.get(method, method)


def no_text_sentence(
    *, n_clusters: int, gain: GainFigure, control: GainFigure, n_training_items: int | None = None
) -> str:
    """Where items have no text: clusters of comparisons alone, placed by a probe."""
    if gain.lower <= 0.0 <= gain.upper:
        found = "show no difference to"
    else:
        found = "predict worse than" if gain.gain < 0 else "predict better than"
    return (
        f"Items have no text, so clusters come from comparisons alone and a new item can only be placed by a probe: "
        f"{n_clusters} clusters then {found} one ranking, {percent(gain)}; a rule without clusters, on the "
        f"same pairs: {percent(control)}."
    ) + _crowded(n_clusters, n_training_items)


def _crowded(n_clusters: int, n_training_items: int | None) -> str:
    """A warning where a configured number of clusters has fewer than five items each."""
    if n_training_items is None or n_clusters <= max(n_training_items / 5, 1):
        return ""
    return (
        f" {n_clusters} clusters are many for {counted(n_training_items, 'training item')}; only the ridge holds them."
    )


def is_probe_useful(*, excess_disjoint_lower: float, gain_all: float, control_all: float) -> bool:
    """Useful only if surely a point better on pairs that share no model with it, and better than the control on all."""
    return excess_disjoint_lower >= SMALLEST_USEFUL_DIFFERENCE and gain_all > control_all


def probe_sentence(
    *,
    gain_all: float,
    control_all: float,
    gain_disjoint: float,
    without_disjoint: float,
    excess_disjoint_lower: float,
) -> str:
    """What one observed pair adds, beside the rule that needs no clusters; without_disjoint is without the probe."""
    facts = (
        f"One observed pair makes the gain {_points(gain_all)}, a rule without clusters reaches "
        f"{_points(control_all)} on the same pairs; on pairs sharing no model with the probe: "
        f"{_points(gain_disjoint)} with it, {_points(without_disjoint)} without."
    )
    if math.isnan(gain_all) or math.isnan(gain_disjoint) or math.isnan(excess_disjoint_lower):
        return f"{facts} Too few test pairs to say whether the probe helps."
    useful = is_probe_useful(excess_disjoint_lower=excess_disjoint_lower, gain_all=gain_all, control_all=control_all)
    return f"{facts} The probe is {'useful' if useful else 'not shown to be useful'} beyond what it gives away itself."


def human_labels_sentence(*, n_categories: int, labels: GainFigure, shrunk: GainFigure, paper: GainFigure) -> str:
    """Given categories against clusters, both before any answer is seen."""
    if labels.lower <= 0.0 <= labels.upper:
        what = f"gain {percent(labels)}, so no difference to one ranking is shown"
    else:
        what = f"gain {percent(labels)}"
    return (
        f"The {n_categories} categories given with the items {what}; clusters without a probe gain {percent(shrunk)}, "
        f"with the paper's settings {percent(paper)}."
    )


def routing_sentence(
    *,
    router: str,
    score: float,
    score_lower: float,
    score_upper: float,
    share: float,
    global_best_model: str,
    global_best: float,
    oracle: float,
    n_items: int,
    is_probe_winner_oracle: bool,
) -> str:
    """What routing by clusters reaches between the best single model and the best model of each item."""
    share_text = (
        "" if math.isnan(share) else f", {true_minus(f'{100 * share:.0f} %')} of what perfect routing would add"
    )
    sentence = (
        f"Routing {counted(n_items, 'test item')} by {router_name(router)} reaches {score:.3f} "
        f"({score_lower:.3f} to {score_upper:.3f}){share_text}; "
        f"always {global_best_model}: {global_best:.3f}, perfect: {oracle:.3f}."
    )
    if is_probe_winner_oracle:
        sentence += (
            " With a probe that is known to differ, its winner is right by construction, so routing with that probe "
            "measures nothing."
        )
    return sentence


def policies_sentence(
    *,
    informative_random: float,
    informative_eig: float,
    random_all: float,
    eig_all: float,
    fixed_all: float,
    random_disjoint: float,
    eig_disjoint: float,
    fixed_disjoint: float,
    n_models_asked: int | None = None,
) -> str:
    """What choosing the pair to ask is worth, ties allowed; n_models_asked : where not all models could be asked."""
    return (
        f"Asking the most informative pair first makes the gain {_points(eig_all)}, one pair for all items "
        f"{_points(fixed_all)}, a random pair {_points(random_all)}; on pairs sharing no model with what was asked: "
        f"{_points(eig_disjoint)}, {_points(fixed_disjoint)} and {_points(random_disjoint)}. "
        f"{100 * informative_eig:.0f} % of the most informative pairs differ, {100 * informative_random:.0f} % of "
        "random ones."
        + (
            f" Asked and predicted are {counted(n_models_asked, 'model')} spread over the ranking."
            if n_models_asked
            else ""
        )
    )


def sensitivity_sentence(
    *, method: str, n_draws: int, mean_all: float, sd_all: float, mean_disjoint: float, sd_disjoint: float
) -> str:
    """How far the probe's figures move with its draw."""
    return (
        f"Over {counted(n_draws, 'draw')} of the probe {method} gains {_points(mean_all)} on average "
        f"(sd {sd_all:.1f}); on pairs "
        f"sharing no model with the probe {_points(mean_disjoint)} (sd {sd_disjoint:.1f})."
    )


def cold_start_sentence(
    *,
    pull_budget: int,
    n_held_out: int,
    hierarchical: float,
    hierarchical_unseen: float,
    authors: float,
    control: float,
) -> str:
    """How well a new model's profile is known after some comparisons; the figure to quote is on unseen pairs."""
    return (
        f"On pairs that nothing has decided yet, a new model's profile from {counted(pull_budget, 'comparison')} gains "
        f"{_points(hierarchical_unseen)} over a single strength (mean of "
        f"{counted(n_held_out, 'model')} held out); on all its "
        f"pairs {_points(hierarchical)}, the published rule {_points(authors)}, a rule without clusters "
        f"{_points(control)}."
    )


def out_of_domain_sentence(*, method: str, n_domains: int, mean: float, worst_category: str, worst: float) -> str:
    """What clusters say about categories they never saw; negative gains are said as they are."""
    return (
        f"On categories left out of the fit, each of {n_domains} in turn, {method} gains {_points(mean)} over one "
        f"ranking on average before any answer is seen; least on {worst_category}: {_points(worst)}."
    )


def _points(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{_decimal(value)} %"


def _decimal(value: float) -> str:
    """One decimal with a true minus; what rounds to 0 has no sign."""
    return true_minus(f"{value:.1f}")


def _short(figure: GainFigure) -> str:
    return _points(figure.gain)
