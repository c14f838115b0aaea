"""Rows in files: what is too big to be held behaves like the table it is."""

import numpy as np
import pyarrow as pa
import pytest

from capeval_pipeline.errors import LakeError
from capeval_pipeline.storage import stored_rows
from capeval_pipeline.storage.connections import memory_connection
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.stored_rows import StoredRows, copied, count_different, find_repeated, stored

SCHEMA = pa.schema(
    [
        ("benchmark_id", pa.string()),
        ("item_id", pa.string()),
        ("score", pa.float64()),
        ("n", pa.int64()),
        ("names", pa.list_(pa.string())),
    ]
)


def rows(*items: str, benchmark: str = "arc") -> pa.Table:
    n = len(items)
    columns = [[benchmark] * n, items, [None if item == "q1" else 0.5 for item in items], [3] * n, [["x"]] * n]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


def test_rows_in_files_have_the_version_of_the_same_table(tmp_path):
    table = rows("q0", "q1", "q2")
    assert content_version(stored(table, tmp_path / "a.parquet")) == content_version(table)
    assert content_version(StoredRows(SCHEMA)) == content_version(SCHEMA.empty_table())


def test_files_together_have_the_version_of_all_their_rows(tmp_path):
    first, second = stored(rows("q0"), tmp_path / "a.parquet"), stored(rows("q1", "q2"), tmp_path / "b.parquet")
    both = StoredRows(SCHEMA, second.paths + first.paths)
    assert content_version(both) == content_version(rows("q0", "q1", "q2"))
    assert both.num_rows == 3


def test_a_column_that_no_file_has_is_unknown(tmp_path):
    narrow = stored(rows("q0", "q1").drop_columns(["score"]), tmp_path / "a.parquet")
    assert StoredRows(SCHEMA, narrow.paths).table().to_pydict()["score"] == [None, None]


def test_a_query_is_kept_in_its_order_and_nothing_is_no_file(tmp_path):
    with memory_connection() as connection:
        sql = (
            "select 'arc' as benchmark_id, 'q' || i as item_id, 1.0 as score, i as n, ['x'] as names from range(3) t(i)"
        )
        kept = copied(connection, f"{sql} order by i desc", SCHEMA, tmp_path / "a.parquet")
        nothing = copied(connection, f"{sql} where i > 9", SCHEMA, tmp_path / "b.parquet")
    assert kept.table().to_pydict()["n"] == [2, 1, 0]
    assert kept.table().schema == SCHEMA
    assert nothing.paths == ()
    assert not (tmp_path / "b.parquet").exists()


def test_the_lake_takes_files_over_and_keeps_those_it_has(lake, tmp_path):
    lake.write("raw.items", "arc", stored(rows("q0"), tmp_path / "a.parquet"))
    old = lake.stored("raw.items", SCHEMA, "arc")
    grown = StoredRows(SCHEMA, old.paths + stored(rows("q1", "q2"), tmp_path / "b.parquet").paths)
    written = lake.write("raw.items", "arc", grown)
    assert written.n_rows == 3
    assert old.paths[0] in lake.paths("raw.items", "arc")
    assert lake.read("raw.items", "arc").to_pydict()["item_id"] == ["q0", "q1", "q2"]
    assert written.data_version == content_version(lake.read("raw.items", "arc"))
    assert not list(tmp_path.glob("*.parquet"))


def test_parts_of_many_benchmarks_are_one_commit(lake, tmp_path):
    lake.write("raw.items", "arc", rows("q0"))
    before = lake.delta_version("raw.items")
    written = lake.write_parts(
        "raw.items",
        {"arc": rows("q5"), "b": stored(rows("q1", benchmark="b"), tmp_path / "b.parquet"), "c": StoredRows(SCHEMA)},
    )
    assert lake.delta_version("raw.items") == before + 1
    assert {name: part.n_rows for name, part in written.items()} == {"arc": 1, "b": 1, "c": 0}
    assert lake.read("raw.items", "arc").to_pydict()["item_id"] == ["q5"]
    assert lake.read("raw.items", "b").to_pydict()["item_id"] == ["q1"]
    assert lake.read("raw.items", "c").num_rows == 0


def test_a_new_column_comes_with_rows_in_files_too(lake, tmp_path):
    lake.write("raw.items", "arc", rows("q0").drop_columns(["names"]))
    lake.write("raw.items", "b", stored(rows("q1", benchmark="b"), tmp_path / "b.parquet"))
    assert lake.read("raw.items", "arc").to_pydict()["names"] == [None]
    assert lake.read("raw.items", "b").to_pydict()["names"] == [["x"]]


def test_a_part_that_another_writer_replaced_meanwhile_is_replaced_again(lake, tmp_path):
    lake.write("raw.items", "arc", rows("q0"))
    opened = lake._open("raw.items")
    lake.write("raw.items", "arc", rows("q1"))
    lake._open = lambda key, first=[opened]: first.pop() if first else Lake._open(lake, key)
    lake.write_parts("raw.items", {"arc": rows("q2")})
    assert Lake(lake.root).read("raw.items", "arc").to_pydict()["item_id"] == ["q2"]


def test_a_file_that_is_gone_changes_nothing(lake, tmp_path):
    lake.write("raw.items", "arc", rows("q0"))
    made = stored(rows("q1"), tmp_path / "a.parquet")
    with pytest.raises(LakeError, match="nothing was changed"):
        lake._take_over("raw.items", "arc", StoredRows(SCHEMA, (*made.paths, str(tmp_path / "gone.parquet"))))
    assert lake.read("raw.items", "arc").to_pydict()["item_id"] == ["q0"]


@pytest.mark.parametrize("at_once", [10, 1_000, stored_rows.HASHES_AT_ONCE])
def test_repeated_keys_are_those_of_a_plain_count(at_once, rng, monkeypatch):
    monkeypatch.setattr(stored_rows, "HASHES_AT_ONCE", at_once)
    first, second = rng.integers(0, 60, 2_000), rng.integers(0, 60, 2_000)
    table = pa.table({"a": pa.array(first), "b": pa.array(np.where(second == 0, None, second), pa.int64())})
    with memory_connection() as connection:
        connection.register("given", table)
        n_repeated = find_repeated(connection, "given", ["a", "b"], "found")
        found = set(connection.execute("from found").fetchall())
        plain = set(connection.execute("select a, b from given group by all having count(*) > 1").fetchall())
        n_different = count_different(connection, "given", ["a", "b"])
    assert found == plain
    assert n_repeated == len(plain) > 100
    assert n_different == len(set(zip(*(table.column(name).to_pylist() for name in "ab"), strict=True)))
