"""intermediate.comparisons: keyed bottom-k over the pairs that do not tie, against a plain sampler in Python."""

import numpy as np
import pandas as pd
import pytest

from tests.reference_sampling import key, sample_pairs

UPSTREAM = ("staging.stg_items", "intermediate.item_splits", "staging.stg_judgments")


def frame(values, models=None):
    """Qualities as a frame items x models; NaN is no cell."""
    values = np.asarray(values, dtype=float)
    names = models or [f"m{k:03d}" for k in range(values.shape[1])]
    return pd.DataFrame(values, index=[f"i{n:03d}" for n in range(len(values))], columns=names)


def sample(tables, quality=None, judgments=(), **parameters):
    """Rows of comparisons; the tables are emptied first, so that it can be called twice."""
    tables.set(**parameters)
    for table in ("raw.items", "raw.judgments", "intermediate.item_scores"):
        tables.connection.execute(f"delete from {table}")
    cells = [] if quality is None else quality.stack().dropna().items()
    scores = [
        {"item_id": i, "model_id": m, "n_generations": 1, "score": value, "quality": value} for (i, m), value in cells
    ]
    items = sorted({row["item_id"] for row in (*scores, *judgments)})
    tables.fill("raw.items", [{"item_id": item} for item in items])
    tables.fill("raw.judgments", judgments)
    tables.fill("intermediate.item_scores", scores)
    rows = tables.run_all(*UPSTREAM, "intermediate.comparisons")
    assert tables.broken_claims("intermediate.comparisons") == []
    return rows


def tuples(rows):
    names = ("item_id", "model_a_id", "model_b_id", "draw", "outcome", "sample_rank", "source")
    return sorted(tuple(row[name] for name in names) for row in rows)


def reference(quality, **arguments):
    return sorted(sample_pairs(quality, benchmark="B", **arguments).itertuples(index=False, name=None))


@pytest.mark.parametrize("pairs_per_item", [2, 7])
@pytest.mark.parametrize("kind", ["binary", "graded", "with gaps"])
def test_the_sample_is_the_plain_one(tables, rng, kind, pairs_per_item):
    values = rng.integers(0, 2 if kind == "binary" else 4, size=(40, 9)) / (1 if kind == "binary" else 3)
    if kind == "with gaps":
        values[rng.random(values.shape) < 0.4] = np.nan
    quality = frame(values)
    rows = sample(tables, quality, seed=11, pairs_per_item=pairs_per_item)
    assert tuples(rows) == reference(quality, seed=11, pairs_per_item=pairs_per_item)
    assert len(rows) > 60


def test_defaults_are_seven_pairs_and_seed_0(tables, rng):
    quality = frame(rng.random((10, 8)))
    assert tuples(sample(tables, quality)) == reference(quality, seed=0, pairs_per_item=7)


def test_scores_within_the_margin_tie(tables):
    quality = frame([[0.0, 0.1, 0.25, 0.5]])
    rows = sample(tables, quality, tie_margin=0.2)
    pairs = [(row["model_a_id"], row["model_b_id"]) for row in rows]
    assert sorted(pairs) == [("m000", "m002"), ("m000", "m003"), ("m001", "m003"), ("m002", "m003")]


def test_an_item_with_fewer_than_two_untied_pairs_is_left_out(tables):
    quality = frame([[1, 1, 1], [1, 0, np.nan], [1, 0, 0]])
    assert {row["item_id"] for row in sample(tables, quality)} == {"i002"}


def test_another_model_changes_no_key_and_old_pairs_stay_a_subset(tables, rng):
    quality = frame(rng.integers(0, 2, size=(60, 12)))
    before = sample(tables, quality.drop(columns="m005"))
    after = sample(tables, quality)
    old_pairs = {t[:5] for t in tuples(after) if "m005" not in t}
    assert old_pairs < {t[:5] for t in tuples(before)}


def test_another_seed_gives_another_sample(tables, rng):
    quality = frame(rng.integers(0, 2, size=(30, 12)))
    assert tuples(sample(tables, quality, seed=0)) != tuples(sample(tables, quality, seed=1))


def test_names_are_ordered_as_text_and_never_run_into_each_other(tables):
    quality = frame([[1, 0, 0, 1]], models=["m10", "m9", "M", "m 1"])
    rows = sample(tables, quality)
    assert tuples(rows) == reference(quality, seed=0)
    assert all(row["model_a_id"] < row["model_b_id"] for row in rows)


