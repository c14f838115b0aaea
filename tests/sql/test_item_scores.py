"""intermediate.item_scores: means over the counted generations of a cell."""

import pytest


def cells(tables, *rows):
    tables.fill("staging.stg_generations", [{"item_id": "i", "model_id": "m", **row} for row in rows])
    out = tables.run("intermediate.item_scores")
    assert tables.broken_claims("intermediate.item_scores") == []
    return out


def draws(*qualities, **others):
    return [{"generation_id": g, "score": q, "quality": q, **others} for g, q in enumerate(qualities)]


def test_a_cell_is_the_mean_of_its_scores(tables):
    (cell,) = cells(tables, *draws(1.0, 0.0, 0.0, 1.0))
    assert (cell["n_generations"], cell["score"], cell["quality"], cell["n_correct"]) == (4, 0.5, 0.5, 2)
    assert cell["score_sd"] == pytest.approx((4 * 0.25 / 3) ** 0.5)


def test_one_generation_has_no_spread(tables):
    (cell,) = cells(tables, *draws(1.0))
    assert (cell["n_generations"], cell["score_sd"], cell["n_correct"]) == (1, None, 1)


def test_what_has_no_score_counts_nowhere(tables):
    (cell,) = cells(
        tables,
        {"generation_id": 0, "score": 1.0, "quality": 1.0, "cost_usd": 0.25},
        {"generation_id": 1, "status": "error", "cost_usd": 7.0},
        {"item_id": "never scored", "status": "error"},
    )
    assert (cell["n_generations"], cell["score"], cell["cost_usd"]) == (1, 1.0, 0.25)


def test_n_correct_is_unknown_where_one_score_of_the_benchmark_is_graded(tables, pick):
    rows = cells(tables, {"item_id": "a", "score": 1.0, "quality": 1.0}, {"item_id": "b", "score": 0.5, "quality": 0.5})
    assert pick(rows, "item_id", "n_correct") == [("a", None), ("b", None)]


def test_cost_is_the_mean_of_the_known_ones_and_unknown_if_none_is(tables, pick):
    known = [{**row, "cost_usd": cost} for row, cost in zip(draws(1.0, 1.0, 1.0), (0.25, None, 0.75), strict=True)]
    rows = cells(tables, *known, *draws(1.0, 1.0, model_id="n"))
    assert pick(rows, "model_id", "cost_usd") == [("m", 0.5), ("n", None)]


def test_the_latency_quantile_of_few_draws_is_their_maximum(tables, pick):
    few = [{**row, "latency_s": float(g)} for g, row in enumerate(draws(*[1.0] * 19))]
    many = [{**row, "latency_s": float(g + 1)} for g, row in enumerate(draws(*[1.0] * 100, model_id="n"))]
    assert pick(cells(tables, *few, *many), "latency_p95_s") == [18.0, 95.0]


def test_the_order_of_rows_does_not_reach_the_last_bit(tables, sql_project):
    thirds = draws(0.1, 0.2, 0.3, 0.7, 1 / 3, 0.9)
    (forwards,) = cells(tables, *thirds)
    tables.connection.execute("delete from staging.stg_generations")
    (backwards,) = cells(tables, *reversed(thirds))
    assert forwards == backwards
