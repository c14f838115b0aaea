"""staging.stg_judgments: pairs in text order, and two positions of one judge as one vote."""

import pytest


def votes(tables, *rows):
    tables.fill("raw.judgments", [{"item_id": "i", "model_a_id": "a", "model_b_id": "b", **row} for row in rows])
    out = tables.run("staging.stg_judgments")
    assert tables.broken_claims("staging.stg_judgments") == []
    return out


def test_a_pair_given_the_other_way_round_is_turned_with_its_outcome_and_position(tables, pick):
    rows = votes(tables, {"model_a_id": "z", "model_b_id": "b", "outcome": 1.0, "judge_id": "j", "position": 0})
    assert pick(rows, "model_a_id", "model_b_id", "outcome", "position") == [("b", "z", 0.0, 1)]


@pytest.mark.parametrize(
    ("first", "second", "vote"),
    [
        (1.0, 1.0, 1.0),
        (0.0, 0.0, 0.0),
        (0.5, 0.5, 0.5),
        (1.0, 0.0, 0.5),
        (1.0, 0.5, 0.5),
        (1.0, 0.75, 0.875),  # both say a, more or less clearly
    ],
)
def test_two_positions_of_one_judge_are_one_vote(tables, pick, first, second, vote):
    rows = votes(
        tables,
        {"outcome": first, "judge_id": "j", "position": 0},
        {"outcome": second, "judge_id": "j", "position": 1},
    )
    assert pick(rows, "outcome", "n_presentations", "position", "draw") == [(vote, 2, None, 0)]


def test_the_second_position_may_come_with_swapped_names_and_its_own_draw_number(tables, pick):
    rows = votes(
        tables,
        {"outcome": 1.0, "judge_id": "j", "position": 0, "draw": 0},
        {"model_a_id": "b", "model_b_id": "a", "outcome": 0.0, "judge_id": "j", "position": 0, "draw": 1},
    )
    assert pick(rows, "outcome", "n_presentations") == [(1.0, 2)]


def test_judges_do_not_merge_and_neither_do_presentations_of_unknown_position(tables, pick):
    rows = votes(
        tables,
        {"outcome": 1.0, "judge_id": "j", "position": 0},
        {"outcome": 0.0, "judge_id": "k", "position": 1},
        {"outcome": 1.0, "judge_id": "u", "draw": 0},
        {"outcome": 0.0, "judge_id": "u", "draw": 1},
    )
    assert pick(rows, "judge_id", "draw", "outcome") == [("j", 0, 1.0), ("k", 0, 0.0), ("u", 0, 1.0), ("u", 1, 0.0)]


def test_the_same_draw_number_with_names_swapped_gives_two_draws(tables, pick):
    rows = votes(tables, {"outcome": 1.0}, {"model_a_id": "b", "model_b_id": "a", "outcome": 1.0})
    assert pick(rows, "draw", "outcome") == [(0, 0.0), (1, 1.0)]


def test_judging_costs_add_up_and_are_unknown_where_one_is(tables, pick):
    rows = votes(
        tables,
        {"outcome": 1.0, "judge_id": "j", "position": 0, "judge_cost_usd": 0.25},
        {"outcome": 1.0, "judge_id": "j", "position": 1, "judge_cost_usd": 0.5},
        {"outcome": 1.0, "judge_id": "k", "position": 0, "judge_cost_usd": 0.25},
        {"outcome": 1.0, "judge_id": "k", "position": 1},
    )
    assert pick(rows, "judge_id", "judge_cost_usd") == [("j", 0.75), ("k", None)]
