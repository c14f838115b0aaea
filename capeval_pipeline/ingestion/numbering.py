"""Numbers of a file's items and what is known of its records, a few bytes each however long the file is."""

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from capeval_pipeline.storage.connections import scratch_connection
from capeval_pipeline.storage.stored_rows import STREAMED

FEW_KEYS = 300
"""Keys up to which asking DuckDB for hashes takes longer than making them here."""

HAS_VERDICT, HAS_METRIC, REJECTED, DUPLICATE = 1, 2, 4, 8


class Records:
    """What became of each record of a file: one byte of flags a record."""

    def __init__(self) -> None:
        self._flags = np.zeros(1024, np.uint8)
        self._n = 0

    def mark(self, records: np.ndarray, flag: int) -> None:
        """Set a flag of these records."""
        if not len(records):
            return
        needed = int(records.max()) + 1
        if needed > len(self._flags):
            self._flags = np.concatenate([self._flags, np.zeros(max(needed, 2 * len(self._flags)), np.uint8)])
        self._n = max(self._n, needed)
        self._flags[records] |= flag

    @property
    def flags(self) -> np.ndarray:
        """Flags of the records from 0, 0 for one that this part does not know."""
        return self._flags[: self._n]

    def having(self, flag: int) -> np.ndarray:
        """Numbers of the records that have a flag, in order."""
        return np.flatnonzero(self.flags & flag)

    def counts(self) -> tuple[int, int, int]:
        """Kept, rejected and repeated records; who is rejected is not counted as a repetition."""
        n_rejected = int(np.count_nonzero(self.flags & REJECTED))
        n_duplicate = int(np.count_nonzero((self.flags & (REJECTED | DUPLICATE)) == DUPLICATE))
        return int(np.count_nonzero(self.flags)) - n_rejected - n_duplicate, n_rejected, n_duplicate


@dataclass
class _Run:
    """Known keys in the order of their hashes."""

    high: np.ndarray
    low: np.ndarray
    numbers: np.ndarray


class ItemNumbers:
    """Numbers of items, (declared id, content), in the order they first come.

    Keys are kept as 128-bit hashes in sorted runs, 24 bytes an item: ids and texts may be long and millions.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._n_items = 0
        self._scratch: AbstractContextManager[duckdb.DuckDBPyConnection] | None = None

    def __len__(self) -> int:
        return self._n_items

    def close(self) -> None:
        """Free what hashing took."""
        if self._scratch is not None:
            self._scratch.__exit__(None, None, None)
            self._scratch = None

    def number(self, ids: pa.Array, contents: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of different keys, and a mask of those that are new."""
        high, low = self._hashes(ids, contents)
        numbers = np.full(len(high), -1, np.int64)
        order = np.argsort(high)
        for run in self._runs:
            places = np.searchsorted(run.high, high[order])
            # the same first half of two hashes is a matter of chance once in 10^5 files of 10 million items
            for step in range(2):
                at = np.minimum(places + step, len(run.high) - 1)
                same = (run.high[at] == high[order]) & (run.low[at] == low[order])
                numbers[order[same]] = run.numbers[at[same]]
        is_new = numbers < 0
        numbers[is_new] = np.arange(self._n_items, self._n_items + is_new.sum())
        self._n_items += int(is_new.sum())
        if is_new.any():
            self._remember(high[is_new], low[is_new], numbers[is_new])
        return numbers, is_new

    def _hashes(self, ids: pa.Array, contents: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """MD5 of keys as two 64-bit halves. A content is hexadecimal, so the last separator divides id and content."""
        if len(ids) <= FEW_KEYS:
            pairs = zip(ids.to_pylist(), contents.to_pylist(), strict=True)
            keys = [f"{id_ or ''}\x1f{content or ''}" for id_, content in pairs]
            digests = b"".join(hashlib.md5(key.encode(), usedforsecurity=False).digest() for key in keys)
            halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
            return halves[:, 1], halves[:, 0]
        if self._scratch is None:
            self._scratch = scratch_connection(STREAMED)
            self._connection = self._scratch.__enter__()
        self._connection.register("keys", pa.table({"id": ids, "content": contents}))
        found = self._connection.sql(
            """select (key >> 64)::ubigint as high, (key & 18446744073709551615::uhugeint)::ubigint as low from (
                select md5_number(coalesce(id, '') || chr(31) || coalesce(content, '')) as key from keys
            )"""
        ).fetchnumpy()
        self._connection.unregister("keys")
        return np.asarray(found["high"], np.uint64), np.asarray(found["low"], np.uint64)

    def _remember(self, high: np.ndarray, low: np.ndarray, numbers: np.ndarray) -> None:
        """Add a run; runs of like size are merged, so that there are few."""
        self._runs.append(_sorted_run(high, low, numbers))
        while len(self._runs) > 1 and 2 * len(self._runs[-1].high) >= len(self._runs[-2].high):
            second, first = self._runs.pop(), self._runs.pop()
            self._runs.append(
                _sorted_run(
                    np.concatenate([first.high, second.high]),
                    np.concatenate([first.low, second.low]),
                    np.concatenate([first.numbers, second.numbers]),
                )
            )


def _sorted_run(high: np.ndarray, low: np.ndarray, numbers: np.ndarray) -> _Run:
    order = np.argsort(high, kind="stable")
    return _Run(high[order], low[order], numbers[order])
