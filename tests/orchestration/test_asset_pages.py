"""What an asset's page says, and that it says it again when nothing had to be made."""

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from capeval_pipeline.methods.debiasing import studies
from capeval_pipeline.orchestration.asset_pages import FIRST_ROWS, REPORT, SQL, VERDICT, first_rows, sql_line
from capeval_pipeline.orchestration.assets.studies import FRONTIER_STUDIES, build_studies
from capeval_pipeline.orchestration.records import RECORD_KEY
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.stored_rows import stored


@pytest.fixture
def make(tmp_path, instance, monkeypatch):
    """Materialize a study of two rows; the metadata of what Dagster was told, in its order."""
    two = [SimpleNamespace(world=world, mixture="x", entropy=0.1, oracle_gap=0.5) for world in "ab"]
    monkeypatch.setattr(studies, "study_topic_entropy", lambda *, seed: two)

    def call() -> dict[str, Any]:
        result = dg.materialize(
            build_studies([study for study in FRONTIER_STUDIES if study.table == "studies.topic_entropy"]),
            instance=instance,
            resources={"workspace": dg.ResourceDefinition.hardcoded_resource(Workspace(load_settings(tmp_path)))},
        )
        (event,) = result.asset_materializations_for_node("studies_topic_entropy")
        return {name: entry.value for name, entry in event.metadata.items()}

    return call


def test_a_page_begins_with_what_a_person_reads_and_ends_with_the_record(make):
    said = make()
    assert list(said)[:4] == [VERDICT, FIRST_ROWS, SQL, REPORT]
    assert list(said)[-1] == RECORD_KEY
    assert said[FIRST_ROWS].splitlines()[2] == "| a | x | 0.1 | 0.5 |"
    assert said["cpu_seconds"] >= 0


def test_a_reused_output_says_it_again_so_that_its_plots_go_on(make):
    first, second = make(), make()
    assert (first["reused"], second["reused"]) == (False, True)
    for name in (VERDICT, FIRST_ROWS, SQL, REPORT, "cpu_seconds", "dagster/row_count"):
        assert second[name] == first[name], name


def test_long_and_wide_tables_are_cut_and_counted():
    columns = {f"column{n}": [n] * 20 for n in range(11)}
    shown = first_rows(pa.table(columns)).splitlines()
    assert len([line for line in shown if line.startswith("|")]) == 2 + 8
    assert shown[0].count("column") == 8
    assert shown[-1] == "20 rows, 3 more columns"


def test_rows_in_files_are_shown_without_reading_them_all(tmp_path):
    table = pa.table({"benchmark_id": ["b"] * 9, "item_id": [f"q{n}" for n in range(9)]})
    shown = first_rows(stored(table, tmp_path / "rows.parquet"))
    assert shown.splitlines()[2:-2] == [f"| q{n} |" for n in range(8)]
    assert shown.endswith("9 rows")


def test_no_rows_name_the_columns():
    assert first_rows(pa.table({"item_id": pa.array([], pa.string())})) == "No rows. Columns: item\\_id"


def test_texts_of_the_data_are_no_markup():
    hostile = "<img src=x onerror=alert(1)> | *bold* `code`\n[link](x)"
    shown = first_rows(pa.table({"benchmark_id": ["b"], "model_id": [hostile], "score": [0.25], "empty": [None]}))
    assert shown.splitlines()[0] == "| model\\_id | score | empty |"
    assert shown.splitlines()[2] == r"| \<img src=x onerror=alert(1)\> \| \*bold\* \`code\` \[link\](x) | 0.25 | – |"


@pytest.mark.parametrize(
    ("key", "benchmark_id", "expected"),
    [
        ("marts.coverage", None, "select * from marts.coverage limit 100"),
        ("raw.items", "it's", "select * from raw.items where benchmark_id = 'it''s' limit 100"),
        ("readings.items", "b", "select * from raw.items where benchmark_id = 'b' limit 100"),
    ],
)
def test_the_sql_can_be_pasted(key, benchmark_id, expected):
    assert sql_line(key, benchmark_id) == expected
