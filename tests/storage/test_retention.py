"""Cleaning the lake: old files go, but never one that somebody can still ask for."""

from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.retention import clean_lake, files_named_by_views
from capeval_pipeline.storage.sql_models import SqlProject
from capeval_pipeline.storage.warehouse import Warehouse

KEY = "raw.toy"
SCHEMAS = {KEY: pa.schema([("benchmark_id", pa.string()), ("value", pa.float64())])}


class Published:
    """A lake under a folder with a quote in its name, and databases published from it, one old one kept."""

    def __init__(self, root: Path) -> None:
        self.lake = Lake(root / "it's a lake")
        self.folder = root / "warehouse"
        self.warehouse = Warehouse(root / "capeval.duckdb", self.folder, ComputeLimits(), n_old=1)

    def write(self, value: float) -> set[str]:
        self.lake.write(KEY, "arc", pa.table({"benchmark_id": ["arc"], "value": [value]}))
        return set(self.lake.paths(KEY))

    def publish(self) -> None:
        self.warehouse.publish(self.lake, SCHEMAS, SqlProject(models={}, assertions=()), {})

    def clean(self, retention_days: int = 0) -> int:
        return clean_lake(self.lake, [KEY, "raw.never_written"], self.folder, retention_days=retention_days)


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path)


def test_views_tell_which_files_they_read(published):
    written = published.write(1.0)
    published.publish()
    assert files_named_by_views(published.folder) == written


def test_a_file_stays_while_a_published_database_names_it(published):
    (first,) = published.write(1.0)
    published.publish()
    published.write(2.0)
    published.publish()
    assert published.clean() == 0
    assert Path(first).exists(), "the older database still reads it"
    published.write(3.0)
    published.publish()
    published.publish()
    assert published.clean() == 2, "both databases read the third"
    assert not Path(first).exists()


def test_what_the_retention_covers_stays(published):
    (first,) = published.write(1.0)
    published.write(2.0)
    assert published.clean(retention_days=7) == 0
    assert Path(first).exists()
    assert published.clean() == 1
