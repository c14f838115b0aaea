"""The planted database as fixtures, built once."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from capeval_pipeline.storage.warehouse import open_published
from tests.reporting.published import publish


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of a published database with figures in every table."""
    return publish(tmp_path_factory.mktemp("planted") / "capeval.duckdb")


@pytest.fixture(scope="session")
def unmade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of a published database in which nothing was estimated."""
    return publish(tmp_path_factory.mktemp("unmade") / "capeval.duckdb", with_estimates=False)


@pytest.fixture
def connection(planted: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_published(planted) as opened:
        yield opened


@pytest.fixture
def empty_connection(unmade: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_published(unmade) as opened:
        yield opened
