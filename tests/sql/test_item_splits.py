"""intermediate.item_splits: keyed by text, stable under additions."""

import hashlib
import math

import pytest


def splits(tables, ids, **columns):
    tables.connection.execute("delete from raw.items")
    tables.fill("raw.items", [{"item_id": item, **{k: v[n] for k, v in columns.items()}} for n, item in enumerate(ids)])
    rows = tables.run_all("staging.stg_items", "intermediate.item_splits")
    assert tables.broken_claims("intermediate.item_splits") == []
    return {row["item_id"]: (row["split"], row["split_key"]) for row in rows}


def test_the_key_is_md5_of_seed_benchmark_and_text(tables):
    tables.set(seed=3)
    out = splits(tables, ["a", "b"], content_hash=["c0ffee", None])
    assert out["a"][1] == hashlib.md5(b"3\x1fB\x1fc0ffee").hexdigest()
    assert out["b"][1] == hashlib.md5(b"3\x1fB\x1fb").hexdigest()


def test_test_items_are_those_whose_key_as_a_fraction_is_below_the_share(tables):
    tables.set(test_share=0.35)
    for split, key in splits(tables, [f"i{n}" for n in range(200)]).values():
        assert split == ("test" if int(key[:15], 16) / 16**15 < 0.35 else "train")


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_the_share_is_met_as_chance_allows(tables, share):
    tables.set(test_share=share)
    out = splits(tables, [f"i{n}" for n in range(4000)])
    drawn = sum(split == "test" for split, _ in out.values()) / 4000
    assert abs(drawn - share) < 4 * math.sqrt(share * (1 - share) / 4000)  # four standard errors


def test_equal_texts_share_a_side_and_more_items_move_nobody(tables):
    few = splits(tables, ["a", "b"], content_hash=["same", "same"])
    assert few["a"] == few["b"]
    more = splits(tables, ["x", "a", "y", "b"], content_hash=["other", "same", None, "same"])
    assert {item: more[item] for item in few} == few


def test_another_seed_gives_another_split(tables):
    ids = [f"i{n}" for n in range(100)]
    first = splits(tables, ids)
    tables.set(seed=1)
    assert {i: s for i, (s, _) in first.items()} != {i: s for i, (s, _) in splits(tables, ids).items()}
