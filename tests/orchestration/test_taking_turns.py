"""Ingests at the same time, and after one that was killed: they take turns, and leftovers go."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline import cli
from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets.ingest import _scratch_folder
from capeval_pipeline.orchestration.stages import Part
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.lake import Lake
from tests.file_locks import is_locked
from tests.formats.reading import write


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(load_settings(tmp_path / "ws"))


def test_the_second_ingest_says_that_it_waits_and_begins_when_the_first_has_ended(workspace):
    order: list[str] = []
    has_begun, waits = threading.Event(), threading.Event()

    def second() -> None:
        has_begun.wait()
        with workspace.staging_folder(lambda phrase: (order.append(phrase), waits.set())):
            order.append("second begins")

    thread = threading.Thread(target=second)
    thread.start()
    with workspace.staging_folder() as folder:
        write(folder / "unit0" / "files.parquet", "half")
        has_begun.set()
        assert waits.wait(10)
        assert (folder / "unit0").exists()
        order.append("first ends")
    thread.join(10)
    assert order == ["waiting for another ingest", "first ends", "second begins"]
    assert list(workspace.settings.temporary.iterdir()) == []


def test_dagster_s_databases_are_opened_by_one_process_at_a_time(workspace, monkeypatch):
    """Two that make them at once would spoil them, though seldom enough that no test of two shows it."""
    opened, seen = dg.DagsterInstance.from_config, []

    def looking(home: str) -> dg.DagsterInstance:
        seen.append(is_locked(workspace.settings.root / "locks" / "instance.lock"))
        return opened(home)

    monkeypatch.setattr(dg.DagsterInstance, "from_config", looking)
    monkeypatch.setenv("DAGSTER_HOME", "")
    with driver.workspace_instance(workspace):
        assert seen == [True]


def test_what_killed_ingests_left_goes_with_the_next(workspace):
    temporary = workspace.settings.temporary
    write(temporary / "ingest-1-1" / "unit0" / "files.parquet", "half")
    with workspace.staging_folder():
        assert not (temporary / "ingest-1-1").exists()
    left, other = (_scratch_folder(Part(name, workspace, {})) for name in ("arc", "arc.x"))
    again = _scratch_folder(Part("arc", workspace, {}))
    assert (left.exists(), other.exists(), again.exists()) == (False, True, True)


@pytest.mark.parametrize("words", [["typo.csv"], [__file__, "--format", "typo"]])
def test_wrong_use_makes_no_workspace(tmp_path, monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(tmp_path / "ws"), "ingest", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert not (tmp_path / "ws").exists()


@pytest.mark.slow
def test_two_first_ingests_at_once_of_the_same_bytes_both_keep_what_they_say(tmp_path):
    code = "import sys; from capeval_pipeline.cli import main; sys.argv[0] = 'capeval'; main()"
    running = []
    for model in ("elm", "oak"):
        path = write(tmp_path / "in" / f"{model}.csv", "item_id,score\nq1,1\nq2,0\n")
        words = ["--data", tmp_path / "ws", "ingest", path, "--benchmark", "arc", "--model", model]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, *map(str, words)]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment))
    for process in running:
        assert process.communicate(timeout=300)[1] == b""
        assert process.returncode == 0
    lake = Lake(load_settings(tmp_path / "ws").lake_root)
    assert sorted(lake.read("raw.generations").column("model_id").to_pylist()) == ["elm", "elm", "oak", "oak"]
    assert lake.read("raw.files").num_rows == 2
