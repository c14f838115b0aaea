"""`capeval status`: what is known before and after publishing, and what a dash stands for."""

from types import SimpleNamespace
from typing import Any

import duckdb

from capeval_pipeline.cli.status import _sizes
from tests.reporting.published import BARE, QUIZ, publish


def test_sizes_are_those_of_the_report_and_coverage_is_unknown_where_nothing_is_scored(tmp_path):
    database = publish(tmp_path / "capeval.duckdb")
    with duckdb.connect(str(database)) as connection:
        connection.execute("delete from raw.generations where benchmark_id = ?", [BARE])
    call: Any = SimpleNamespace(settings=SimpleNamespace(database=database))
    sizes = _sizes(call)
    assert sizes[QUIZ]["n_models"] == 7
    assert sizes[BARE] == {"n_models": 2, "n_items": 1, "coverage": None}
