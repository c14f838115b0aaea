"""Frames that do not fit their contract never reach the lake."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from capeval_pipeline.errors import TableContractError
from capeval_pipeline.storage.conformity import conform, conform_stored, empty
from capeval_pipeline.storage.stored_rows import stored
from capeval_pipeline.storage.tables.contract import INTEGER, REAL, STRING, STRINGS, Column, Table

TABLE = Table(
    "estimates",
    "toy",
    ("benchmark_id", "model_id"),
    (
        Column("benchmark_id", STRING, "benchmark", nullable=False),
        Column("model_id", STRING, "model", nullable=False),
        Column("strength", REAL, "strength", "logit"),
        Column("names", STRINGS, "spellings"),
    ),
    "A table for these tests.",
)


def frame(**changes) -> pd.DataFrame:
    columns = {"model_id": ["b", "a"], "strength": [1.0, np.nan], "names": [["x"], []]} | changes
    return pd.DataFrame({name: values for name, values in columns.items() if values is not None})


def test_rows_are_sorted_by_grain_and_the_benchmark_is_filled_in():
    table = conform(TABLE, frame(), "arc")
    assert table.to_pydict() == {
        "benchmark_id": ["arc", "arc"],
        "model_id": ["a", "b"],
        "strength": [None, 1.0],
        "names": [[], ["x"]],
    }


def test_nan_becomes_null():
    assert conform(TABLE, frame(), "arc").column("strength").null_count == 1


def test_nan_of_an_arrow_table_becomes_null_too():
    columns = {"model_id": ["a", "b"], "strength": [float("nan"), 1.0], "names": [[], []]}
    assert conform(TABLE, pa.table(columns), "arc").column("strength").to_pylist() == [None, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strength": None}, "column 'strength' is missing"),
        ({"mean": [1, 2]}, "column 'mean' is not in the contract"),
        ({"strength": ["high", "low"]}, "column 'strength' holds .*; expected double"),
        ({"model_id": ["a", "a"]}, r"2 rows for benchmark_id='arc', model_id='a'; expected 1"),
        ({"model_id": ["a", None]}, "no model_id in 1 row"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_with_the_place(changes, message):
    with pytest.raises(TableContractError, match=message):
        conform(TABLE, frame(**changes), "arc")


def test_integers_are_not_silently_rounded():
    table = Table("estimates", "counts", ("n",), (Column("n", INTEGER, "count"),), "Counts.", is_partitioned=False)
    with pytest.raises(TableContractError, match="column 'n'"):
        conform(table, pd.DataFrame({"n": [1.5]}), None)


def test_an_empty_table_has_all_columns():
    assert empty(TABLE).column_names == ["benchmark_id", "model_id", "strength", "names"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, ""),
        ({"model_id": ["a", "a"]}, "several rows for benchmark_id='arc', model_id='a'; expected 1"),
        ({"model_id": ["a", None]}, "no model_id in 1 row"),
    ],
)
def test_rows_in_files_go_through_the_same_gate(tmp_path, changes, complaint):
    columns = {"benchmark_id": ["arc"] * 2, "model_id": ["a", "b"], "strength": [1.0, None], "names": [[], ["x"]]}
    types = pa.schema([pa.field(column.name, column.type) for column in TABLE.columns])
    rows = stored(pa.table(columns | changes, types), tmp_path / "rows.parquet")
    if complaint:
        with pytest.raises(TableContractError, match=complaint):
            conform_stored(TABLE, rows)
    else:
        assert conform_stored(TABLE, rows) is rows


def test_rows_in_files_of_other_columns_are_refused(tmp_path):
    rows = stored(pa.table({"benchmark_id": ["arc"]}), tmp_path / "rows.parquet")
    with pytest.raises(TableContractError, match=r"expected .*model_id"):
        conform_stored(TABLE, rows)
