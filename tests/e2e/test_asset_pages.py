"""After a first session: the sentences are the same wherever they are read, and every asset's page is useful alone."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dagster as dg
import pytest

from capeval_pipeline.definitions import build_definitions
from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.asset_pages import FIRST_ROWS, REPORT, SQL, VERDICT
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.records import RECORD_KEY
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.reporting.index import page_name
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.conftest import call_capeval
from tests.e2e.readme import Session, readme_session

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("readme")]

BENCHMARK = "my_benchmark"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return readme_session(tmp_path_factory)


@pytest.fixture(scope="module")
def pages(session: Session) -> dict[str, Mapping[str, Any]]:
    """Asset → metadata of its newest materialization, as the UI shows it, in its order."""
    workspace = Workspace(load_settings(session.data))
    found = {}
    with driver.workspace_instance(workspace) as instance:
        for key in instance.all_asset_keys():
            partitions = instance.get_materialized_partitions(key)
            asked = dg.AssetRecordsFilter(key, asset_partitions=[BENCHMARK] if partitions else None)
            records = instance.fetch_materializations(asked, limit=1).records
            if records:
                found[".".join(key.path)] = records[0].asset_materialization.metadata
    return found


def published_sentences(session: Session) -> dict[str, str]:
    with open_published(session.data / "capeval.duckdb") as connection:
        rows = connection.execute(
            "select question, sentence from marts.verdicts where benchmark_id = ? and is_computed", [BENCHMARK]
        ).fetchall()
    return dict(rows)


def test_a_sentence_reads_the_same_in_the_report_the_command_and_the_ui(session, pages):
    report = (session.data / "reports" / page_name(BENCHMARK)).read_text(encoding="utf-8")
    body = html.unescape(re.sub(r"<[^>]+>", "", report[: report.index('id="plotly-packed"')])).replace("\u00a0", " ")
    told = {}
    for command in ("leaderboard", "clusters", "frontier", "identify-study"):
        answer = json.loads(call_capeval(command, BENCHMARK, "--json", data=session.data).stdout)
        told |= {entry["question"]: entry["sentence"] for entry in answer["verdicts"]}
    in_the_ui = " ".join(page[VERDICT].text for page in pages.values() if VERDICT in page)
    published = published_sentences(session)
    assert {"strengths", "clusters", "frontier", "identification", "coverage", "costs"} <= set(published)
    for question, sentence in published.items():
        assert sentence in body, question
        assert sentence in in_the_ui, question
        if question in told:
            assert told[question] == sentence
    assert {"strengths", "clusters", "frontier", "coverage", "costs"} <= set(told)


def test_the_terminal_shows_the_same_sentence(session):
    for command, question in (("leaderboard", "strengths"), ("frontier", "frontier"), ("clusters", "clusters")):
        assert published_sentences(session)[question] in session.told(f"capeval {command} {BENCHMARK}")


def made_by_a_plain_run() -> set[str]:
    """Assets that `capeval ingest` and `capeval run` make: not the studies, nor what only --full asks for."""
    graph = build_graph()
    keys = {key for step in graph.steps if not step.is_long for key in step.outputs}
    return keys | {model.key for model in graph.project.by_layer["marts"]} | {"report.pages"}


def test_every_asset_of_a_plain_run_has_a_page(pages):
    assert made_by_a_plain_run() <= set(pages)


def test_every_page_says_a_verdict_rows_numbers_sql_and_where_the_report_is(session, pages):
    lacking = []
    with open_published(session.data / "capeval.duckdb") as connection:
        for key, page in pages.items():
            shown = {name: entry.value for name, entry in page.items()}
            numbers = [name for name, value in shown.items() if isinstance(value, int | float) and value is not True]
            rows = str(shown.get(FIRST_ROWS, ""))
            checks = {
                "a sentence": re.match(r"\S.*[.]", str(shown.get(VERDICT, ""))),
                "a table": rows.startswith(("| ", "No rows.")),
                "a row count": isinstance(shown.get("dagster/row_count"), int),
                "numbers to plot": len([name for name in numbers if name not in ("reused", "dagster/row_count")]) > 0,
                "the report": Path(unquote(urlsplit(str(shown.get(REPORT, ""))).path)).is_file(),
                "what a person reads first": next(iter(page)) == VERDICT and list(page)[-1] == RECORD_KEY,
            }
            lacking += [f"{key}: {what}" for what, holds in checks.items() if not holds]
            assert connection.execute(str(shown[SQL])).fetchall() is not None, key
    assert lacking == []


def test_every_asset_has_a_description_and_sql_before_it_was_ever_made(session):
    graph = build_definitions(load_settings(session.data)).resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert len(node.description or "") > 20, key
        assert str(node.metadata.get("sql", "")).startswith("select * from "), key


def test_a_step_that_does_not_apply_leaves_an_observation_with_the_reason_of_its_verdict(tmp_path):
    rows = [f"q{n},{model},{(n + place) % 2}" for n in range(4) for place, model in enumerate(("elm", "oak"))]
    (tmp_path / "tiny.csv").write_text("\n".join(["item_id,model,score", *rows]) + "\n")
    data = tmp_path / "data"
    call_capeval("ingest", tmp_path / "tiny.csv", data=data)
    call_capeval("run", "--only", "capabilities", data=data)
    with open_published(data / "capeval.duckdb") as connection:
        asked = "select distinct benchmark_id, sentence from marts.verdicts where is_skipped"
        published = set(connection.execute(asked).fetchall())
    assert published
    observed = set()
    with driver.workspace_instance(Workspace(load_settings(data))) as instance:
        for key in instance.all_asset_keys():
            for record in instance.fetch_observations(key, limit=100).records:
                observation = record.event_log_entry.dagster_event.asset_observation_data.asset_observation
                observed.add((observation.partition, observation.metadata["skipped because"].value))
    assert published <= observed


def test_a_derived_table_tells_its_columns_with_the_types_they_have(pages):
    for key in ("intermediate.item_scores", "marts.leaderboard"):
        columns = {column.name: column.type for column in pages[key]["dagster/column_schema"].schema.columns}
        assert columns["benchmark_id"] in ("string", "large_string"), key
        assert "known once made" not in columns.values(), key
