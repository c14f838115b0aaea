"""marts.verdicts: every question has a sentence, if only the command that answers it."""

import pytest

UPSTREAM = (
    "staging.stg_generations",
    "staging.stg_judgments",
    "intermediate.item_scores",
    "marts.coverage",
    "marts.cost_audit",
    "marts.order_bias",
)


def verdicts(tables, benchmark="B"):
    tables.fill("raw.benchmarks", [{"benchmark_id": benchmark}])
    rows = tables.run_all(*UPSTREAM, "marts.verdicts")
    assert tables.broken_claims("marts.verdicts") == []
    return {row["question"]: row for row in rows}


def test_what_an_asset_says_is_passed_on(tables):
    said = {
        "question": "strengths",
        "sentence": "m7 is ahead.",
        "source_table": "estimates.strengths",
        "is_skipped": False,
    }
    tables.fill("verdicts.strengths", [said])
    row = verdicts(tables)["strengths"]
    assert (row["sentence"], row["source_table"], row["is_computed"]) == ("m7 is ahead.", "estimates.strengths", True)


def test_a_skipped_question_is_not_one_nobody_computed(tables):
    tables.fill("verdicts.frontier", [{"question": "frontier", "sentence": "no cost is known", "is_skipped": True}])
    row = verdicts(tables)["frontier"]
    assert (row["sentence"], row["is_skipped"], row["is_computed"]) == ("no cost is known", True, False)


def test_a_question_nobody_answered_names_its_command(tables):
    out = verdicts(tables)
    assert out["identification"]["sentence"] == "Not computed; `capeval run --benchmark B --only identification` does."
    assert "--only capabilities --full" in out["cold_start"]["sentence"]
    assert set(out) == {
        "strengths",
        "clusters",
        "probe",
        "routing",
        "cold_start",
        "out_of_domain",
        "probe_policies",
        "probe_sensitivity",
        "identification",
        "frontier",
    }


def test_an_asset_that_spoke_is_not_asked_again_for_its_other_questions(tables):
    tables.fill("verdicts.ecc", [{"question": "clusters", "sentence": "no text", "is_skipped": True}])
    assert "probe" not in verdicts(tables)


@pytest.mark.parametrize(("name", "quoted"), [("a b", "'a b'"), ("it's", "'it'\\''s'"), ("arc@2", "arc@2")])
def test_names_that_a_shell_would_take_apart_are_quoted(tables, name, quoted):
    assert f"--benchmark {quoted} --only" in verdicts(tables, name)["frontier"]["sentence"]


def test_coverage_in_a_sentence(tables):
    tables.fill("raw.items", [{"item_id": "i"}, {"item_id": "j"}])
    tables.fill("raw.models", [{"model_id": "m"}, {"model_id": "n"}])
    tables.fill(
        "raw.generations",
        [
            {"item_id": "i", "model_id": "m", "score": 1.0},
            {"item_id": "j", "model_id": "m", "score": 0.0},
            {"item_id": "i", "model_id": "n", "score": 1.0},
        ],
    )
    assert verdicts(tables)["coverage"]["sentence"] == (
        "Cells with a score: 3 of 4 (75.0 %; models x items: 2 x 2). Errors: 0, answers without a verdict: 0, "
        "unusable: 0, cells not run: 1. Errors are left out of every mean. Fewest: n with 1 of 2 items."
    )


def test_coverage_of_judgments_in_a_sentence(tables):
    tables.fill("raw.items", [{"item_id": "i"}])
    tables.fill("raw.models", [{"model_id": "m"}, {"model_id": "n"}])
    tables.fill("raw.judgments", [{"item_id": "i", "model_a_id": "m", "model_b_id": "n", "outcome": 1.0}])
    assert (
        verdicts(tables)["coverage"]["sentence"] == "Models: 2, no scores. Judgments of pairs: 1 (items: 1, judges: 1)."
    )


def test_costs_in_a_sentence(tables):
    tables.fill("raw.models", [{"model_id": "m"}, {"model_id": "n"}])
    tables.fill(
        "raw.generations",
        [
            {"item_id": "i", "model_id": "m", "cost_usd": 1234.5},
            {"item_id": "i", "model_id": "n", "cost_reported_usd": 0.0},
        ],
    )
    assert verdicts(tables)["costs"]["sentence"] == (
        "Costs are known of 1 of 2 answers (50.0 %) and 1 of 2 models; $1,234.50 in all. Costs reported as zero: 1."
    )


def test_a_sum_below_a_cent_is_not_told_as_nothing(tables):
    tables.fill("raw.models", [{"model_id": "m"}])
    tables.fill("raw.generations", [{"item_id": "i", "model_id": "m", "cost_usd": 0.0021}])
    assert "; $0.002100 in all." in verdicts(tables)["costs"]["sentence"]


def test_no_cost_says_nothing_about_cost(tables):
    tables.fill("raw.models", [{"model_id": "m"}])
    tables.fill("raw.generations", [{"item_id": "i", "model_id": "m", "score": 1.0}])
    assert verdicts(tables)["costs"]["sentence"] == "No cost is known, so nothing can be said about cost."


@pytest.mark.parametrize("policy", ["ignore", "wrong"])
def test_every_sentence_names_what_an_error_counts_as(tables, policy):
    tables.set(error_policy=policy)
    tables.fill("raw.models", [{"model_id": "m"}])
    tables.fill("raw.items", [{"item_id": "i"}])
    tables.fill("raw.generations", [{"item_id": "i", "model_id": "m", "status": "error"}])
    assert {row["error_policy"] for row in verdicts(tables).values()} == {policy}


def test_a_name_under_which_files_were_only_refused_has_no_sentence(tables):
    said = {"benchmark_id": "refused", "question": "strengths", "sentence": "no answers", "is_skipped": True}
    tables.fill("verdicts.strengths", [said])
    assert {row["benchmark_id"] for row in verdicts(tables).values()} == {"B"}


def test_not_all_cells_is_never_told_as_all(tables):
    tables.fill("raw.benchmarks", [{}])
    tables.fill("raw.items", [{"item_id": f"i{n}"} for n in range(3000)])
    tables.fill("raw.models", [{"model_id": "m"}])
    tables.fill("raw.generations", [{"item_id": f"i{n}", "model_id": "m", "score": 1.0} for n in range(2999)])
    rows = tables.run_all(
        "staging.stg_generations", "staging.stg_judgments", "intermediate.item_scores", "marts.coverage",
        "marts.cost_audit", "marts.order_bias", "marts.verdicts",
    )  # fmt: skip
    (told,) = [row["sentence"] for row in rows if row["question"] == "coverage"]
    assert "Cells with a score: 2,999 of 3,000 (99.9 %;" in told
