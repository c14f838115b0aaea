"""marts.frontier: every estimator's points, with the best and the cheapest single model beside them."""


def test_best_and_cheapest_model_stand_beside_every_point(tables, pick):
    curve = {"cost_axis": "usd", "estimator": "naive", "routing": "pre_hoc"}
    tables.fill("estimates.frontier_points", [{**curve, "point": 0, "cost_usd": 0.1, "quality": 0.5}])
    tables.fill(
        "estimates.frontier_headlines",
        [{**curve, "n_models": 2, "best_model_id": "big", "best_quality": 0.9, "best_cost_usd": 2.0}],
    )
    tables.fill("estimates.frontier_diagnostics", [{"verdict": "point"}])
    models = [("small", True, 0.25, 1.0), ("big", True, 0.9, 2.0), ("half", False, 1.0, None)]
    tables.fill(
        "estimates.frontier_models",
        [
            {"cost_axis": "usd", "model_id": model, "is_in_frontier": is_in, "quality": quality, "cost_usd": cost}
            for model, is_in, quality, cost in models
        ],
    )
    rows = tables.run("marts.frontier")
    # `half` is left out of the frontier, so it is not the cheapest either
    names = ("best_model_id", "cheapest_model_id", "cheapest_quality", "cheapest_cost_usd", "verdict")
    assert pick(rows, *names) == [("big", "small", 0.25, 1.0, "point")]
    assert tables.broken_claims("marts.frontier") == []
