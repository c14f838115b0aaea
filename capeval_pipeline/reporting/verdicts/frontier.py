"""Sentences about the capability frontier: numbers in, one plain sentence out; the number first, then its control."""

import math
from collections.abc import Sequence

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.numbers import between, percent, true_minus

_NAMED_MODELS = 3


def frontier_sentence(
    *,
    verdict: str,
    reason: str,
    best_model: str,
    best_quality: float,
    best_cost: float,
    value: float,
    lower: float,
    upper: float,
    naive: float,
    constant: float,
    held_out: float = math.nan,
) -> str:
    """What the best choice of model per item would reach at the best single model's cost.

    value, lower, upper : debiased quality at that cost; naive : its plug-in value; constant : best mix of models
    without looking at the item, at the same cost; held_out : the best model's quality on items that did not choose
    it, where they are few
    """
    lucky = "" if math.isnan(held_out) else f"; {_share(held_out)} on items that did not choose it"
    single = f"{best_model} ({_money(best_cost)} per item, {_share(best_quality)} right{lucky})"
    if verdict == "upper_bound_only":
        return (
            f"{_at_most(upper)}: at the cost of {single}, with one draw per cell, luck cannot be told from "
            f"skill. Two draws per cell or more would give a bracket."
        )
    if verdict == "bracket_only":
        return (
            f"{_bracket(lower, upper)} at the cost of {single}; no single figure: {reason}. "
            f"Naively computed it would be {_share(naive)}."
        )
    reduction = (value - best_quality) / (1.0 - best_quality) if best_quality < 1.0 else math.nan
    fewer = "" if math.isnan(reduction) else f"; that is {_fewer(reduction)}"
    if reduction > 0 and lower <= best_quality:
        fewer += ", though the limits leave open that it is none"
    return (
        f"At the cost of {single} the best possible choice of model per item would be right {_share(value)} "
        f"({between(lower, upper, percent)}){fewer}. The naive figure, {_share(naive)}, is {_off(naive - value)}; "
        f"the best mix without looking at the item reaches "
        f"{_share(constant)}."
    )


def oracle_sentence(
    *, verdict: str, reason: str, value: float, lower: float, upper: float, naive: float, best_quality: float
) -> str:
    """The same where no cost is known: the best choice of model per item at any price."""
    no_costs = "Fewer than two models have costs for their items, so no frontier is drawn."
    if verdict == "upper_bound_only":
        return (
            f"{_at_most(upper)} for the best possible choice of model per item, against {_share(best_quality)} "
            f"of the best single model: with one draw per cell luck cannot be told from skill. Two draws per cell or "
            f"more would give a bracket. {no_costs}"
        )
    if verdict == "bracket_only":
        return (
            f"{_bracket(lower, upper)} for the best possible choice of model per item, against "
            f"{_share(best_quality)} of the best single model; no single figure: {reason}. {no_costs}"
        )
    return (
        f"The best possible choice of model per item would be right {_share(value)} "
        f"({between(lower, upper, percent)}), against {_share(best_quality)} of the best single model. The naive "
        f"figure, {_share(naive)}, is {_off(naive - value)}. {no_costs}"
    )


def saving_sentence(
    *,
    best_model: str,
    best_quality: float,
    best_cost: float,
    saving: float,
    saving_lower: float,
    saving_upper: float,
    constant_saving: float = math.nan,
) -> str | None:
    """At what cost the best single model's quality could be had; None where nothing can be said.

    The frontier may be flat there: where its limits reach that quality at costs more than a factor of 3 apart (or the
    lower one never does), the range is given beside the figure. constant_saving : of the best mix of models without
    looking at the item
    """
    if math.isnan(saving) or not best_cost > 0:
        return None
    cost = (1.0 - saving) * best_cost
    least = (1.0 - saving_upper) * best_cost
    most = (1.0 - saving_lower) * best_cost
    quality = f"The quality of {best_model} ({_share(best_quality)})"
    figure = f"{quality} could be had for {_money(cost)} instead of {_money(best_cost)} per item"
    if saving <= 0:
        return f"{quality} could not be had for less than its {_money(best_cost)} per item."
    if math.isnan(least) or math.isnan(most) or most > 3.0 * least:
        at_least = "an unknown cost" if math.isnan(least) else _money(least)
        at_most = "no saving at all" if math.isnan(most) or most >= best_cost else _money(most)
        open_range = f"but the draws leave open anything from {at_least} to {at_most}"
        return f"{figure} ({_share(saving)} less), {open_range}.{_by_mixing(constant_saving)}"
    return f"{figure} ({_share(saving)} less).{_by_mixing(constant_saving)}"


