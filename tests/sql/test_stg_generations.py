"""staging.stg_generations: the error policy, and quality from the declared range."""

import pytest


def scores(tables, benchmark, rows):
    tables.fill("raw.benchmarks", [benchmark])
    tables.fill("raw.generations", [{"item_id": f"i{n}", "model_id": "m", **row} for n, row in enumerate(rows)])
    out = tables.run("staging.stg_generations")
    assert tables.broken_claims("staging.stg_generations") == []
    return [(row["score"], row["quality"]) for row in out]


OK_ERROR_UNSCORED_INVALID = [
    {"score": 0.25},
    {"status": "error"},
    {"status": "unscored"},
    {"status": "invalid"},
]


def test_errors_are_left_out_unless_declared_otherwise(tables):
    assert scores(tables, {}, OK_ERROR_UNSCORED_INVALID) == [(0.25, 0.25), (None, None), (None, None), (None, None)]


def test_under_the_policy_wrong_an_error_has_the_worst_score_and_nothing_else_has(tables):
    out = scores(tables, {"error_policy": "wrong", "score_low": -1.0}, OK_ERROR_UNSCORED_INVALID)
    assert out == [(0.25, 0.625), (-1.0, 0.0), (None, None), (None, None)]


def test_the_worst_of_lower_is_better_is_the_upper_end(tables):
    out = scores(
        tables, {"error_policy": "wrong", "score_high": 10.0, "higher_is_better": False}, [{"status": "error"}]
    )
    assert out == [(10.0, 0.0)]


def test_the_setting_decides_where_the_benchmark_declares_nothing(tables):
    tables.set(error_policy="wrong")
    assert scores(tables, {}, [{"status": "error"}]) == [(0.0, 0.0)]


def test_a_declared_policy_wins_over_the_setting(tables):
    tables.set(error_policy="wrong")
    assert scores(tables, {"error_policy": "ignore"}, [{"status": "error"}]) == [(None, None)]


def test_an_error_stays_without_score_where_the_range_has_no_worst_end(tables):
    out = scores(tables, {"error_policy": "wrong", "score_low": None, "score_high": None}, [{"status": "error"}])
    assert out == [(None, None)]


@pytest.mark.parametrize(
    ("declared", "score", "quality"),
    [
        ({}, 0.3, 0.3),
        ({"higher_is_better": False}, 0.25, 0.75),
        ({"score_low": -1.0}, -0.5, 0.25),  # (-0.5 + 1) / 2
        ({"score_low": 0.0, "score_high": 10.0, "higher_is_better": False}, 2.5, 0.75),
        ({"score_high": None}, 7.0, 7.0),
        ({"score_high": None, "higher_is_better": False}, 7.0, -7.0),
        ({"score_high": float("inf"), "higher_is_better": False}, 7.0, -7.0),
    ],
)
def test_quality_is_rescaled_by_a_closed_range_and_only_turned_round_by_an_open_one(tables, declared, score, quality):
    assert scores(tables, declared, [{"score": score}]) == [(score, quality)]


def test_a_row_keeps_what_the_file_said(tables):
    tables.fill("raw.benchmarks", [{}])
    tables.fill("raw.generations", [{"item_id": "i", "model_id": "m", "score": 1.0, "cost_usd": 0.5, "outcome": "C"}])
    (row,) = tables.run("staging.stg_generations")
    assert (row["cost_usd"], row["outcome"], row["error_policy"]) == (0.5, "C", "ignore")
