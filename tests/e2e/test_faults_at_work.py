"""Faults met while the pipeline works, each made to happen: second processes, lost files, odd names, other zones.

Dagster does nothing here but keep records, so a notebook stands in its place (notebook.py); locks, lake and database
are the real ones, and so are the other processes.
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from capeval_pipeline.errors import LakeError
from capeval_pipeline.orchestration import intake, whole_changes
from capeval_pipeline.orchestration import workspace as orchestration_workspace
from capeval_pipeline.orchestration.assets import build_graph, marts
from capeval_pipeline.orchestration.assets.ingest import _inbox_change
from capeval_pipeline.orchestration.graph import Request, StaleStep
from capeval_pipeline.orchestration.stages import Part
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.benchmark_key import benchmark_key
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.warehouse import Warehouse
from tests.e2e.conftest import query_of
from tests.e2e.notebook import Notebook, call, contents, die, run_steps, stand_in_for_dagster
from tests.file_locks import is_locked

NAMES = ["two words", "a/b", "../x", ".", "..", "数学 ü", "x" * 200, "A b", "a B", "100%", "it's", "-b"]
AMID_INGEST = "capeval_pipeline.storage.lake:Lake.write_parts=raw.generations"


def write_scores(path: Path, benchmarks: list[str], *, n_models: int = 2, n_items: int = 4, shift: int = 0) -> Path:
    """One CSV whose rows name their benchmarks; scores are 0 and 1 in a pattern that `shift` moves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["benchmark,item_id,model,score"]
    for benchmark in benchmarks:
        lines += [
            f'"{benchmark}",q{item},m{model},{(item * (model + 1) + shift) % 3 % 2}'
            for item in range(n_items)
            for model in range(n_models)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stand_in_for_dagster(monkeypatch.setattr)
    return tmp_path / "workspace"


@pytest.fixture(scope="module")
def processes() -> Any:
    """Other processes: forks of one that has the program loaded and nothing else."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.e2e.notebook"])
    return found


def elsewhere(zone: str, data: Path, *commands: tuple[Any, ...]) -> None:
    """In a process of its own: commands, one after the other, in a time zone."""
    os.environ["TZ"] = zone
    time.tzset()
    stand_in_for_dagster(setattr)
    for command in commands:
        call(data, *command)


@pytest.mark.slow
def test_two_ingests_and_two_runs_at_once_all_finish_and_nothing_is_lost(data, tmp_path, processes):
    """Of the same benchmark and of different ones; what they leave is what one after the other leaves."""
    first = write_scores(tmp_path / "first.csv", ["desk", "shop"])
    second = write_scores(tmp_path / "second.csv", ["desk", "mall"], n_models=3, n_items=6)
    call(data, "ingest", first)
    at_once = [
        processes.Process(target=elsewhere, args=("UTC", data, *commands))
        for commands in (
            [("ingest", second), ("derive",)],
            [("derive",), ("ingest", write_scores(tmp_path / "third.csv", ["shop"], n_models=4))],
            [("derive",)],
        )
    ]
    for process in at_once:
        process.start()
    for process in at_once:
        process.join(200)
        assert process.exitcode == 0
    call(data, "derive")
    one_by_one = tmp_path / "one_by_one"
    for path in (first, second, tmp_path / "third.csv"):
        call(one_by_one, "ingest", path)
    call(one_by_one, "derive")
    assert contents(data) == contents(one_by_one)
    rows = "select benchmark_id, count(distinct model_id) as n from raw.generations group by all order by all"
    assert [tuple(row.values()) for row in query_of(rows, data)] == [("desk", 3), ("mall", 3), ("shop", 4)]


def kill(processes: Any, place: str, data: Path, *command: Any) -> None:
    """The command in a process of its own, killed at the place."""
    process = processes.Process(target=die, args=(place, data, *command))
    process.start()
    process.join(200)
    assert process.exitcode == -signal.SIGKILL


def test_whatever_is_written_or_put_back_is_under_its_lock(data, tmp_path, processes, monkeypatch):
    """Two at once seldom meet amid a write, so each write looks whether it is alone."""
    locks, seen = data / "locks", {}
    desk = locks / f"{benchmark_key('desk')}.lock"

    def looks(owner: Any, name: str, lock: Path) -> None:
        original = getattr(owner, name)

        def looking(*args: Any, **kwargs: Any) -> Any:
            seen.setdefault(f"{owner.__name__} {name}", set()).add(is_locked(lock))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, looking)

    for owner, name, lock in (
        (Lake, "write", desk),
        (Lake, "write_parts", desk),
        (whole_changes, "put_back", desk),
        (orchestration_workspace, "put_back", desk),
        (intake, "read_batch", locks / "ingest.lock"),
        (intake, "commit", locks / "ingest.lock"),
        (marts, "read_at_rest", locks / "publish.lock"),
        (Warehouse, "publish", locks / "publish.lock"),
    ):
        looks(owner, name, lock)
    path = write_scores(tmp_path / "desk.csv", ["desk"])
    call(data, "ingest", path)
    call(data, "derive")
    for command in (("derive",), ("ingest", path)):
        write_scores(path, ["desk"], n_models=3, shift=len(command))
        kill(processes, AMID_INGEST, data, "ingest", path)
        call(data, *command)
    assert len(seen) == 8
    assert {name for name, is_held in seen.items() if is_held != {True}} == set()


def test_a_run_from_the_page_undoes_what_was_cut_short_before_it(data, tmp_path, processes):
    """There nothing looks after all benchmarks first, as `capeval run` does."""
    path = write_scores(tmp_path / "desk.csv", ["desk"])
    call(data, "ingest", path)
    call(data, "derive")
    before = contents(data)
    write_scores(path, ["desk"], shift=1)
    kill(processes, AMID_INGEST, data, "ingest", path)
    workspace, notebook = Workspace(load_settings(data)), Notebook(data / "notebook")
    steps = [StaleStep(step, "asked for") for step in build_graph().steps if step.stage == "derive"]
    run_steps(workspace, notebook, "desk", steps, Request())
    assert contents(data) == before


def test_a_file_whose_ingest_was_killed_before_it_was_told_of_is_read_again(data, tmp_path, processes):
    """Its tables are all written, the ledger too; that is undone, so the ledger must not be taken at its word."""
    path = write_scores(tmp_path / "desk.csv", ["desk"])
    kill(processes, "capeval_pipeline.storage.lake:Lake.write_parts=raw.files", data, "ingest", path)
    call(data, "ingest", path)
    call(data, "derive")
    assert query_of("select count(*) as n from raw.generations", data) == [{"n": 8}]


def test_an_ingest_undoes_a_step_killed_after_it_was_told_of(data, tmp_path, processes):
    """Its table is put back, so what was told of it holds no more, though nothing it is made of changes again."""
    path = write_scores(tmp_path / "desk.csv", ["desk"])
    call(data, "ingest", path)
    call(data, "derive")
    call(data, "ingest", write_scores(path, ["desk"], shift=1))
    kill(processes, "tests.e2e.notebook:Notebook._add=records", data, "derive")
    more = tmp_path / "desk"
    more.mkdir()
    (more / "refused.csv").write_text("something else\n")  # in the ledger of desk, and no other row of it changes
    call(data, "ingest", more)
    files = Workspace(load_settings(data)).lake.read("raw.files", "desk")
    assert "refused" in files.column("status").to_pylist()
    call(data, "derive")
    clean = tmp_path / "clean"
    call(clean, "ingest", path, more)
    call(clean, "derive")
    assert contents(data) == contents(clean)


@pytest.mark.slow
def test_five_thousand_models_in_one_benchmark_are_derived_and_published(data, tmp_path):
    """Measured: 1.7 CPU seconds to read, 2.3 to derive and publish, 0.4 GB; the capabilities stage takes 21 and 1.9."""
    call(data, "ingest", write_scores(tmp_path / "wide.csv", ["wide"], n_models=5000, n_items=8))
    call(data, "derive")
    assert query_of("select count(*) as n from marts.coverage", data) == [{"n": 5000}]


@pytest.mark.slow
def test_names_and_zones_change_nothing(data, tmp_path, processes):
    """Whatever a benchmark is called, its tables are its own, and nothing lies outside the workspace."""
    path = write_scores(tmp_path / "in" / "odd.csv", NAMES)
    before = set(tmp_path.rglob("*"))
    far = processes.Process(target=elsewhere, args=("Asia/Kathmandu", tmp_path / "far", ("ingest", path), ("derive",)))
    far.start()
    call(data, "ingest", path)
    call(data, "derive")
    far.join(200)
    assert far.exitcode == 0
    rows = query_of("select benchmark_id, count(*) as n from intermediate.item_scores group by all", data)
    assert {row["benchmark_id"]: row["n"] for row in rows} == dict.fromkeys(NAMES, 8)
    made = set(tmp_path.rglob("*")) - before
    assert {entry.relative_to(tmp_path).parts[0] for entry in made} == {"workspace", "far"}
    assert contents(data) == contents(tmp_path / "far")
    when = "select count(*) as n from raw.files where ingested_at > now() or ingested_at < now() - interval 1 hour"
    assert query_of(when, tmp_path / "far") == [{"n": 0}]


@pytest.mark.parametrize("name", ["..", ".", "../x", "a/b"])
def test_a_benchmark_s_own_folder_of_the_inbox_is_inside_the_inbox(data, name):
    workspace = Workspace(load_settings(data))
    write_scores(workspace.settings.inbox / name / "scores.csv", [name])
    part = Part(name, workspace, {"name": name})
    change = _inbox_change(part, part.stored("readings.files").table(), data / "staged")
    assert change.folders == []


@pytest.mark.slow
def test_files_deleted_or_cut_by_hand_are_named_with_the_command_that_repairs_them(data, tmp_path):
    """Raw tables come back from what was read, derived ones from raw ones, what was read from the files themselves."""
    path = write_scores(tmp_path / "desk.csv", ["desk"])
    call(data, "ingest", path)
    call(data, "derive")
    whole = contents(data)
    lake = Lake(load_settings(data).lake_root)
    for key, harm, reader in (
        ("raw.generations", Path.unlink, "staging.stg_generations"),
        ("intermediate.item_scores", cut, "intermediate.comparisons"),
    ):
        for name in lake.paths(key):
            harm(Path(name))
        named = f"{key}: .*cannot be read.* `capeval run --rebuild {key}` makes it again"
        with pytest.raises(LakeError, match=named):
            call(data, "derive", rebuild=reader)
        (data / "capeval.duckdb").unlink()
        with pytest.raises(LakeError, match=named):
            call(data, "marts")
        call(data, "derive", rebuild=key)
        assert contents(data) == whole
        assert query_of(f"select count(*) as n from {key}", data) == [{"n": 8}], "views name the new files"
    for name in lake.paths("readings.generations"):
        Path(name).unlink()
    with pytest.raises(AssertionError, match=r"readings\.generations: .* `capeval ingest --forget` takes .* files out"):
        call(data, "ingest", write_scores(tmp_path / "more.csv", ["desk"], n_models=3, shift=1))
    call(data, "forget", path)
    call(data, "ingest", path)
    call(data, "derive")
    assert contents(data) == whole


@pytest.mark.slow
def test_a_benchmark_that_contradicts_itself_does_not_keep_others_from_being_published(data, tmp_path):
    """Its last sound rows stay; the run says so and fails, and so does a verdict; repaired, it is published again."""
    call(data, "ingest", write_scores(tmp_path / "both.csv", ["desk", "shop"]))
    call(data, "derive")
    lake = Lake(load_settings(data).lake_root)
    models = lake.read("raw.models", "desk")
    lake.write("raw.models", "desk", models.slice(1))
    call(data, "ingest", write_scores(tmp_path / "more.csv", ["shop"], n_models=3))
    said = "desk: Shown as last published; what is there now contradicts itself: Every answer and every judgment is of"
    for _ in range(2):  # also where nothing is new
        with pytest.raises(AssertionError, match=said):
            call(data, "derive")
    counts = "select benchmark_id, count(*) as n from {} group by all order by all"
    for table in ("raw.models", "marts.coverage"):
        assert [tuple(row.values()) for row in query_of(counts.format(table), data)] == [("desk", 2), ("shop", 3)]
    verdict = "select benchmark_id, source_table from marts.verdicts where question = 'publication'"
    assert query_of(verdict, data) == [{"benchmark_id": "desk", "source_table": "meta.held_back"}]
    lake.write("raw.models", "desk", models)
    call(data, "derive", rebuild="staging.stg_generations")
    assert query_of(verdict, data) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])