def _by_mixing(saving: float) -> str:
    if math.isnan(saving):
        return ""
    told = "nothing" if saving < 5e-4 else _share(saving)
    return f" Mixing models without looking at the item would save {told}."


def draws_sentence(*, needed: int | None, n_generations: int, target_bias: float) -> str:
    """Draws a cell for the naive figure to be trusted; forecasts run low, hence 'at least'."""
    target = f"{100 * target_bias:g} point" + ("" if math.isclose(target_bias, 0.01) else "s")
    if needed is None:
        return (
            f"More than 100 draws per cell would be needed for a naive bias below {target}; the number "
            f"here is {n_generations}."
        )
    return (
        f"At least {needed} draws per cell are needed for a naive bias below {target}; the number here is "
        f"{n_generations}."
    )


def left_out_sentence(left_out: Sequence[str], n_models: int) -> str | None:
    """Who takes no part and why; None where everybody does."""
    if not left_out:
        return None
    named = "; ".join(left_out[:_NAMED_MODELS])
    more = f"; and {len(left_out) - _NAMED_MODELS} more" if len(left_out) > _NAMED_MODELS else ""
    return f"This is among {counted(n_models, 'model')}; left out: {named}{more}."


def router_sentence(
    *,
    quality: float,
    best_model: str,
    best_quality: float,
    oracle_quality: float,
    gain_lower: float,
    gain_upper: float,
    n_items: int,
    share_by_category: float = math.nan,
) -> str | None:
    """What a router that only knows clusters gets, on test items, between the best single model and the oracle.

    gain_lower, gain_upper : limits of its quality minus the best single model's at the same cost; oracle_quality : on
    the same items, NaN where no figure may be given; share_by_category : the oracle's gain by true category
    """
    if math.isnan(quality) or math.isnan(best_quality):
        return None
    gain = quality - best_quality
    limits = between(100 * gain_lower, 100 * gain_upper, lambda points: true_minus(f"{points:+.1f}"))
    told = f"{true_minus(f'{100 * gain:+.1f}')} points" + (f", {limits}" if limits != "–" else "")
    first = (
        f"On {counted(n_items, 'test item')} a router by cluster reaches {_share(quality)} at the "
        f"cost of {best_model}, which "
        f"reaches {_share(best_quality)} there ({told})"
    )
    if math.isnan(oracle_quality) or oracle_quality <= best_quality:
        return f"{first}."
    share = gain / (oracle_quality - best_quality)
    ceiling = "" if math.isnan(share_by_category) else f"; one by true category would get {_share(share_by_category)}"
    return (
        f"{first}: {_share(share)} of what the best possible choice ({_share(oracle_quality)}) would add{ceiling}. "
        f"The best possible choice is not what a router will get."
    )


