"""intermediate.item_stats: difficulty and discrimination of items."""

import numpy as np
import pytest


def stats(tables, qualities, *, benchmark=None):
    """qualities: item → list over models m0, m1, … (None: no cell)."""
    tables.fill("raw.benchmarks", [benchmark or {}])
    tables.fill(
        "intermediate.item_scores",
        [
            {"item_id": item, "model_id": f"m{k}", "n_generations": 1, "score": value, "quality": value}
            for item, values in qualities.items()
            for k, value in enumerate(values)
            if value is not None
        ],
    )
    rows = {row["item_id"]: row for row in tables.run("intermediate.item_stats")}
    assert tables.broken_claims("intermediate.item_stats") == []
    return rows


def test_solved_by_all_and_by_none(tables):
    rows = stats(tables, {"all": [1.0, 1.0], "none": [0.0, 0.0], "some": [1.0, 0.0], "half": [0.5, 0.5]})
    assert {item: (row["is_solved_by_all"], row["is_solved_by_none"]) for item, row in rows.items()} == {
        "all": (True, False),
        "none": (False, True),
        "some": (False, False),
        "half": (False, False),
    }
    assert {item: row["quality_range"] for item, row in rows.items()} == {"all": 0, "none": 0, "some": 1, "half": 0}


def test_there_is_nothing_to_solve_where_the_range_is_open(tables):
    rows = stats(tables, {"i": [1.0, 1.0]}, benchmark={"score_high": None})
    assert (rows["i"]["is_solved_by_all"], rows["i"]["is_solved_by_none"]) == (None, None)


def test_missing_cells_do_not_count(tables):
    rows = stats(tables, {"i": [1.0, None, 0.5], "j": [1.0, 1.0, 1.0]})
    assert (rows["i"]["n_models"], rows["i"]["mean_score"]) == (2, 0.75)


def test_discrimination_is_the_correlation_with_the_other_items(tables, rng):
    scores = rng.integers(0, 2, size=(6, 9)).astype(float)  # items x models
    scores[:, 0], scores[:, 1] = [1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 0, 1]
    rows = stats(tables, {f"i{i}": list(values) for i, values in enumerate(scores)})
    for i, values in enumerate(scores):
        others = np.delete(scores, i, axis=0).mean(axis=0)
        assert rows[f"i{i}"]["discrimination"] == pytest.approx(np.corrcoef(values, others)[0, 1], abs=1e-12)


def test_discrimination_is_unknown_where_all_models_tie(tables):
    rows = stats(tables, {"i": [1.0, 1.0, 1.0], "j": [0.0, 1.0, 1.0]})
    assert rows["i"]["discrimination"] is None
    assert rows["j"]["discrimination"] is None  # the rest does not vary
