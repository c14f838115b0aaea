"""marts.coverage: what there is of a model, by status, and its mean under both error policies."""

import pytest

UPSTREAM = ("staging.stg_generations", "staging.stg_judgments", "intermediate.item_scores")


def coverage(tables, generations, *, benchmark=None, n_items=4, models=("m",)):
    tables.fill("raw.benchmarks", [benchmark or {}])
    tables.fill("raw.items", [{"item_id": f"i{n}"} for n in range(n_items)])
    tables.fill("raw.models", [{"model_id": model} for model in models])
    tables.fill("raw.generations", [{"model_id": "m", **row} for row in generations])
    rows = tables.run_all(*UPSTREAM, "marts.coverage")
    assert tables.broken_claims("marts.coverage") == []
    return rows


STATUSES = [
    {"item_id": "i0", "score": 1.0},
    {"item_id": "i1", "status": "error"},
    {"item_id": "i2", "status": "unscored"},
]


def test_statuses_and_what_was_not_run_add_up_to_the_items(tables, pick):
    (row,) = coverage(tables, STATUSES)
    assert pick([row], "n_ok", "n_error", "n_unscored", "n_invalid", "n_not_run", "n_items") == [(1, 1, 1, 0, 1, 4)]


@pytest.mark.parametrize(("policy", "n_scored"), [("ignore", 1), ("wrong", 2)])
def test_both_means_are_there_whatever_the_policy(tables, policy, n_scored):
    (row,) = coverage(tables, STATUSES, benchmark={"error_policy": policy})
    assert (row["mean_ignoring_errors"], row["mean_errors_wrong"]) == (1.0, 0.5)
    assert (row["policy"], row["n_scored_items"]) == (policy, n_scored)


def test_means_are_over_items_not_over_generations(tables):
    generations = [{"item_id": "i0", "generation_id": g, "score": 1.0} for g in range(3)]
    generations += [{"item_id": "i1", "score": 0.0}, {"item_id": "i0", "generation_id": 3, "status": "error"}]
    (row,) = coverage(tables, generations)
    assert (row["mean_ignoring_errors"], row["mean_errors_wrong"]) == (0.5, 0.375)  # (3/4 + 0) / 2
    assert (row["generations_min"], row["generations_median"], row["generations_max"]) == (1, 2, 3)


def test_an_error_has_no_known_worst_score_where_the_range_is_open(tables):
    (row,) = coverage(tables, STATUSES, benchmark={"score_low": None})
    assert (row["mean_ignoring_errors"], row["mean_errors_wrong"]) == (1.0, None)


def test_lower_is_better_takes_the_upper_end_for_errors(tables):
    (row,) = coverage(tables, STATUSES, benchmark={"score_high": 3.0, "higher_is_better": False})
    assert row["mean_errors_wrong"] == 2.0  # (1 + 3) / 2


def test_a_model_known_only_from_judgments_is_there_with_its_votes(tables, pick):
    tables.fill("raw.judgments", [{"item_id": "i0", "model_a_id": "m", "model_b_id": "n", "outcome": 1.0}])
    rows = coverage(tables, [], models=("m", "n", "o"))
    assert pick(rows, "model_id", "n_judgments", "n_ok", "mean_ignoring_errors") == [
        ("m", 1, 0, None),
        ("n", 1, 0, None),
        ("o", 0, 0, None),
    ]


def test_claimed_items_are_those_of_the_files_that_count(tables):
    tables.fill(
        "raw.files",
        [
            {"file_id": "file", "claimed_items": 2376},
            {"file_id": "old", "claimed_items": 9999, "replaced_by_file_id": "file"},
        ],
    )
    (row,) = coverage(tables, STATUSES)
    assert row["claimed_items"] == 2376
