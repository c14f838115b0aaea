"""Parts that another release wrote: read where nothing can be misread, else refused with the command that repairs."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.errors import LakeError
from capeval_pipeline.storage.connections import memory_connection
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.older_parts import as_declared, check_files, complete
from capeval_pipeline.storage.tables.contract import integer, partitioned, real, text

TABLE = partitioned(
    "raw",
    "toys",
    ["item_id"],
    [text("item_id", "item", nullable=False), real("price", "dollars"), integer("n", "n")],
    "",
)
"""As this release declares it: benchmark_id, item_id, price, n."""

NOW = pa.table({"benchmark_id": ["new"], "item_id": ["q1"], "price": [0.5], "n": pa.array([3], pa.int64())})
WITHOUT_N = NOW.drop_columns(["n"])
MORE = NOW.append_column("colour", pa.array(["red"]))
OTHER_TYPE = NOW.set_column(2, "price", pa.array(["0.5"]))
WITHOUT_ITEM = NOW.drop_columns(["item_id"])
REPAIR = r"So delete /lake/raw/toys, and `capeval run --rebuild raw\.toys` makes it again"


def test_a_column_that_did_not_exist_is_unknown():
    assert as_declared(TABLE, WITHOUT_N, "").to_pylist() == [
        {"benchmark_id": "new", "item_id": "q1", "price": 0.5, "n": None}
    ]


def test_a_column_that_is_no_more_is_passed_over():
    assert as_declared(TABLE, MORE, "").equals(NOW)


@pytest.mark.parametrize(
    ("rows", "found"), [(OTHER_TYPE, "'price' is string; expected double"), (WITHOUT_ITEM, "'item_id' is missing")]
)
def test_what_cannot_be_read_any_more_is_refused_with_what_to_do(rows, found, tmp_path):
    with pytest.raises(LakeError, match=rf"raw\.toys: another release wrote it, column {found}.*{REPAIR}"):
        as_declared(TABLE, rows, "/lake/raw/toys")
    pq.write_table(rows, tmp_path / "part.parquet")
    with pytest.raises(LakeError, match=found):
        check_files(TABLE, [str(tmp_path / "part.parquet")], "/lake/raw/toys")


@pytest.mark.parametrize("kind", ["table", "view"])
def test_published_relations_get_the_columns_they_lack(kind, tmp_path):
    pq.write_table(WITHOUT_N, tmp_path / "part.parquet")
    with memory_connection() as connection:
        connection.execute("create schema raw")
        connection.execute(f"create {kind} raw.toys as select * from read_parquet('{tmp_path}/part.parquet')")
        complete(connection, [TABLE], lambda key: "/lake/raw/toys")
        assert connection.sql("from raw.toys").to_arrow_table().to_pylist() == [
            {"benchmark_id": "new", "item_id": "q1", "price": 0.5, "n": None}
        ]


def test_parts_of_two_types_are_not_published_as_one_that_holds_both(tmp_path):
    """DuckDB would make text of numbers and texts, and every price a text."""
    pq.write_table(NOW, tmp_path / "new.parquet")
    pq.write_table(OTHER_TYPE, tmp_path / "old.parquet")
    with memory_connection() as connection:
        connection.execute("create schema raw")
        connection.execute(
            f"create view raw.toys as select * from read_parquet('{tmp_path}/*.parquet', union_by_name = true)"
        )
        with pytest.raises(LakeError, match=f"'price' is VARCHAR; expected DOUBLE. {REPAIR}"):
            complete(connection, [TABLE], lambda key: "/lake/raw/toys")


def test_a_part_of_another_type_is_not_written_beside_the_old_ones(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.write("raw.toys", "old", OTHER_TYPE)
    with pytest.raises(LakeError, match=r"column 'price' as string, this one writes double. So delete .*raw/toys, and"):
        lake.write("raw.toys", "new", NOW)
    assert lake.read("raw.toys").equals(OTHER_TYPE)
