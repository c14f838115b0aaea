"""dbt_like_sql/tests: each claim across tables lets sound tables pass and returns the row that breaks it."""

import pytest

PAIR = {"item_id": "i", "model_a_id": "a", "model_b_id": "b"}
CURVE = {"cost_axis": "usd", "estimator": "headline", "routing": "pre_hoc"}
FILE = {"file_id": "f", "path": "a.csv", "n_read": 3, "n_kept": 1, "n_rejected": 1, "n_duplicate": 1}
MODELS = {"raw.models": [{"model_id": "a"}, {"model_id": "b"}]}
CELLS = {
    "intermediate.item_scores": [
        {"item_id": "i", "model_id": "a", "quality": 1.0},
        {"item_id": "i", "model_id": "b", "quality": 0.0},
    ]
}


def comparison(rank, **columns):
    return {**PAIR, "draw": rank, "sample_rank": rank, "outcome": 1.0, "source": "scores", **columns}


def points(*qualities, **columns):
    return [
        {**CURVE, "point": n, "cost_usd": float(n), "quality": quality, **columns}
        for n, quality in enumerate(qualities)
    ]


def responsibilities(*values):
    key = {"method": "ecc", "item_id": "i"}
    return [{**key, "cluster_id": k, "responsibility": value} for k, value in enumerate(values)]


SOUND = {
    "assert_estimated_models_are_known": {**MODELS, "estimates.strengths": [{"model_id": "a"}]},
    "assert_responsibilities_sum_to_one": {"estimates.cluster_responsibilities": responsibilities(0.25, 0.75)},
    "assert_records_add_up": {"raw.files": [FILE]},
    "assert_refused_files_keep_nothing": {
        "raw.files": [
            {**FILE, "status": "refused", "n_kept": 0},
            {**FILE, "file_id": "before", "status": "refused", "n_kept": 0, "replaced_by_file_id": "f"},
        ],
        "raw.rejections": [{"file_id": "f", "severity": "rejected"}],
    },
    "assert_scores_are_in_the_declared_range": {
        "raw.benchmarks": [{}],
        "raw.generations": [{"item_id": "i", "score": 1.0}, {"item_id": "j", "status": "error"}],
    },
    "assert_answers_are_of_known_items_and_models": {
        **MODELS,
        "raw.items": [{"item_id": "i"}],
        "raw.generations": [{"item_id": "i", "model_id": "a"}],
        "raw.judgments": [PAIR],
    },
    "assert_comparisons_hold_no_tie": {**CELLS, "intermediate.comparisons": [comparison(0)]},
    "assert_comparisons_are_few_and_ranked": {"intermediate.comparisons": [comparison(0), comparison(1)]},
    "assert_equal_texts_share_a_split": {
        "staging.stg_items": [{"item_id": "i", "text_key": "t"}, {"item_id": "j", "text_key": "t"}],
        "intermediate.item_splits": [{"item_id": "i", "split": "test"}, {"item_id": "j", "split": "test"}],
    },
    "assert_intervals_are_in_order": {
        "estimates.strengths": [{"rank_lower": 1, "rank_upper": 2, "mean_score": 0.5, "lower": -1.0, "upper": None}]
    },
    "assert_gains_follow_from_their_losses": {
        "estimates.ecc_evaluation": [{"nll": 0.5, "nll_global": 1.0, "gain_percent": 50.0}, {"nll_global": 1.0}]
    },
    "assert_frontiers_never_fall": {"estimates.frontier_points": points(0.5, 0.5, None, 0.75)},
    "assert_refused_figures_are_absent": {
        "estimates.frontier_diagnostics": [{"verdict": "bracket_only"}],
        "estimates.oracle_estimates": [{"category": "", "estimator": "headline", "lower": 0.5}],
    },
}

BROKEN = [
    ("assert_estimated_models_are_known", {**MODELS, "estimates.clusters": [{"best_model_id": "c"}]}),
    ("assert_responsibilities_sum_to_one", {"estimates.cluster_responsibilities": responsibilities(0.25, 0.7)}),
    ("assert_records_add_up", {"raw.files": [{**FILE, "n_read": 4}]}),
    ("assert_refused_files_keep_nothing", {"raw.files": [{**FILE, "status": "refused", "n_kept": 0}]}),
    (
        "assert_scores_are_in_the_declared_range",
        {"raw.benchmarks": [{}], "raw.generations": [{"item_id": "i", "score": 1.5}]},
    ),
    ("assert_scores_are_in_the_declared_range", {"raw.generations": [{"item_id": "i", "score": float("nan")}]}),
    ("assert_scores_are_in_the_declared_range", {"raw.generations": [{"item_id": "i"}]}),
    (
        "assert_scores_are_in_the_declared_range",
        {"raw.generations": [{"item_id": "i", "status": "error", "score": 0.0}]},
    ),
    ("assert_answers_are_of_known_items_and_models", {**MODELS, "raw.judgments": [PAIR]}),
    ("assert_comparisons_hold_no_tie", {**CELLS, "intermediate.comparisons": [comparison(0, outcome=0.0)]}),
    ("assert_comparisons_hold_no_tie", {"intermediate.comparisons": [comparison(0)]}),
    ("assert_comparisons_are_few_and_ranked", {"intermediate.comparisons": [comparison(0)]}),
    ("assert_comparisons_are_few_and_ranked", {"intermediate.comparisons": [comparison(0), comparison(2)]}),
    ("assert_comparisons_are_few_and_ranked", {"intermediate.comparisons": [comparison(n) for n in range(8)]}),
    (
        "assert_equal_texts_share_a_split",
        {
            "staging.stg_items": [{"item_id": "i", "text_key": "t"}, {"item_id": "j", "text_key": "t"}],
            "intermediate.item_splits": [{"item_id": "i", "split": "test"}, {"item_id": "j", "split": "train"}],
        },
    ),
    ("assert_intervals_are_in_order", {"estimates.strengths": [{"lower": 1.0, "upper": 0.5}]}),
    ("assert_intervals_are_in_order", {"estimates.strengths": [{"mean_score": 0.5, "score_lower": 0.6}]}),
    (
        "assert_gains_follow_from_their_losses",
        {"estimates.ood_evaluation": [{"nll": 0.5, "nll_global": 1.0, "gain_percent": 51.0}]},
    ),
    ("assert_frontiers_never_fall", {"estimates.frontier_points": points(0.5, None, 0.25)}),
    (
        "assert_refused_figures_are_absent",
        {
            "estimates.frontier_diagnostics": [{"verdict": "upper_bound_only"}],
            "estimates.frontier_points": points(0.5),
        },
    ),
]


def found(tables, name, given):
    for key, rows in given.items():
        tables.fill(key, rows)
    return tables.broken_assertion(name)


def test_every_assertion_is_tried_both_ways(sql_project):
    names = {claim.name for claim in sql_project.assertions}
    assert names == set(SOUND) == {name for name, _ in BROKEN}


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_tables_pass(tables, name):
    assert found(tables, name, SOUND[name]) == []


@pytest.mark.parametrize(("name", "given"), BROKEN)
def test_what_breaks_a_claim_is_returned(tables, name, given):
    assert len(found(tables, name, given)) == 1


def test_the_limit_on_pairs_is_the_one_the_comparisons_were_made_with(tables):
    made = {"schema": "intermediate", "table": "comparisons", "config": '{"pairs_per_item": 8}'}
    tables.fill("meta.data_versions", [made])
    eight = {"intermediate.comparisons": [comparison(n) for n in range(8)]}
    assert found(tables, "assert_comparisons_are_few_and_ranked", eight) == []