def latency_sentence(
    *,
    verdict: str,
    best_model: str,
    best_quality: float,
    best_seconds: float,
    value: float,
    lower: float,
    upper: float,
    naive: float,
    left_out: Sequence[str],
    n_draws: int,
) -> str:
    """The frontier where a cell's cost is the 95 % quantile of its latency."""
    quantile = "slowest draw" if n_draws < 20 else "95 % quantile"
    single = f"{best_model} (mean {quantile} {_seconds(best_seconds)}, {_share(best_quality)} right)"
    among = f" Left out, for want of latencies: {', '.join(left_out[:_NAMED_MODELS])}" if left_out else ""
    among += f" and {len(left_out) - _NAMED_MODELS} more" if len(left_out) > _NAMED_MODELS else ""
    among += "." if left_out else ""
    if verdict == "point":
        told = f"would be right {_share(value)} ({between(lower, upper, percent)}); naively {_share(naive)}"
    elif verdict == "bracket_only":
        told = f"would be right between {_share(lower)} and {_share(upper)}; naively {_share(naive)}"
    else:
        told = f"would be right at most {_share(upper)}"
    return f"With latency as the cost: at that of {single} the best possible choice of model per item {told}.{among}"


def latency_limit_sentence(*, seconds: float, lower: float, upper: float, best_model: str, best_quality: float) -> str:
    """What may be reached where at most 5 % of the whole system's answers take longer than a limit."""
    limit = f"With at most 5 % of all answers over {_seconds(seconds)}"
    single = f"{best_model} reaches {_share(best_quality)}" if best_model else "no single model keeps the limit"
    if math.isnan(upper):
        return f"{limit} {single}, nor does any choice of model per item."
    if math.isnan(lower):
        return f"{limit} {single}, the best choice of model per item at most {_share(upper)}."
    return f"{limit} {single}, the best choice of model per item between {_share(lower)} and {_share(upper)}."


def to_know_more_sentence(*, verdict: str, cause: str, n_generations: int) -> str | None:
    """What would be needed for a single figure where there is none; None where there is one."""
    if verdict == "point":
        return None
    needed = {
        "draws": "two draws per cell for a bracket, five for a figure in most cases",
        "items": "100 items or more",
        "ceiling": (
            "harder items, or many more draws: while some model is right in all its draws on nearly every item, luck "
            "leaves no trace in them"
        ),
        "ratio": f"more draws per cell than {n_generations}, which narrow the bracket whatever the model",
        "shock": "draws made at different times or seeds for different models, so that they do not fail together",
        "graded": f"more draws per cell than {n_generations}, or scores that are right or wrong",
        "model": "more draws per cell or more items: the model of right answers could not be fitted to these",
    }.get(cause)
    return f"To know more: {needed}." if needed else None


def constant_cost_sentence(cost: float) -> str:
    """All answers cost the same, so the frontier has one point."""
    return f"All answers cost the same ({_money(cost)}), so the frontier is a single point."


def no_scale_sentence(table: str) -> str:
    """The range of scores has an open end, so that nothing is a share of it."""
    return (
        "The scores have no lowest or no highest value, so nothing can be told as a share: "
        f"the figures in {table} are on the scale of the scores. "
        "`score_range: [low, high]` in benchmark.yml gives shares and the reduction of errors."
    )


def _at_most(upper: float) -> str:
    return "No upper limit can be given" if math.isnan(upper) else f"At most {_share(upper)}"


def _bracket(lower: float, upper: float) -> str:
    if math.isnan(lower) and math.isnan(upper):
        return "No limits can be given"
    return f"Between {_share(lower)} and {_share(upper)}"


def _share(value: float) -> str:
    return "unknown" if math.isnan(value) else true_minus(f"{100 * value:.1f} %")


def _off(difference: float) -> str:
    return f"{abs(100 * difference):.1f} points too {'high' if difference >= 0 else 'low'}"


def _fewer(reduction: float) -> str:
    return f"{100 * reduction:.0f} % fewer errors" if reduction >= 0 else f"{-100 * reduction:.0f} % more errors"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "an unknown time"
    return f"{value:.3g} s"


def _money(value: float) -> str:
    if math.isnan(value):
        return "an unknown cost"
    if value == 0:
        return "$0"
    decimals = max(2, 2 - math.floor(math.log10(value)))
    return f"${value:.{decimals}f}"
