"""The whole workspace on a full disk: every command says so in one line, and goes through once there is space."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.lake import Lake
from tests.e2e.conftest import call_capeval, query_of
from tests.e2e.test_faults_at_work import write_scores
from tests.small_disk import fill, small_disk

FULL = re.compile(r"capeval: .*(the disk is full; free some space and do it again|no space left .* Make room)\n")
"""Whether files do not fit while they are read, or tables while they are written."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 48) as folder:
        yield folder


@pytest.mark.slow
def test_every_command_on_a_full_disk_says_so_in_one_line_and_nothing_is_lost(disk, tmp_path):
    data = disk / "workspace"
    call_capeval("ingest", str(write_scores(tmp_path / "first.csv", ["desk"])), data=data)
    call_capeval("run", "--only", "derive", data=data)
    lake = Lake(load_settings(data).lake_root)
    before = lake.read("raw.generations")
    models = "select count(distinct model_id) as n from raw.generations"
    second = write_scores(tmp_path / "second.csv", ["desk"], n_models=3, shift=1)
    ballast = fill(disk)
    for words in (("ingest", str(second)), ("run", "--only", "derive", "--rebuild", "staging.stg_generations")):
        done = call_capeval(*words, data=data, check=False)
        assert done.returncode == 1
        assert FULL.fullmatch(done.stderr), done.stderr
        assert lake.read("raw.generations").equals(before)
        assert query_of(models, data) == [{"n": 2}]
    ballast.unlink()
    call_capeval("ingest", str(second), data=data)
    call_capeval("run", "--only", "derive", data=data)
    assert query_of(models, data) == [{"n": 3}]
