"""Sentences about who is best: the leader, what it reaches, and who cannot be told from it."""

import math
from collections.abc import Sequence

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.numbers import between, score

N_NAMED = 3


def strengths_sentence(
    *,
    best_model: str,
    mean_score: float,
    score_lower: float,
    score_upper: float,
    tied_models: Sequence[str],
    n_models: int,
    n_items: int,
    n_separated: int = 0,
    n_components: int = 1,
    shows_all_pairs: bool = True,
    is_judged: bool = False,
    agreement: float = math.nan,
) -> str:
    """Who leads by mean score (judgments only: by strength), with its interval and the models it shares the top with.

    tied_models : others that cannot be told from the leader, best first
    agreement : share of repeated judgments of one pair that agree, NaN without any
    """
    measure = "share of judgments won" if is_judged else "mean score"
    if math.isnan(mean_score):
        reached = "no known score"
    elif math.isnan(score_lower) or math.isnan(score_upper):
        reached = f"a {measure} of {score(mean_score)} (no interval: the range of scores is not declared)"
    else:
        reached = f"a {measure} of {score(mean_score)} ({between(score_lower, score_upper)})"
    leads = "is the only model," if n_models == 1 else f"leads {counted(n_models, 'model')}"
    parts = [f"{best_model} {leads} on {counted(n_items, 'item')} with {reached}"]
    if tied_models:
        named = ", ".join(tied_models[:N_NAMED])
        more = f" and {len(tied_models) - N_NAMED} more" if len(tied_models) > N_NAMED else ""
        parts.append(f"no difference is shown to {named}{more}")
    elif n_models > 1:
        parts.append("every other model is significantly worse")
    if n_separated:
        verb = "models have" if n_separated > 1 else "model has"
        parts.append(f"{n_separated} {verb} won or lost every comparison, so their strength has no bound on that side")
    if n_components > 1:
        parts.append(f"models fall into {n_components} groups that never met and are not compared across them")
    if not shows_all_pairs:
        parts.append("the table of pairs holds the best 100 and neighbours in rank; ranks use every pair")
    if not math.isnan(agreement):
        parts.append(f"repeated judgments of one pair agree in {100 * agreement:.0f} % of cases")
    return "; ".join(parts) + "."