def test_the_best_models_are_kept_ties_by_id(tables):
    values = [[0.9, 0.1, 0.75, 0.5, 0.5], [0.7, 0.0, 0.75, 0.25, 0.25], [0.1, 0.0, 0.75, 0.5, 0.5]]
    quality = frame(values)
    quality.loc["i000", "m004"] += 1e-13  # a difference in the last bits decides nothing: m003 stays
    kept = quality[["m000", "m002", "m003"]]
    assert tuples(sample(tables, quality, max_models=3)) == reference(kept, seed=0)
    assert sample(tables, quality, max_models=2) == []  # one pair an item


def pooled(quality, seed):
    """Each item's pool: the 32 lowest-keyed models above the item's mean and 32 of the others, one frame an item."""
    for item, row in quality.iterrows():
        cells = row.dropna()
        above = cells.index[cells > cells.mean()]
        pool = []
        for side in (above, cells.index.difference(above)):
            pool += sorted(side, key=lambda model: key(seed, "B", item, model))[:32]
        yield quality.loc[[item], sorted(pool)]


@pytest.mark.parametrize("kind", ["binary", "graded"])
def test_above_64_models_pairs_come_from_a_keyed_pool(tables, rng, kind):
    values = rng.random((12, 90))
    quality = frame((values < rng.uniform(0.2, 0.9, size=(12, 1))) if kind == "binary" else values)
    quality = quality.mask(rng.random(quality.shape) < 0.05)
    expected = [row for one in pooled(quality, seed=5) for row in reference(one, seed=5)]
    assert tuples(sample(tables, quality, seed=5)) == sorted(expected)


def test_up_to_64_models_there_is_no_pool(tables, rng):
    quality = frame(rng.integers(0, 2, size=(6, 64)))
    assert tuples(sample(tables, quality)) == reference(quality, seed=0)


def votes(rng, n_items=20, n_models=5, n_judges=3):
    return [
        {
            "item_id": f"i{n}",
            "model_a_id": f"m{a}",
            "model_b_id": f"m{b}",
            "judge_id": f"judge{j}",
            "outcome": float(rng.choice([0.0, 0.5, 1.0])),
        }
        for n in range(n_items)
        for a in range(n_models)
        for b in range(a + 1, n_models)
        for j in range(n_judges)
    ]


def test_votes_of_judges_are_draws_and_the_candidates_are_those_that_do_not_tie(tables, rng):
    given = votes(rng)
    expected = []
    for item in sorted({row["item_id"] for row in given}):
        candidates = []
        for row in given:
            if row["item_id"] == item and row["outcome"] != 0.5:
                pair = (row["model_a_id"], row["model_b_id"], int(row["judge_id"][-1]))
                candidates.append((key(0, "B", item, *pair), *pair, row["outcome"]))
        for rank, (_, *pair, outcome) in enumerate(sorted(candidates)[:7]):
            expected.append((item, *pair, outcome, rank, "judgment"))
    assert tuples(sample(tables, judgments=given)) == sorted(expected)


def test_judgments_come_first_unless_scores_are_asked_for(tables, rng):
    quality, given = frame(rng.random((3, 4))), votes(rng, n_items=3)
    assert {row["source"] for row in sample(tables, quality, given)} == {"judgment"}
    assert tuples(sample(tables, quality, given, comparison_source="scores")) == reference(quality, seed=0)
    assert sample(tables, quality, comparison_source="judgments") == []


def test_a_vote_counts_for_the_models_with_the_best_mean_outcome(tables):
    given = [
        {"item_id": "i", "model_a_id": a, "model_b_id": b, "outcome": 1.0, "judge_id": judge}
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"))
        for judge in ("j", "k")
    ]
    rows = sample(tables, judgments=given, max_models=2)
    assert [(row["model_a_id"], row["model_b_id"], row["draw"]) for row in rows] in (
        [("a", "b", 0), ("a", "b", 1)],
        [("a", "b", 1), ("a", "b", 0)],
    )


def test_every_comparison_knows_the_side_of_its_item(tables, rng):
    rows = sample(tables, frame(rng.random((40, 3))))
    sides = {row["item_id"]: row["split"] for row in tables.rows("select * from intermediate.item_splits")}
    assert all(row["split"] == sides[row["item_id"]] for row in rows)
    assert set(sides.values()) == {"train", "test"}


def test_planted_comparisons_are_the_plain_ones(tables, shared):
    """The whole way from result rows, on a golden case."""
    folder = shared / "cases" / "ecc_planted_a"
    results = pd.read_parquet(folder / "results.parquet")
    quality = results.pivot_table(index="item_id", columns="model", values="score")
    few = quality.iloc[:150]
    assert tuples(sample(tables, few)) == reference(few, seed=0)
