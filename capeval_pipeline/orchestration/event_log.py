"""Writing many events into Dagster's log on disk: one open connection a database instead of several an event.

Dagster opens, commits and closes SQLite for each event, two to five times; thirty benchmarks tell of a thousand. Each
commit waits for the disk, and so does each close. Within `kept_open` connections stay open, and what is committed
survives the end of the process at once and a loss of power a moment later (SQLite's `synchronous = normal`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from sqlalchemy import Connection, Engine, create_engine, event


@contextmanager
def kept_open(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep the databases of the event log open; any other storage than SQLite's files is left as it is."""
    if type(instance.event_log_storage) is not SqliteEventLogStorage:
        yield
        return
    storage: Any = instance.event_log_storage
    engines: dict[str, Engine] = {}
    connect_once = storage._connect

    @contextmanager
    def connect(shard: str) -> Iterator[Connection]:
        if shard not in engines:
            with connect_once(shard):  # makes its tables
                pass
            engines[shard] = _engine(storage.conn_string_for_shard(shard))
        with storage._db_lock, engines[shard].begin() as connection:
            yield connection

    storage._connect = connect
    try:
        yield
    finally:
        del storage._connect
        for engine in engines.values():
            engine.dispose()


def _engine(address: str) -> Engine:
    engine = create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
    event.listen(engine, "connect", lambda opened, _: opened.execute("pragma synchronous = normal"))
    return engine
