"""marts.item_health: dead, doubled and broken items."""


def health(tables, items):
    tables.fill("staging.stg_items", items)
    rows = tables.run("marts.item_health")
    assert tables.broken_claims("marts.item_health") == []
    return {row["item_id"]: row for row in rows}


def test_equal_texts_name_each_other(tables):
    out = health(
        tables,
        [
            {"item_id": "a", "content_hash": "same", "prompt": "2+2?"},
            {"item_id": "b", "content_hash": "same"},
            {"item_id": "c", "content_hash": "other"},
            {"item_id": "d"},
            {"item_id": "e"},
        ],
    )
    assert {item: row["same_text_item_ids"] for item, row in out.items()} == {
        "a": ["b"],
        "b": ["a"],
        "c": [],
        "d": [],
        "e": [],
    }
    assert (out["a"]["has_prompt"], out["b"]["has_prompt"]) == (True, False)


def test_one_declared_id_with_two_texts_is_told_at_both(tables):
    out = health(
        tables,
        [
            {"item_id": "q~11111111", "content_hash": "1", "declared_ids": ["q"]},
            {"item_id": "q~22222222", "content_hash": "2", "declared_ids": ["q", "r"]},
            {"item_id": "s", "content_hash": "3", "declared_ids": ["s"]},
            {"item_id": "t"},
        ],
    )
    assert {item for item, row in out.items() if row["text_differs"]} == {"q~11111111", "q~22222222"}


def test_what_says_nothing_is_told(tables):
    tables.fill(
        "intermediate.item_stats", [{"item_id": "a", "n_models": 3, "quality_range": 0.0, "is_solved_by_all": True}]
    )
    tables.fill("intermediate.item_stats", [{"item_id": "b", "n_models": 3, "quality_range": 1.0}])
    pair = {"model_a_id": "m", "model_b_id": "n"}
    tables.fill("intermediate.comparisons", [{"item_id": "b", **pair, "draw": draw} for draw in range(3)])
    tables.fill("raw.generations", [{"item_id": "c", "model_id": "m", "status": "error"}])
    out = health(tables, [{"item_id": item} for item in "abc"])
    assert {item: (row["is_all_tied"], row["n_comparisons"], row["n_models"]) for item, row in out.items()} == {
        "a": (True, 0, 3),
        "b": (False, 3, 3),
        "c": (None, 0, 0),
    }
    assert (out["a"]["is_solved_by_all"], out["c"]["n_error"]) == (True, 1)
