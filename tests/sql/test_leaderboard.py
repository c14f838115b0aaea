"""marts.leaderboard: strengths with cost, latency and the error policy beside them."""


def test_models_come_by_rank_with_their_mean_known_cost(tables, pick):
    tables.fill(
        "estimates.strengths",
        [
            {"model_id": "cheap", "rank": 2, "mean_score": 0.5, "n_items": 2},
            {"model_id": "good", "rank": 1, "mean_score": 1.0, "n_items": 2},
        ],
    )
    tables.fill("raw.models", [{"model_id": "cheap", "provider": "lab"}, {"model_id": "good"}])
    tables.fill(
        "intermediate.item_scores",
        [
            {"item_id": "i", "model_id": "cheap", "cost_usd": 0.25, "latency_p95_s": 1.0},
            {"item_id": "j", "model_id": "cheap", "cost_usd": 0.75},
            {"item_id": "i", "model_id": "good"},
        ],
    )
    tables.fill("staging.stg_generations", [{"item_id": "i", "model_id": "good", "error_policy": "wrong"}])
    tables.run("marts.leaderboard")
    rows = tables.rows("select * from marts.leaderboard")  # in the order the mart gives them
    assert pick(rows, "model_id", "mean_cost_usd", "n_items_with_cost", "mean_latency_p95_s", "provider") == [
        ("good", None, 0, None, None),
        ("cheap", 0.5, 2, 1.0, "lab"),
    ]
    assert pick(rows, "error_policy") == ["wrong", "wrong"]
    assert tables.broken_claims("marts.leaderboard") == []


def test_nothing_estimated_gives_no_rows(tables):
    tables.fill("raw.models", [{"model_id": "m"}])
    assert tables.run("marts.leaderboard") == []
