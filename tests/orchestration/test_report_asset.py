"""The report asset: pages of what changed are written, the others stay as they are."""

from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from capeval_pipeline.orchestration.assets.report import (
    CURRENT_CHECK,
    PAGES,
    are_written,
    build_report,
    build_report_check,
)
from capeval_pipeline.orchestration.records import asset_key
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.reporting.index import page_name
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.sql_models import load_project
from tests.reporting.published import BARE, QUIZ, publish

PROJECT = load_project()


class Pages:
    """A workspace with a published database, and runs of the report asset on it."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.workspace = Workspace(load_settings(root))
        self.instance = instance
        self.database = publish(root / "capeval.duckdb")
        self.folder = self.workspace.settings.reports

    def write(self) -> dict[str, Any]:
        """Run the asset; its metadata."""
        result = dg.materialize(
            [build_report(PROJECT)],
            instance=self.instance,
            resources={"workspace": dg.ResourceDefinition.hardcoded_resource(self.workspace)},
        )
        event = result.asset_materializations_for_node("report__pages")[0]
        return {name: value.value for name, value in event.metadata.items()}

    def check(self) -> tuple[bool, str]:
        """Run the check of the pages by itself, as a publish does."""
        result = dg.materialize(
            [build_report(PROJECT), build_report_check(PROJECT)],
            selection=dg.AssetSelection.checks(dg.AssetCheckKey(asset_key(PAGES), CURRENT_CHECK)),
            instance=self.instance,
            resources={"workspace": dg.ResourceDefinition.hardcoded_resource(self.workspace)},
        )
        (found,) = result.get_asset_check_evaluations()
        assert found.severity == dg.AssetCheckSeverity.WARN
        return found.passed, found.description

    def are_written(self) -> bool:
        return are_written(self.workspace, self.instance, PROJECT)

    def age(self, benchmark_id: str) -> int:
        return (self.folder / page_name(benchmark_id)).stat().st_mtime_ns


@pytest.fixture
def pages(tmp_path: Path, instance: dg.DagsterInstance) -> Pages:
    return Pages(tmp_path, instance)


def test_every_page_and_the_index_are_written_once(pages):
    assert not pages.are_written()
    assert pages.write()["n_written"] == 2
    assert sorted(path.name for path in pages.folder.iterdir()) == sorted(
        [page_name(QUIZ), page_name(BARE), "index.html", "synthetic-worlds.html"]
    )
    assert pages.are_written()


def test_a_second_run_with_nothing_new_touches_no_page(pages):
    pages.write()
    before = pages.age(QUIZ)
    assert pages.write()["reused"] is True
    assert pages.age(QUIZ) == before


def test_only_the_page_of_a_benchmark_that_changed_is_written(pages):
    pages.write()
    quiz, bare = pages.age(QUIZ), pages.age(BARE)
    with duckdb.connect(str(pages.database)) as connection:
        connection.execute(f"update meta.partition_state set data_version = 'new' where benchmark_id = '{QUIZ}'")
    assert not pages.are_written()
    assert pages.write()["n_written"] == 1
    assert pages.age(QUIZ) > quiz
    assert pages.age(BARE) == bare


def test_pages_of_another_state_than_the_published_one_are_told(pages):
    assert pages.check() == (False, f"Not of what is published: 2 of 2 pages, the first that of {BARE}")
    pages.write()
    assert pages.check() == (True, "Made from what is published: 2 pages.")
    with duckdb.connect(str(pages.database)) as connection:
        connection.execute(f"update meta.partition_state set data_version = 'new' where benchmark_id = '{QUIZ}'")
    assert pages.check() == (False, f"Not of what is published: 1 of 2 pages, the first that of {QUIZ}")


def test_a_page_that_was_deleted_is_written_again(pages):
    pages.write()
    (pages.folder / page_name(BARE)).unlink()
    assert not pages.are_written()
    assert pages.write()["n_written"] == 1
    assert pages.are_written()
