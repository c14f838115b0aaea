"""Fixtures every test may use. Nothing here imports dagster or duckdb: tests/methods runs without them."""

import os
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.kernel_cache import use_kernel_cache

PROJECT = Path(__file__).resolve().parents[1]
use_kernel_cache(PROJECT / ".pytest_cache" / "kernels")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260510)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real benchmarks and golden cases, read in place; its licences do not let us ship it."""
    folder = Path(os.environ.get("CAPEVAL_SHARED", PROJECT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder} (set CAPEVAL_SHARED)")
    return folder
