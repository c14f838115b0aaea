"""Whose rows break a claim, where the rows are about files and not about benchmarks."""

from collections.abc import Iterator

import duckdb
import pytest

from capeval_pipeline.storage.claims import findings
from capeval_pipeline.storage.sql_models import load_model, sql_folder

CLAIMS = load_model(sql_folder() / "models" / "marts" / "ingest_report.sql").claims


@pytest.fixture
def reported() -> Iterator[duckdb.DuckDBPyConnection]:
    """Three files: one of two benchmarks, one of another, one that no benchmark holds."""
    with duckdb.connect() as connection:
        connection.execute("create schema raw; create schema marts")
        held = "(values ('f1', 'arc'), ('f1', 'desk'), ('f2', 'mmlu')) as t(file_id, benchmark_id)"
        connection.execute(f"create table raw.files as from {held}")
        files = "(values ('f1', 'a.csv'), ('f2', 'b.csv'), ('f3', 'c.csv')) as t(file_id, path)"
        connection.execute(f"create table marts.ingest_report as select *, 'read' as status from {files}")
        yield connection


def test_a_line_about_a_file_is_every_benchmark_s_that_the_file_holds(reported):
    reported.execute("update marts.ingest_report set path = null where file_id = 'f1'")
    found = findings(reported, CLAIMS)
    assert found.is_known_whose
    assert sorted(found.at_fault) == ["arc", "desk"]
    assert "1 row breaks it, one is file_id='f1'" in found.at_fault["arc"]


def test_a_line_about_a_file_of_no_benchmark_is_nobody_s(reported):
    reported.execute("update marts.ingest_report set path = null where file_id in ('f2', 'f3')")
    found = findings(reported, CLAIMS)
    assert (found.is_known_whose, sorted(found.at_fault)) == (False, ["mmlu"])


def test_all_claims_of_files_in_order_hold(reported):
    assert findings(reported, CLAIMS).told == (True, "All 2 claims hold.")
