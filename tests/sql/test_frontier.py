"""marts.frontier: every estimator's points, with the best and the cheapest single model beside them."""


def test_best_and_cheapest_model_stand_beside_every_point(tables, pick):
    curve = {"cost_axis": "usd", "estimator": "naive", "routing": "pre_hoc"}
    tables.fill("estimates.frontier_points", [{**curve, "point": 0, "cost_usd": 0.1, "quality": 0.5}])
    tables.fill(
        "estimates.frontier_headlines",
        [{**curve, "n_models": 2, "best_model_id": "big", "best_quality": 0.9, "best_cost_usd": 2.0}],
    )
    tables.fill("estimates.frontier_diagnostics", [{"verdict": "point"}])
    cells = [
        {"item_id": item, "model_id": model, "quality": quality, "cost_usd": cost}
        for model, quality, cost in (("small", 0.25, 1.0), ("big", 0.9, 2.0), ("priceless", 0.9, None))
        for item in ("i", "j")
    ]
    tables.fill(
        "intermediate.item_scores", [*cells, {"item_id": "i", "model_id": "half", "quality": 1.0, "cost_usd": 0.0}]
    )
    tables.fill("intermediate.item_scores", [{"item_id": "j", "model_id": "half", "quality": 1.0}])
    rows = tables.run("marts.frontier")
    # `half` has no cost on half of its items, so its mean cost is of other items than the others'
    names = ("best_model_id", "cheapest_model_id", "cheapest_quality", "cheapest_cost_usd", "verdict")
    assert pick(rows, *names) == [("big", "small", 0.25, 1.0, "point")]
    assert tables.broken_claims("marts.frontier") == []
