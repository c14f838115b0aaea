"""Looking back: the database as it stood at a time, as long as the versions of its tables are kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.errors import CapevalError, LakeError, UsageError
from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.publications import (
    Publication,
    as_of,
    forget_before,
    made_now,
    moment,
    note,
    publications,
)
from capeval_pipeline.storage.sql_models import SqlProject
from capeval_pipeline.storage.warehouse import Warehouse, open_as_of

NO_MODELS = SqlProject(models={}, assertions=())
SCHEMAS = {
    "raw.toy": pa.schema([("benchmark_id", pa.string()), ("value", pa.float64())]),
    "estimates.later": pa.schema([("benchmark_id", pa.string()), ("value", pa.float64())]),
}


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def publish(tmp_path, lake):
    """Write a value to a table, publish, and give the time just after."""
    warehouse = Warehouse(tmp_path / "capeval.duckdb", tmp_path / "warehouse", ComputeLimits(), n_old=0)

    def call(value: float, key: str = "raw.toy") -> datetime:
        lake.write(key, "arc", pa.table({"benchmark_id": ["arc"], "value": [value]}))
        warehouse.publish(lake, SCHEMAS, NO_MODELS, {})
        return datetime.now(UTC)

    return call


def write_down(folder: Path, version: int) -> Publication:
    made = made_now(folder, {"raw.toy": version}, {})
    note(folder, made)
    return made


def value_at(tmp_path, lake, when: datetime, key: str = "raw.toy") -> list[float]:
    publication = as_of(tmp_path / "warehouse", when)
    with open_as_of(lake, publication, SCHEMAS, NO_MODELS, ComputeLimits()) as connection:
        return [value for (value,) in connection.execute(f"select value from {key}").fetchall()]


def test_each_publication_can_be_looked_back_to(tmp_path, lake, publish):
    first, second = publish(1.0), publish(2.0)
    lake.write("raw.toy", "arc", pa.table({"benchmark_id": ["arc"], "value": [3.0]}))  # written, never published
    assert value_at(tmp_path, lake, first) == [1.0]
    assert value_at(tmp_path, lake, second) == [2.0]
    assert value_at(tmp_path, lake, datetime.now(UTC)) == [2.0]


def test_at_its_own_instant_a_publication_counts_and_just_before_it_does_not(tmp_path):
    first, second = (write_down(tmp_path, version) for version in range(2))
    assert as_of(tmp_path, second.published_at) == second
    assert as_of(tmp_path, second.published_at - timedelta(microseconds=1)) == first
    with pytest.raises(CapevalError, match="nothing was published by"):
        as_of(tmp_path, first.published_at - timedelta(microseconds=1))


def test_a_clock_put_back_does_not_make_a_publication_look_older(tmp_path, monkeypatch):
    first = write_down(tmp_path, 1)

    class PutBack(datetime):
        @classmethod
        def now(cls, tz=None):
            return first.published_at - timedelta(days=1)

    monkeypatch.setattr("capeval_pipeline.storage.publications.datetime", PutBack)
    second, third = write_down(tmp_path, 2), write_down(tmp_path, 3)
    assert first.published_at < second.published_at < third.published_at
    assert as_of(tmp_path, first.published_at + timedelta(days=1)).delta_versions == {"raw.toy": 3}


def test_a_table_that_did_not_exist_then_is_empty(tmp_path, lake, publish):
    first = publish(1.0)
    publish(5.0, "estimates.later")
    assert value_at(tmp_path, lake, first, "estimates.later") == []
    assert value_at(tmp_path, lake, datetime.now(UTC), "estimates.later") == [5.0]


def test_before_the_first_publication_there_is_nothing(tmp_path, publish):
    with pytest.raises(CapevalError, match="nothing is published yet"):
        as_of(tmp_path / "warehouse", datetime.now(UTC))
    publish(1.0)
    with pytest.raises(CapevalError, match="the first was"):
        as_of(tmp_path / "warehouse", datetime.now(UTC) - timedelta(days=1))


def test_a_version_that_was_cleaned_away_is_refused_with_the_setting_that_keeps_it(tmp_path, lake, publish):
    first = publish(1.0)
    publish(2.0)
    (gone,) = lake.pinned(as_of(tmp_path / "warehouse", first).delta_versions).paths("raw.toy")
    Path(gone).unlink()
    with pytest.raises(LakeError, match=r"looked back to any more.*log_retention_days"):
        value_at(tmp_path, lake, first)
    assert value_at(tmp_path, lake, datetime.now(UTC)) == [2.0]


def test_a_version_whose_log_is_gone_is_refused_too(tmp_path, lake, publish):
    first = publish(1.0)
    for value in range(25):  # past the log's checkpoint, before which entries may go
        publish(float(value))
    for entry in sorted((tmp_path / "lake/raw/toy/_delta_log").glob("0*.json"))[:10]:
        entry.unlink()
    with pytest.raises(LakeError, match=r"looked back to any more.*log_retention_days"):
        value_at(tmp_path, lake, first)


def test_what_stood_at_the_limit_of_the_retention_is_still_known(tmp_path):
    made = [write_down(tmp_path, version) for version in range(3)]
    forget_before(tmp_path, made[2].published_at)
    assert [publication.delta_versions["raw.toy"] for publication in publications(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-01-31", datetime(2026, 1, 31, 23, 59, 59, 999999, UTC)),
        ("2026-01-31T18:00", datetime(2026, 1, 31, 18, tzinfo=UTC)),
        ("2026-01-31T18:00+02:00", datetime(2026, 1, 31, 16, tzinfo=UTC)),
    ],
)
def test_a_date_means_its_end_and_a_time_without_a_zone_is_utc(text, found):
    assert moment(text) == found


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "", "31.01.2026"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match=r"expected e\.g\."):
        moment(text)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"published_at": 3, "delta_versions": {}}'])
def test_a_damaged_note_is_named(tmp_path, content):
    (tmp_path / "20260101T000000.000000Z.published.json").write_text(content)
    with pytest.raises(CapevalError, match=r"20260101T000000.*damaged"):
        publications(tmp_path)
