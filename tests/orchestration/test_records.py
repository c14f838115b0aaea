"""Records read in bulk are those that Dagster's interface gives, and reading them takes few queries."""

from dataclasses import replace
from types import SimpleNamespace

import dagster as dg
import pytest

from capeval_pipeline.orchestration import event_log
from capeval_pipeline.orchestration.driver import prepare_home
from capeval_pipeline.orchestration.event_log import Entry, latest_entries
from capeval_pipeline.orchestration.records import RECORD_KEY, VersionRecord, asset_key, latest_records
from tests.orchestration.counting import counted

RECORD = VersionRecord("v1", "code", {"raw.items": "r1"}, "settings", {"seed": 1}, {"seed": 1}, {"check": [True, "ok"]})


def tell(instance, table, partition, version, *, metadata=None):
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            asset_key(table),
            partition=partition,
            metadata=replace(RECORD, data_version=version).metadata() if metadata is None else metadata,
        )
    )


@pytest.fixture(params=["files", "memory"])
def log(request, tmp_path):
    """Instances whose logs lie in SQLite's files and in memory."""
    prepare_home(tmp_path / "home")
    opened = (
        dg.DagsterInstance.from_config(str(tmp_path / "home"))
        if request.param == "files"
        else dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "memory"))
    )
    with opened as instance:
        yield instance


def versions(instance, tables, partitions=None, known=None):
    return {key: made.data_version for key, made in latest_records(instance, tables, partitions, known).items()}


def test_the_latest_record_of_each_output_is_read(log):
    tell(log, "raw.items", "arc", "old")
    tell(log, "raw.items", "desk", "d1")
    tell(log, "raw.items", "arc", "new")
    tell(log, "marts.leaderboard", None, "m1")
    tell(log, "marts.leaderboard", None, "m2")
    tell(log, "raw.models", "arc", "x", metadata={"rows": 1})  # told by hand in the UI: nothing is known of it
    tables = ["raw.items", "raw.models", "marts.leaderboard", "raw.never_made"]
    everything = {("raw.items", "arc"): "new", ("raw.items", "desk"): "d1", ("marts.leaderboard", None): "m2"}
    assert versions(log, tables) == everything
    assert versions(log, tables, ["arc"]) == {key: v for key, v in everything.items() if key[1] != "desk"}
    assert versions(log, tables, []) == {("marts.leaderboard", None): "m2"}
    made = latest_records(log, ["raw.items"])["raw.items", "arc"]
    assert replace(made, run_id="", materialized_at=0.0) == replace(RECORD, data_version="new")
    assert made.materialized_at > 0


def test_reading_in_bulk_gives_what_the_interface_gives(log):
    for number in range(3):
        for partition in ("arc", "desk", "a name with 'quotes', and more"):
            tell(log, "raw.items", partition, f"{partition} {number}")
    tell(log, "marts.leaderboard", None, "m1")
    keys = [asset_key(table) for table in ("raw.items", "marts.leaderboard", "raw.never_made")]
    for partitions in (None, ["arc"], ["arc", "unknown"]):
        bulk = latest_entries(log, keys, RECORD_KEY, partitions)
        assert bulk == event_log._entries_one_by_one(log, keys, RECORD_KEY, partitions)
        assert bulk


def test_what_was_wiped_in_the_ui_counts_as_never_made(log):
    tell(log, "raw.items", "arc", "v1")
    tell(log, "raw.models", "arc", "v1")
    log.wipe_assets([asset_key("raw.items")])
    assert versions(log, ["raw.items", "raw.models"]) == {("raw.models", "arc"): "v1"}
    tell(log, "raw.items", "arc", "v2")
    assert versions(log, ["raw.items"]) == {("raw.items", "arc"): "v2"}


def test_an_event_that_is_stored_otherwise_is_read_through_dagster(log, monkeypatch):
    tell(log, "raw.items", "arc", "v1")
    monkeypatch.setattr(event_log, "json", SimpleNamespace(loads=lambda text: {"another": "shape"}))
    assert versions(log, ["raw.items"]) == {("raw.items", "arc"): "v1"}


def test_many_partitions_are_read_in_pieces(log, monkeypatch):
    monkeypatch.setattr(event_log, "AT_ONCE", 2)
    names = [f"b{number}" for number in range(7)]
    for name in names:
        tell(log, "raw.items", name, f"of {name}")
    expected = {("raw.items", name): f"of {name}" for name in names}
    assert versions(log, ["raw.items"]) == expected
    assert versions(log, ["raw.items"], names[:5]) == {("raw.items", name): f"of {name}" for name in names[:5]}


def test_queries_do_not_grow_with_tables_or_partitions(log, monkeypatch):
    tables = [f"raw.table_{number}" for number in range(12)]
    for table in tables:
        for partition in ("arc", "desk", "quiz"):
            tell(log, table, partition, "v1")
    with counted(monkeypatch) as few:
        assert len(latest_records(log, tables[:1], ["arc"])) == 1
    with counted(monkeypatch) as many:
        assert len(latest_records(log, tables)) == 36
    assert 0 < few["statements"] == many["statements"]


def test_a_second_look_reads_only_what_came_since(log, monkeypatch):
    asked = []
    read = event_log._read_entries
    monkeypatch.setattr(
        event_log, "_read_entries", lambda log, ids, label: asked.append(len(ids)) or read(log, ids, label)
    )
    tell(log, "raw.items", "arc", "v1")
    tell(log, "raw.items", "desk", "d1")
    known: dict[int, Entry] = {}
    assert versions(log, ["raw.items"], None, known) == {("raw.items", "arc"): "v1", ("raw.items", "desk"): "d1"}
    tell(log, "raw.items", "arc", "v2")
    assert versions(log, ["raw.items"], None, known) == {("raw.items", "arc"): "v2", ("raw.items", "desk"): "d1"}
    assert versions(log, ["raw.items"], None, known)["raw.items", "arc"] == "v2"
    assert asked == [2, 1]
