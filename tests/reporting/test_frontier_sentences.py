"""Sentences of the frontier: the number first, its limits, and the control it is read against."""

import math

import pytest

from capeval_pipeline.reporting.verdicts.frontier import (
    draws_sentence,
    frontier_sentence,
    latency_limit_sentence,
    latency_sentence,
    left_out_sentence,
    oracle_sentence,
    router_sentence,
    saving_sentence,
    to_know_more_sentence,
)

FIGURES = {
    "best_model": "lab/m",
    "best_quality": 0.8,
    "best_cost": 0.0388,
    "value": 0.9,
    "lower": 0.85,
    "upper": 0.95,
    "naive": 0.93,
    "constant": 0.8,
}


def test_a_point_comes_with_limits_reduction_and_what_naive_would_say():
    sentence = frontier_sentence(verdict="point", reason="", **FIGURES)
    assert sentence == (
        "At the cost of lab/m ($0.0388 per item, 80.0 % right) the best possible choice of model per item would be "
        "right 90.0 % (85.0 to 95.0 %); that is 50 % fewer errors. The naive figure, 93.0 %, is 3.0 points too high; "
        "the best mix without looking at the item reaches 80.0 %."
    )


def test_limits_that_reach_the_best_model_take_the_gain_back():
    sentence = frontier_sentence(verdict="point", reason="", **FIGURES | {"lower": 0.79})
    assert "that is 50 % fewer errors, though the limits leave open that it is none." in sentence


def test_a_refusal_gives_the_bracket_and_the_reason_but_no_figure():
    sentence = frontier_sentence(verdict="bracket_only", reason="50 items, fewer than 100", **FIGURES)
    assert sentence.startswith("Between 85.0 % and 95.0 %")
    assert "no single figure: 50 items" in sentence
    assert "90.0 %" not in sentence


def test_one_draw_a_cell_gives_an_upper_bound_and_what_would_help():
    sentence = frontier_sentence(verdict="upper_bound_only", reason="", **FIGURES)
    assert sentence.startswith("At most 95.0 %")
    assert "Two draws per cell or more would give a bracket." in sentence


@pytest.mark.parametrize(
    ("verdict", "told"),
    [("upper_bound_only", "No upper limit can be given"), ("bracket_only", "No limits can be given")],
)
def test_a_limit_that_is_unknown_is_not_told_as_a_limit(verdict, told):
    unknown = {"value": math.nan, "lower": math.nan, "upper": math.nan, "naive": 1.0, "best_quality": 1.0}
    assert oracle_sentence(verdict=verdict, reason="one item", **unknown).startswith(told)
    assert frontier_sentence(verdict=verdict, reason="one item", **FIGURES | unknown).startswith(told)


def test_without_costs_the_sentence_says_so():
    sentence = oracle_sentence(
        verdict="point", reason="", value=0.9, lower=0.85, upper=0.95, naive=0.93, best_quality=0.8
    )
    assert sentence.endswith("Fewer than two models have costs for their items, so no frontier is drawn.")


def saving(lower, upper):
    return saving_sentence(
        best_model="m", best_quality=0.8, best_cost=0.04, saving=0.9, saving_lower=lower, saving_upper=upper
    )


def test_a_saving_is_a_figure_only_where_its_limits_are_near():
    assert (
        saving(0.85, 0.94)
        == "The quality of m (80.0 %) could be had for $0.00400 instead of $0.0400 per item (90.0 % less)."
    )
    assert "anything from $0.000400 to no saving at all" in (saving(math.nan, 0.99) or "")
    assert "anything from $0.000400 to $0.0200" in (saving(0.5, 0.99) or "")


def test_nothing_is_said_of_an_unknown_saving():
    assert (
        saving_sentence(
            best_model="m", best_quality=0.8, best_cost=0.04, saving=math.nan, saving_lower=0.1, saving_upper=0.2
        )
        is None
    )


