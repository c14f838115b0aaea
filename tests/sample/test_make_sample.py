"""The sample is what its program makes, byte for byte, and small enough to ship."""

import importlib.util
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"


@pytest.fixture
def make_sample():
    spec = importlib.util.spec_from_file_location("make_sample", SAMPLE / "make_sample.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.make_sample
    sys.modules.pop("make_sample", None)


def test_making_the_sample_again_gives_the_same_bytes(make_sample, tmp_path):
    make_sample(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path, content in made.items():
        assert (SAMPLE / path).read_bytes() == content, path
    shipped = {path.relative_to(SAMPLE) for path in SAMPLE.glob("*/**/*") if path.is_file()}
    assert {path for path in shipped if "__pycache__" not in path.parts} == set(made)


def test_the_sample_is_smaller_than_three_megabytes():
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 3_000_000
