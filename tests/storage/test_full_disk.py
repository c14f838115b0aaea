"""A disk that is full: one sentence says so, what was there is whole, and the same goes through once there is space."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.errors import CapevalError, LakeError
from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.sql_models import SqlProject
from capeval_pipeline.storage.stored_rows import stored
from capeval_pipeline.storage.warehouse import Warehouse, open_published
from tests.small_disk import fill, small_disk

FULL = "the disk is full; free some space and do it again"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 4) as folder:
        yield folder


def values(rng, n_rows: int) -> pa.Table:
    return pa.table({"benchmark_id": ["arc"] * n_rows, "value": rng.random(n_rows)})


def test_a_part_that_does_not_fit_leaves_the_old_one(disk, rng, capfd):
    lake = Lake(disk / "lake")
    old = values(rng, 1000)
    lake.write("estimates.toy", "arc", old)
    with pytest.raises(LakeError) as refused:
        lake.write("estimates.toy", "arc", values(rng, 1_000_000))
    assert str(refused.value) == f"estimates.toy: writing benchmark 'arc' failed, nothing was changed: {FULL}"
    assert lake.read("estimates.toy", "arc").equals(old)
    ballast = fill(disk)
    for key in ("estimates.toy", "estimates.new"):
        with pytest.raises(LakeError, match=rf"{key}: writing benchmark 'arc' failed, nothing was changed: {FULL}"):
            lake.write(key, "arc", values(rng, 1000))
    assert capfd.readouterr().err == "", "the libraries below say nothing of their own"
    ballast.unlink()
    new = values(rng, 10)
    lake.write("estimates.toy", "arc", new)
    lake.write("estimates.new", "arc", new)
    assert lake.read("estimates.toy", "arc").equals(new)


def test_files_that_cannot_be_taken_over_leave_the_old_part(disk, rng, tmp_path):
    """As an ingest commits: its rows lie in files, here on another disk."""
    lake = Lake(disk / "lake")
    old = values(rng, 1000)
    lake.write("raw.toy", "arc", old)
    ballast = fill(disk)
    rows = stored(values(rng, 1_000), tmp_path / "rows.parquet")
    with pytest.raises(LakeError, match=f"nothing was changed: {FULL}"):
        lake.write_parts("raw.toy", {"arc": rows})
    assert lake.read("raw.toy", "arc").equals(old)
    ballast.unlink()
    lake.write_parts("raw.toy", {"arc": rows})
    assert lake.read("raw.toy", "arc").num_rows == 1000


def test_a_database_that_does_not_fit_leaves_the_published_one(disk, rng, tmp_path, capfd):
    lake = Lake(tmp_path / "lake")
    warehouse = Warehouse(disk / "capeval.duckdb", disk / "warehouse", ComputeLimits(), n_old=0)
    schema = {"estimates.toy": values(rng, 0).schema}
    no_models = SqlProject(models={}, assertions=())

    def publish(n_rows: int) -> None:
        lake.write("estimates.toy", "arc", values(rng, n_rows))
        warehouse.publish(lake, schema, no_models, {})

    def n_published() -> int:
        with open_published(disk / "capeval.duckdb") as connection:
            return connection.execute("select count(*) from estimates.toy").fetchall()[0][0]

    publish(1000)
    with pytest.raises(CapevalError) as refused:
        publish(1_000_000)
    assert str(refused.value) == f"building capeval.duckdb failed, the published one is untouched: {FULL}"
    assert n_published() == 1000
    assert list((disk / "warehouse").glob("*.building*")) == []
    ballast = fill(disk)
    with pytest.raises(CapevalError, match=FULL):
        publish(2000)
    assert n_published() == 1000
    ballast.unlink()
    publish(3000)
    assert n_published() == 3000
    assert capfd.readouterr().err == ""
