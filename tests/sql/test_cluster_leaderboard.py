"""marts.cluster_leaderboard: ranks inside a cluster, and the texts that stand for it."""


def test_models_without_a_comparison_come_last_and_are_never_among_the_best(tables, pick):
    key = {"method": "ecc", "cluster_id": 0}
    tables.fill(
        "estimates.cluster_strengths",
        [
            {**key, "model_id": "prior", "strength": 9.0, "lower": 1.0, "upper": 17.0, "is_compared": False},
            {**key, "model_id": "second", "strength": 0.5, "lower": 0.2, "upper": 1.5, "is_compared": True},
            {**key, "model_id": "first", "strength": 2.0, "lower": 1.0, "upper": 3.0, "is_compared": True},
            {**key, "model_id": "third", "strength": -1.0, "lower": -2.0, "upper": 0.9, "is_compared": True},
        ],
    )
    tables.fill("estimates.strengths", [{"model_id": "third", "rank": 1}, {"model_id": "first", "rank": 2}])
    rows = tables.run("marts.cluster_leaderboard")
    by_rank = sorted(rows, key=lambda row: row["rank_in_cluster"])
    assert pick(by_rank, "model_id", "is_among_best") == [
        ("first", True),
        ("second", True),  # 1.5 reaches 1.0
        ("third", False),  # 0.9 does not
        ("prior", False),
    ]
    assert pick(by_rank, "ranks_gained") == [1, None, -2, None]
    assert tables.broken_claims("marts.cluster_leaderboard") == []


def test_examples_are_the_texts_of_the_top_items_in_their_order(tables):
    tables.fill(
        "estimates.clusters", [{"method": "ecc", "cluster_id": 0, "weight": 1.0, "top_item_ids": ["b", "x", "a"]}]
    )
    tables.fill(
        "estimates.cluster_strengths", [{"method": "ecc", "cluster_id": 0, "model_id": "m", "is_compared": True}]
    )
    tables.fill(
        "staging.stg_items",
        [{"item_id": "a", "prompt": "A" * 400}, {"item_id": "b", "prompt": "B"}, {"item_id": "x"}],
    )
    (row,) = tables.run("marts.cluster_leaderboard")
    assert row["example_prompts"] == ["B", "A" * 300]


def test_a_beginning_that_all_examples_share_is_left_out(tables):
    tables.fill(
        "estimates.clusters", [{"method": "ecc", "cluster_id": 0, "weight": 1.0, "top_item_ids": ["a", "b", "c"]}]
    )
    tables.fill(
        "estimates.cluster_strengths", [{"method": "ecc", "cluster_id": 0, "model_id": "m", "is_compared": True}]
    )
    shots = "Answer like this. Question: what is warm? Answer: a hand. Question: "
    texts = {"a": "why does ice melt?", "b": "where do whales live?", "c": "whose hat is it?"}
    tables.fill("staging.stg_items", [{"item_id": item, "prompt": shots + text} for item, text in texts.items()])
    (row,) = tables.run("marts.cluster_leaderboard")
    # All begin with "wh" too, but no word is cut.
    assert row["example_prompts"] == ["… why does ice melt?", "… where do whales live?", "… whose hat is it?"]


def test_a_short_common_beginning_and_equal_texts_stay(tables):
    tables.fill(
        "estimates.clusters",
        [
            {"method": "ecc", "cluster_id": 0, "weight": 0.5, "top_item_ids": ["a", "b"]},
            {"method": "ecc", "cluster_id": 1, "weight": 0.5, "top_item_ids": ["c", "d"]},
        ],
    )
    tables.fill(
        "estimates.cluster_strengths",
        [{"method": "ecc", "cluster_id": k, "model_id": "m", "is_compared": True} for k in (0, 1)],
    )
    long = "the same text twice, and long enough that its beginning would count as one that is shared"
    texts = {"a": "What is 1?", "b": "What is 2?", "c": long, "d": long}
    tables.fill("staging.stg_items", [{"item_id": item, "prompt": text} for item, text in texts.items()])
    rows = {row["cluster_id"]: row["example_prompts"] for row in tables.run("marts.cluster_leaderboard")}
    assert rows == {0: ["What is 1?", "What is 2?"], 1: [long, long]}
