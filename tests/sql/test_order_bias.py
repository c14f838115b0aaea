"""marts.order_bias: pairs judged in both orders, and votes for the answer shown first."""

import math

import pytest

from tests.sql.test_verdicts import verdicts

Z = 1.959964


def wilson(share: float, n: float) -> tuple[float, float]:
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return middle - half, middle + half


def vote(item: str, outcome: float, position: int | None, judge: str | None = "j", **more) -> dict:
    return {"item_id": item, "model_a_id": "elm", "model_b_id": "oak", "outcome": outcome, "judge_id": judge,
            "position": position, **more}  # fmt: skip


def bias(tables, *votes) -> dict:
    tables.fill("raw.judgments", votes)
    rows = tables.run("marts.order_bias")
    assert tables.broken_claims("marts.order_bias") == []
    return {row["judge_id"]: row for row in rows}


def test_a_pair_flips_if_its_verdict_is_another_in_the_other_order(tables):
    row = bias(
        tables,
        vote("same", 1.0, 0), vote("same", 1.0, 1),
        vote("less sure", 0.9, 0), vote("less sure", 0.7, 1),
        vote("tie", 0.5, 0), vote("tie", 1.0, 1),
        vote("reversed", 1.0, 0), vote("reversed", 0.0, 1),
        vote("once", 1.0, 0),
    )["j"]  # fmt: skip
    assert (row["n_pairs"], row["n_flips"], row["n_reversals"], row["flip_share"]) == (4, 2, 1, 0.5)
    assert (row["n_votes"], row["n_items"]) == (9, 5)
    # first shown: 1 + 0, .9 + .3, .5 + 0, 1 + 1, 1
    assert row["first_win_share"] == pytest.approx((1 + 1.2 + 0.5 + 2 + 1) / 9)


def test_swapped_names_are_the_same_pair_in_the_other_order(tables):
    turned = {"item_id": "q", "model_a_id": "oak", "model_b_id": "elm", "outcome": 1.0, "judge_id": "j", "position": 0}
    row = bias(tables, vote("q", 1.0, 0), turned)["j"]
    assert (row["n_pairs"], row["n_reversals"], row["first_win_share"]) == (1, 1, 1.0)


def test_a_judge_who_always_takes_the_first_is_told_from_one_who_does_not_look_at_the_order(tables):
    first = [vote(f"q{n}", 1.0 - position, position, "first") for n in range(20) for position in (0, 1)]
    fair = [vote(f"q{n}", n % 2, position, "fair") for n in range(20) for position in (0, 1)]
    rows = bias(tables, *first, *fair)
    assert (rows["first"]["first_win_share"], rows["first"]["flip_share"], rows["first"]["is_biased"]) == (1, 1, True)
    assert (rows["fair"]["first_win_share"], rows["fair"]["flip_share"], rows["fair"]["is_biased"]) == (0.5, 0, False)
    # no item differs from another, so they count as 20 votes and not as 40
    assert (rows["fair"]["lower"], rows["fair"]["upper"]) == pytest.approx(wilson(0.5, 20))
    assert (rows["first"]["lower"], rows["first"]["upper"]) == pytest.approx(wilson(1.0, 20))


def test_votes_on_one_item_count_as_depending_on_each_other(tables):
    # item n has 10 equal votes; 12 items go to the first answer and 8 to the second
    votes = [vote(f"q{n}", float(n < 12), 0, draw=draw) for n in range(20) for draw in range(10)]
    row = bias(tables, *votes)["j"]
    variance = (12 * (10 - 6) ** 2 + 8 * (0 - 6) ** 2) / 200**2 * 20 / 19
    assert row["n_votes"] == 200
    assert (row["lower"], row["upper"]) == pytest.approx(wilson(0.6, 0.6 * 0.4 / variance))
    assert not row["is_biased"]


def test_the_interval_covers_a_judge_without_bias_as_often_as_it_says(tables, rng):
    """Votes of an item share a lean; 300 judges of 60 items and 4 votes: 95 % minus four standard errors is 90 %."""
    votes = []
    for judge in range(300):
        lean = rng.beta(2, 2, 60)
        won = rng.random((60, 4)) < lean[:, None]
        votes += [vote(f"q{n}", float(won[n, draw]), 0, f"j{judge}", draw=draw) for n in range(60) for draw in range(4)]
    rows = bias(tables, *votes).values()
    covered = sum(row["lower"] <= 0.5 <= row["upper"] for row in rows) / 300
    assert covered >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / 300)


def test_where_the_order_is_not_told_nothing_is_said_of_it(tables):
    assert bias(tables, vote("q", 1.0, None)) == {}
    tables.fill("raw.models", [{"model_id": "elm"}, {"model_id": "oak"}])
    assert "No judgment says which answer was shown first" in verdicts(tables)["order_bias"]["sentence"]


def test_the_sentence_is_of_the_judge_with_the_most_votes(tables):
    votes = [vote(f"q{n}", 1.0 - position, position, "a") for n in range(10) for position in (0, 1)]
    tables.fill("raw.judgments", [*votes, vote("q1", 1.0, 0, "b")])
    tables.fill("raw.models", [{"model_id": "elm"}, {"model_id": "oak"}])
    row = verdicts(tables)["order_bias"]
    assert row["source_table"] == "marts.order_bias"
    assert row["sentence"] == (
        "Verdicts that change with the order, of pairs judged in both: 10 of 10 (100.0 %). The answer shown "
        "first takes 100.0 % of the votes (72.2 to 100.0 %), a tie counting half: the order has an effect. So judges "
        "a, who has the most votes of 2 judges."
    )


def test_a_benchmark_without_judgments_says_nothing_of_order(tables):
    tables.fill("raw.models", [{"model_id": "elm"}])
    assert "order_bias" not in verdicts(tables)