def test_draws_needed_beyond_the_table_are_said_in_words():
    assert draws_sentence(needed=None, n_generations=5, target_bias=0.01).startswith("More than 100 draws")
    assert draws_sentence(needed=15, n_generations=5, target_bias=0.01).startswith("At least 15 draws")


def test_only_the_first_three_left_out_are_named():
    assert left_out_sentence([], 4) is None
    sentence = left_out_sentence([f"m{i}: no cost on 100 % of its items" for i in range(5)], 4)
    assert sentence is not None and "and 2 more" in sentence and "among 4 models" in sentence


ROUTED = {
    "quality": 0.75,
    "best_model": "m",
    "best_quality": 0.7,
    "oracle_quality": 0.8,
    "gain_lower": 0.02,
    "gain_upper": 0.08,
    "n_items": 400,
}


def test_a_router_stands_between_the_best_model_and_the_oracle():
    sentence = router_sentence(**ROUTED, share_by_category=0.6)
    assert sentence is not None
    assert sentence.startswith(
        "On 400 test items a router by cluster reaches 75.0 % at the cost of m, which reaches 70.0 % there (+5.0 points"
    )
    assert "+2.0 to +8.0" in sentence
    # .05 of .10
    assert (
        "50.0 % of what the best possible choice (80.0 %) would add; one by true category would get 60.0 %" in sentence
    )


def test_without_an_oracle_a_router_is_measured_against_the_best_model_alone():
    sentence = router_sentence(**{**ROUTED, "oracle_quality": math.nan})
    assert sentence is not None and "oracle" not in sentence
    assert router_sentence(**{**ROUTED, "quality": math.nan}) is None


def test_a_best_model_chosen_on_few_items_is_told_with_what_it_is_worth_on_others():
    sentence = frontier_sentence(verdict="point", reason="", held_out=0.78, **FIGURES)
    assert "80.0 % right; 78.0 % on items that did not choose it" in sentence


def test_a_saving_stands_beside_that_of_a_fixed_mixture():
    sentence = saving_sentence(
        best_model="m",
        best_quality=0.8,
        best_cost=0.04,
        saving=0.9,
        saving_lower=0.85,
        saving_upper=0.94,
        constant_saving=0.0,
    )
    assert sentence is not None and sentence.endswith("Mixing models without looking at the item would save nothing.")


LATENCY = {
    "best_model": "m",
    "best_quality": 0.8,
    "best_seconds": 12.0,
    "value": 0.9,
    "lower": 0.85,
    "upper": 0.95,
    "naive": 0.93,
    "left_out": ["a", "b", "c", "d"],
    "n_draws": 5,
}


def test_latency_is_said_to_be_the_slowest_of_few_draws_and_who_has_none():
    sentence = latency_sentence(verdict="point", **LATENCY)
    assert "mean slowest draw 12 s" in sentence
    assert "right 90.0 % (85.0 to 95.0 %)" in sentence
    assert sentence.endswith("Left out, for want of latencies: a, b, c and 1 more.")
    assert "between 85.0 % and 95.0 %" in latency_sentence(verdict="bracket_only", **LATENCY)
    assert "at most 95.0 %" in latency_sentence(verdict="upper_bound_only", **LATENCY)


def test_a_latency_limit_no_choice_can_keep_is_said_to_be_out_of_reach():
    sentence = latency_limit_sentence(seconds=3.0, lower=math.nan, upper=math.nan, best_model="", best_quality=math.nan)
    assert sentence.endswith("no single model keeps the limit, nor does any choice of model per item.")
    reached = latency_limit_sentence(seconds=3.0, lower=0.5, upper=0.7, best_model="m", best_quality=0.4)
    assert "m reaches 40.0 %, the best choice of model per item between 50.0 % and 70.0 %" in reached


@pytest.mark.parametrize("cause", ["draws", "model", "items", "ceiling", "ratio", "shock", "graded"])
def test_every_refusal_says_what_would_be_needed(cause):
    assert "To know more:" in (to_know_more_sentence(verdict="bracket_only", cause=cause, n_generations=5) or "")
    assert to_know_more_sentence(verdict="point", cause="", n_generations=5) is None
