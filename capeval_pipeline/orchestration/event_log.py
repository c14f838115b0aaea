"""Dagster's event log in bulk: what it last heard of many tables in a few queries, and many events told quickly.

Writing: Dagster opens, commits and closes SQLite for each event, two to five times; thirty benchmarks tell of a
thousand. Each commit waits for the disk, and so does each close. Within `kept_open` connections stay open, and what is
committed survives the end of the process at once and a loss of power a moment later (SQLite's `synchronous = normal`).

Reading: Dagster asks two questions a table, and builds of each event all that it ever held. Thirty tables of three
hundred benchmarks are nine thousand events, of which freshness needs one entry each.
"""

import json
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster import deserialize_value

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

OPEN_DATABASES = 8
"""Each run has a database of its own, three files while it is open; a process may often hold 256 or 1,024 files."""

AT_ONCE = 1_000
"""Events or partitions that one query names; databases limit how many there may be."""


@contextmanager
def kept_open(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep the databases of the event log open; any other storage than SQLite's files is left as it is."""
    from dagster._core.storage.event_log import SqliteEventLogStorage

    kept = instance.event_log_storage
    if type(kept) is not SqliteEventLogStorage or "_connect" in vars(kept):  # the second: it is kept open already
        yield
        return
    storage: Any = kept
    engines: OrderedDict[str, Engine] = OrderedDict()
    connect_once = storage._connect

    @contextmanager
    def connect(shard: str) -> Iterator["Connection"]:
        if shard not in engines:
            with connect_once(shard):  # makes its tables
                pass
            engines[shard] = _engine(storage.conn_string_for_shard(shard))
        engines.move_to_end(shard)
        with storage._db_lock:
            while len(engines) > OPEN_DATABASES:
                engines.popitem(last=False)[1].dispose()
        with storage._db_lock, engines[shard].begin() as connection:
            yield connection

    storage._connect = connect
    storage.has_table = cache(storage.has_table)  # asked of every event, by a query of its own
    try:
        yield
    finally:
        del storage._connect, storage.has_table
        for engine in engines.values():
            engine.dispose()


def _engine(address: str) -> "Engine":
    from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
    from sqlalchemy import create_engine, event

    engine = create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
    event.listen(engine, "connect", lambda opened, _: opened.execute("pragma synchronous = normal"))
    return engine


@dataclass(frozen=True)
class Entry:
    """What the latest materialization of an output said under one label of its metadata; value None if nothing."""

    value: Any
    run_id: str
    timestamp: float


Entries = dict[tuple[dg.AssetKey, str | None], Entry]
"""(Asset, partition) → entry; partition None where the materialization named none."""


def latest_entries(
    instance: dg.DagsterInstance,
    keys: Sequence[dg.AssetKey],
    label: str,
    partitions: Collection[str] | None = None,
    known: dict[int, Entry] | None = None,
) -> Entries:
    """The JSON entry `label` of the latest materialization of each output; what was wiped in the UI does not count.

    partitions : only these, and outputs without any; None for all.
    known : storage id → entry, read before from the same instance; what is read now is added. An event never changes,
        so only those are read that came since.
    """
    from dagster._core.storage.event_log import SqlEventLogStorage

    if not keys:
        return {}
    if not isinstance(instance.event_log_storage, SqlEventLogStorage):
        return _entries_one_by_one(instance, keys, label, partitions)
    known = {} if known is None else known
    latest = _latest_ids(instance, keys, partitions)
    missing = sorted(set(latest.values()) - set(known))
    for start in range(0, len(missing), AT_ONCE):
        known |= _read_entries(instance, missing[start : start + AT_ONCE], label)
    return {output: known[storage_id] for output, storage_id in latest.items() if storage_id in known}


def _latest_ids(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey], partitions: Collection[str] | None
) -> dict[tuple[dg.AssetKey, str | None], int]:
    """Storage ids, all by one query."""
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
    from sqlalchemy import func, or_, select

    storage: Any = instance.event_log_storage
    told = SqlEventLogStorageTable.c
    by_text = {key.to_string(): key for key in keys}
    asked = (
        select(told.asset_key, told.partition, func.max(told.id))
        .where(told.asset_key.in_(sorted(by_text)))
        .where(told.dagster_event_type == dg.DagsterEventType.ASSET_MATERIALIZATION.value)
        .group_by(told.asset_key, told.partition)
    )
    if partitions is not None and len(partitions) <= AT_ONCE:
        asked = asked.where(or_(told.partition.in_(sorted(partitions)), told.partition.is_(None)))
    details = storage._get_assets_details(list(keys))
    asked = storage._add_assets_wipe_filter_to_query(asked, details, list(keys))
    with storage.index_connection() as connection:
        rows = connection.execute(asked).fetchall()
    wanted = None if partitions is None else {None, *partitions}
    return {(by_text[row[0]], row[1]): row[2] for row in rows if wanted is None or row[1] in wanted}


def _read_entries(instance: dg.DagsterInstance, storage_ids: Sequence[int], label: str) -> dict[int, Entry]:
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
    from sqlalchemy import select

    storage: Any = instance.event_log_storage
    told = SqlEventLogStorageTable.c
    with storage.index_connection() as connection:
        rows = connection.execute(select(told.id, told.event).where(told.id.in_(storage_ids))).fetchall()
    return {row[0]: _entry_in(row[1], label) for row in rows}


def _entry_in(text: str, label: str) -> Entry:
    """Of a stored event only what is asked for: building all that it holds takes ten times as long."""
    stored = json.loads(text)
    try:
        entries = stored["dagster_event"]["event_specific_data"]["materialization"]["metadata_entries"]
        found = [entry["entry_data"]["data"] for entry in entries if entry["label"] == label]
        return Entry(found[0] if found else None, stored["run_id"], stored["timestamp"])
    except (KeyError, TypeError):  # another release of Dagster stores it otherwise, but reads what older ones stored
        event: dg.EventLogEntry = deserialize_value(text, dg.EventLogEntry)
        return _entry_of(event.asset_materialization, label, event.run_id, event.timestamp)


def _entries_one_by_one(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey], label: str, partitions: Collection[str] | None
) -> Entries:
    """For a log that is not kept in SQL: two questions a table, through Dagster's interface."""
    found: Entries = {}
    for key in keys:
        latest = instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        ids = [at for name, at in latest.items() if partitions is None or name in partitions]
        asked = [dg.AssetRecordsFilter(key, storage_ids=ids[at : at + AT_ONCE]) for at in range(0, len(ids), AT_ONCE)]
        records = [record for part in asked for record in instance.fetch_materializations(part, limit=AT_ONCE).records]
        for record in records if latest else instance.fetch_materializations(key, limit=1).records:
            entry = _entry_of(record.asset_materialization, label, record.run_id, record.timestamp)
            found[key, record.partition_key] = entry
    return found


def _entry_of(made: dg.AssetMaterialization | None, label: str, run_id: str, timestamp: float) -> Entry:
    value = made.metadata.get(label) if made else None
    return Entry(value.value if isinstance(value, dg.JsonMetadataValue) else None, run_id, timestamp)
