"""A Dagster instance whose files lie under the test's own folder; by itself it would leave them to the collector."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "instance")) as found:
        yield found
