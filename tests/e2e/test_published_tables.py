"""What SQL users find in the published database: every table of the contract under its names, with the figures."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.tables import TABLES, UNPUBLISHED_LAYERS
from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.conftest import call_capeval, write_benchmark

pytestmark = pytest.mark.xdist_group("published")  # one workspace for all of them

MODELS = ["alder", "birch", "cedar", "elm", "fir"]

# What the contract names of the tables that SQL derives, typed by hand; those Python writes stand in test_tables.py.
# Columns may be added, so these must be among the published ones.
DERIVED = {
    "staging.stg_generations": "benchmark_id item_id model_id generation_id status score quality error_policy cost_usd "
    "cost_source input_tokens output_tokens latency_s metric outcome is_cached cost_reported_usd cost_recomputed_usd "
    "judge_cost_usd cache_read_tokens cache_write_tokens reasoning_tokens file_id",
    "staging.stg_items": "benchmark_id item_id prompt category content_hash embedding declared_ids",
    "staging.stg_judgments": "benchmark_id item_id model_a_id model_b_id outcome judge_id position draw margin "
    "category judge_cost_usd file_id",
    "intermediate.item_scores": "benchmark_id item_id model_id n_generations score quality score_sd n_correct cost_usd "
    "latency_p95_s",
    "intermediate.item_stats": "benchmark_id item_id n_models mean_score is_solved_by_all is_solved_by_none "
    "discrimination",
    "intermediate.item_splits": "benchmark_id item_id split split_key",
    "intermediate.comparisons": "benchmark_id item_id model_a_id model_b_id draw outcome sample_rank source split",
    "marts.leaderboard": "benchmark_id model_id",
    "marts.model_pairs_verdicts": "benchmark_id model_a_id model_b_id verdict",
    "marts.cluster_leaderboard": "benchmark_id cluster_id model_id",
    "marts.frontier": "benchmark_id cost_usd quality",
    "marts.budget_choices": "benchmark_id",
    "marts.identification_savings": "benchmark_id policy",
    "marts.routing_table": "benchmark_id cluster_id model_id",
    "marts.coverage": "benchmark_id model_id",
    "marts.ingest_report": "file_id",
    "marts.cost_audit": "benchmark_id model_id",
    "marts.item_health": "benchmark_id item_id",
    "marts.order_bias": "benchmark_id judge_id",
    "marts.rank_changes": "benchmark_id model_id",
    "marts.verdicts": "benchmark_id question sentence source_table",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("files") / "desk", MODELS)


@pytest.fixture(scope="module")
def published(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    data = tmp_path_factory.mktemp("published") / "workspace"
    call_capeval("ingest", str(folder), data=data)
    call_capeval("run", data=data)
    with open_published(data / "capeval.duckdb") as connection:
        yield connection


@pytest.fixture(scope="module")
def columns(published: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    query = """
        select table_schema || '.' || table_name, column_name
        from information_schema.columns
        where table_catalog = current_database()
        order by table_schema, table_name, ordinal_position
    """
    found = defaultdict(list)
    for key, column in published.execute(query).fetchall():
        found[key].append(column)
    return dict(found)


def test_every_table_python_writes_is_published_with_its_columns(columns):
    expected = {
        key: list(table.column_names) for key, table in TABLES.items() if table.schema not in UNPUBLISHED_LAYERS
    }
    assert {key: found for key, found in columns.items() if key in TABLES} == expected


def test_every_table_sql_derives_is_published_with_the_columns_of_the_contract(columns):
    assert set(DERIVED) == set(load_project().models)
    missing = {key: set(names.split()) - set(columns.get(key, [])) for key, names in DERIVED.items()}
    assert {key: names for key, names in missing.items() if names} == {}


def test_derived_tables_have_the_columns_their_descriptions_list(columns):
    described = {key: [column.name for column in model.columns] for key, model in load_project().models.items()}
    assert {key: columns[key] for key in described} == described


def test_nothing_else_is_published(columns):
    assert set(columns) == {key for key, table in TABLES.items() if table.schema not in UNPUBLISHED_LAYERS} | set(
        DERIVED
    )


def test_what_was_not_computed_is_there_and_empty(published):
    for key in ("raw.judgments", "estimates.probe_policies", "estimates.ood_evaluation", "studies.topic_entropy"):
        assert published.execute(f"select count(*) from {key}").fetchone() == (0,), key


def test_mean_scores_are_those_of_a_plain_query_over_the_file(published, folder):
    """Mean over items of the mean over an item's generations."""
    plain = published.execute(
        """
        select model, avg(score)
        from (select model, item_id, avg(score) as score from read_csv($path) group by all)
        group by model
        """,
        {"path": str(folder / "results.csv")},
    ).fetchall()
    found = dict(published.execute("select model_id, mean_score from estimates.strengths").fetchall())
    assert found == pytest.approx(dict(plain), abs=1e-12)
    assert set(found) == set(MODELS)


def test_a_comparison_is_of_unequal_scores_and_names_the_better_one(published):
    wrong = published.execute(
        """
        select count(*), count(*) filter (where (a.quality > b.quality) <> (outcome = 1) or a.quality = b.quality)
        from intermediate.comparisons as c
        inner join intermediate.item_scores as a
            on a.benchmark_id = c.benchmark_id and a.item_id = c.item_id and a.model_id = c.model_a_id
        inner join intermediate.item_scores as b
            on b.benchmark_id = c.benchmark_id and b.item_id = c.item_id and b.model_id = c.model_b_id
        """
    ).fetchone()
    (n_sampled,) = published.execute("select count(*) from intermediate.comparisons").fetchone()
    assert wrong == (n_sampled, 0)
    assert n_sampled > 200
