"""How often the event log is asked and a Delta table opened: costs that can be told whatever else the machine does."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from capeval_pipeline.storage import lake as lake_module


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts, while within it, SQL statements of every database of Dagster's, and opened Delta tables."""
    counts: Counter[str] = Counter()

    def count_statement(*_: object) -> None:
        counts["statements"] += 1

    class CountedTable(lake_module.DeltaTable):
        def __init__(self, *arguments: object, **options: object) -> None:
            counts["tables opened"] += 1
            super().__init__(*arguments, **options)

    event.listen(Engine, "before_cursor_execute", count_statement)
    with monkeypatch.context() as patched:
        patched.setattr(lake_module, "DeltaTable", CountedTable)
        try:
            yield counts
        finally:
            event.remove(Engine, "before_cursor_execute", count_statement)
