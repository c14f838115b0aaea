"""Checks that warn: refused files, rejected records, thin coverage, names that look alike."""

import re

import pyarrow as pa
import pytest

from capeval_pipeline.ingestion.doubts import CHECKS, findings
from capeval_pipeline.storage.tables import TABLES


def table(key: str, rows: list[dict]) -> pa.Table:
    """Rows of a raw table; columns that are not given are NULL."""
    schema = pa.schema([pa.field(column.name, column.type) for column in TABLES[key].columns])
    return pa.Table.from_pylist(rows, schema)


def raw(files=(), generations=(), models=()) -> dict[str, pa.Table]:
    return {
        "raw.files": table("raw.files", list(files)),
        "raw.generations": table("raw.generations", list(generations)),
        "raw.models": table("raw.models", list(models)),
    }


def outcome(check: str, tables: dict[str, pa.Table]) -> tuple[bool, str]:
    found = {entry.check: (entry.is_well, entry.sentence) for entry in findings(tables, minimum_coverage=0.9)}
    assert set(found) == {name for names in CHECKS.values() for name in names}
    return found[check]


READ = {"path": "a.csv", "status": "read", "n_rejected": 0}


@pytest.mark.parametrize(
    ("files", "is_well", "words"),
    [
        ([READ], True, "of 1 file was"),
        (
            [READ, {"path": "b.csv", "status": "refused", "n_rejected": 3}],
            False,
            r"1 of 2 files refused \(b.csv\)",
        ),
        ([READ | {"n_rejected": 2}], False, "2 records of the others rejected"),
        ([READ | {"n_rejected": 2, "replaced_by_file_id": "f2"}, READ], True, "of 1 file was"),
    ],
    ids=["whole", "a refused file", "rejected records", "a file that was replaced does not count"],
)
def test_files_that_were_not_read_whole_are_told(files, is_well, words):
    found, sentence = outcome("files_were_read_whole", raw(files=files))
    assert found == is_well
    assert re.search(words, sentence)


def cells(*statuses: str) -> list[dict]:
    """Cells of two items and as many models as needed, in order."""
    return [
        {"item_id": f"q{i % 2}", "model_id": f"m{i // 2}", "generation_id": 0, "status": status}
        for i, status in enumerate(statuses)
    ]


def test_coverage_counts_cells_with_a_score():
    # 4 cells, 3 with a score: 75 %
    assert outcome("cells_have_scores", raw(generations=cells("ok", "ok", "ok", "error"))) == (
        False,
        "Scores in 3 of 4 cells (75.0%); 90% are asked for.",
    )


def test_a_cell_that_was_never_run_counts_as_one_without_a_score():
    # q1 of m1 is missing altogether
    assert not outcome("cells_have_scores", raw(generations=cells("ok", "ok", "ok")))[0]


def test_more_generations_of_a_cell_are_one_cell():
    answers = cells("ok", "ok")
    assert outcome("cells_have_scores", raw(generations=[*answers, answers[0] | {"generation_id": 1}]))[0]


def test_judgments_alone_miss_no_score():
    assert outcome("cells_have_scores", raw())[0]


def answers(model: str, costs: list[tuple[float | None, float | None]]) -> list[dict]:
    """Answers of a model with the cost that was reported and the one that counts."""
    return [
        {"item_id": f"q{i}", "model_id": model, "generation_id": 0, "status": "ok"}
        | {"cost_reported_usd": reported, "cost_usd": known}
        for i, (reported, known) in enumerate(costs)
    ]


@pytest.mark.parametrize(
    ("generations", "is_well", "words"),
    [
        (answers("m", [(0.1, 0.1), (0.2, 0.2)] * 3), True, "No cost is 0"),
        (answers("m", [(0.0, None), (0.2, 0.2)]), False, "0 as the cost of m;"),
        (answers("m", [(0.0, 0.0)] * 6), True, "No cost is 0"),
        (answers("m", [(0.1, 0.1)] * 5) + answers("n", [(0.3, 0.3)] * 5), False, "one cost .* of m and 1 more model;"),
        (answers("m", [(0.1, 0.1)] * 4), True, "No cost is 0"),
        (answers("m", [(None, None)] * 6), True, "No cost is 0"),
    ],
    ids=["varying", "a zero", "declared free", "constant", "too few to tell", "unknown"],
)
def test_costs_that_are_zero_or_always_the_same_are_told(generations, is_well, words):
    found, sentence = outcome("costs_are_plausible", raw(generations=generations))
    assert found == is_well
    assert re.search(words, sentence)


def test_names_that_look_alike_are_told():
    models = [{"model_id": "lab/m-7b"}, {"model_id": "lab/m_7b", "look_alike_of": "lab/m-7b"}]
    found, sentence = outcome("names_are_distinct", raw(models=models))
    assert not found
    assert sentence.startswith("Names that look like another (1): lab/m_7b like lab/m-7b;")
    assert outcome("names_are_distinct", raw(models=models[:1]))[0]


def test_two_names_with_the_same_scores_are_told():
    files = [READ | {"warnings": '{"same_vector": 1}'}]
    is_well, sentence = outcome("names_are_distinct", raw(files=files, models=[{"model_id": "a"}, {"model_id": "b"}]))
    assert (is_well, "same scores" in sentence) == (False, True)
