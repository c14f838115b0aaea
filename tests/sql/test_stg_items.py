"""staging.stg_items: empty texts are NULL, and items of one text are told by text_key."""


def test_empty_texts_are_unknown_and_text_key_falls_back_on_the_id(tables, pick):
    tables.fill(
        "raw.items",
        [
            {"item_id": "a", "prompt": "2+2?", "category": "maths", "content_hash": "c0ffee"},
            {"item_id": "b", "prompt": "", "category": ""},
        ],
    )
    rows = tables.run("staging.stg_items")
    assert pick(rows, "item_id", "prompt", "category", "text_key") == [
        ("a", "2+2?", "maths", "c0ffee"),
        ("b", None, None, "b"),
    ]
    assert tables.broken_claims("staging.stg_items") == []
