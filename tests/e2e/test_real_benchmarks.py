"""The command on real benchmarks of every shape: everything runs, what cannot apply says so, figures are the files'."""

from pathlib import Path

import duckdb
import pytest

from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.conftest import call_capeval

pytestmark = pytest.mark.slow

SKIPPED = {
    "gso": {"item_embeddings", "routing"},  # no text
    "humaneval_agents": set(),
    "alpaca_eval2": set(),
    "routerbench_part": set(),
    "mmlu_pro": set(),
    "metabench_gsm8k": set(),
}
FRONTIER = {"humaneval_agents": "bracket_only"}
"""Five draws a cell, at the ceiling; all others have one draw and hence an upper bound."""

ANSWERED = {"strengths", "clusters", "identification", "frontier", "coverage", "costs"}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in SKIPPED])
def benchmark_run(request, shared: Path, tmp_path_factory: pytest.TempPathFactory):
    """(name, its folder, connection to what the command published)."""
    folder = shared / "data" / request.param
    data = tmp_path_factory.mktemp(request.param)
    call_capeval("ingest", str(folder), data=data)
    call_capeval("run", data=data, timeout=1500)
    with open_published(data / "capeval.duckdb") as connection:
        yield request.param, folder, connection


def test_every_question_is_answered_or_skipped_with_a_reason(benchmark_run):
    name, _, published = benchmark_run
    rows = published.execute("select question, is_skipped, is_computed, sentence from marts.verdicts").fetchall()
    assert {question for question, is_skipped, _, _ in rows if is_skipped} == SKIPPED[name]
    assert {question for question, _, is_computed, _ in rows if is_computed} >= ANSWERED - SKIPPED[name]
    for question, is_skipped, _, sentence in rows:
        assert not is_skipped or sentence.startswith(f"Not answered for {name}: "), question


def test_mean_scores_are_those_of_a_plain_query_over_the_file(benchmark_run):
    _, folder, published = benchmark_run
    query = """
        select model, avg(score)
        from (select model, item_id, avg(score) as score from read_parquet(?) group by all)
        group by model
    """
    plain = dict(duckdb.execute(query, [str(folder / "results.parquet")]).fetchall())
    found = dict(published.execute("select model_id, mean_score from estimates.strengths").fetchall())
    assert {model: found[model] for model in plain} == pytest.approx(plain, abs=1e-12)


def test_the_frontier_gives_no_figure_where_luck_cannot_be_told_from_skill(benchmark_run):
    name, _, published = benchmark_run
    assert published.execute("select verdict from estimates.frontier_diagnostics").fetchall() == [
        (FRONTIER.get(name, "upper_bound_only"),)
    ]
    headline = "select value, upper from estimates.oracle_estimates where estimator = 'headline' and category = ''"
    ((value, upper),) = published.execute(headline).fetchall()
    assert value is None
    assert upper is not None


def test_counts_add_up_and_responsibilities_sum_to_one(benchmark_run):
    _, _, published = benchmark_run
    broken = """
        select file_id from raw.files where n_read <> n_kept + n_rejected + n_duplicate
        union all
        select item_id from estimates.cluster_responsibilities
        group by method, item_id having abs(sum(responsibility) - 1) > 1e-9
    """
    assert published.execute(broken).fetchall() == []
