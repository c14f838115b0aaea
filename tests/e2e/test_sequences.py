"""Whatever happens in whatever order, in the end the tables are those of a clean build from the same files.

Fifty sequences of commands through Dagster would take an hour. So the commands' own code runs here on a notebook in
Dagster's place (`Notebook`, a line a table made, which survives a kill as its database does) and within one process;
what is killed runs in forks of a process that has the program loaded. CAPEVAL_SEQUENCES says how many are tried.
"""

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.e2e.notebook import call, contents, die, stand_in_for_dagster

N_SEQUENCES = int(os.environ.get("CAPEVAL_SEQUENCES", "8"))
N_STEPS = 7
ITEMS = [f"q{i}" for i in range(8)]
MODELS = ("alder", "birch", "cedar")
CONTENTS = (1, 2)
LAKE = "capeval_pipeline.storage.lake:Lake"
AMID_INGEST = (
    f"{LAKE}.write_parts=readings.generations",
    f"<{LAKE}.write_parts=raw.generations",
    f"{LAKE}.write_parts=raw.files",
    "capeval_pipeline.orchestration.committing:_told=raw.models",
)
AMID_RUN = (
    f"{LAKE}.write=staging.stg_generations",
    f"<{LAKE}.write=intermediate.item_stats",
    f"{LAKE}.write=meta.partition_state",
    "capeval_pipeline.storage.warehouse:create_marts",
    "<capeval_pipeline.storage.warehouse:Warehouse._point_link_to",
    "capeval_pipeline.storage.warehouse:Warehouse._point_link_to",
)


class Place:
    """Two workspaces that are emptied for each sequence, the files they read, and what clean builds gave."""

    def __init__(self, root: Path) -> None:
        self.files, self.data, self.clean = root / "desk", root / "workspace", root / "clean"
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["tests.e2e.test_sequences"])
        self.known: dict[tuple, dict[str, str]] = {}
        self.n_killed = 0

    def empty(self) -> None:
        for folder in (self.files, self.data, self.clean):
            shutil.rmtree(folder, ignore_errors=True)
        self.files.mkdir()

    def kill(self, place: str, command: str, *paths: Path) -> None:
        """The command in a process that dies at the place; where it never comes there it ends by itself."""
        process = self.processes.Process(target=die, args=(place, self.data, command, *paths))
        process.start()
        process.join(120)
        assert process.exitcode in (0, -signal.SIGKILL), f"{command} at {place} ended with {process.exitcode}"
        self.n_killed += process.exitcode != 0


PLACE: Place


class Sequences(RuleBasedStateMachine):
    """`held`: what the lake was told of each file; `on_disk`: what stands in it."""

    @initialize(content=st.sampled_from(CONTENTS))
    def begin(self, content: int) -> None:
        PLACE.empty()
        self.on_disk: dict[str, int] = {}
        self._write("alder", content)
        call(PLACE.data, "ingest", PLACE.files)

    def _write(self, model: str, content: int) -> Path:
        path = PLACE.files / f"{model}.csv"
        scores = np.random.default_rng([content, *model.encode()]).integers(0, 2, len(ITEMS))
        lines = [f"{item},{model},{score}" for item, score in zip(ITEMS, scores, strict=True)]
        path.write_text("\n".join(["item_id,model,score", *lines]) + "\n")
        self.on_disk[model] = content
        return path

    @rule(model=st.sampled_from(MODELS), content=st.sampled_from(CONTENTS))
    def add_or_correct_a_file(self, model: str, content: int) -> None:
        self._write(model, content)
        call(PLACE.data, "ingest", PLACE.files)

    @rule()
    def ingest_everything_again(self) -> None:
        call(PLACE.data, "ingest", PLACE.files)

    @rule(model=st.sampled_from(MODELS), content=st.sampled_from(CONTENTS), place=st.sampled_from(AMID_INGEST))
    def kill_an_ingest(self, model: str, content: int, place: str) -> None:
        self._write(model, content)
        PLACE.kill(place, "ingest", PLACE.files)

    @precondition(lambda self: len(self.on_disk) > 1)
    @rule(data=st.data())
    def remove_a_file(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(sorted(self.on_disk)))
        call(PLACE.data, "ingest", PLACE.files)  # an ingest of it may have been killed
        call(PLACE.data, "forget", PLACE.files / f"{model}.csv")
        (PLACE.files / f"{model}.csv").unlink()
        del self.on_disk[model]

    @rule(place=st.sampled_from(AMID_INGEST))
    def kill_a_removal(self, place: str) -> None:
        call(PLACE.data, "ingest", PLACE.files)
        PLACE.kill(place, "forget", PLACE.files / f"{max(self.on_disk)}.csv")

    @rule()
    def run(self) -> None:
        call(PLACE.data, "derive")

    @rule(place=st.sampled_from(AMID_RUN))
    def kill_a_run(self, place: str) -> None:
        PLACE.kill(place, "derive")

    @rule()
    def publish(self) -> None:
        call(PLACE.data, "marts")

    def teardown(self) -> None:
        if not hasattr(self, "on_disk"):
            return
        call(PLACE.data, "ingest", PLACE.files)
        call(PLACE.data, "derive")
        files = tuple(sorted(self.on_disk.items()))
        if files not in PLACE.known:
            call(PLACE.clean, "ingest", PLACE.files)
            call(PLACE.clean, "derive")
            PLACE.known[files] = contents(PLACE.clean)
        assert contents(PLACE.data) == PLACE.known[files]
        again = call(PLACE.data, "derive")
        assert again is not None and not again.is_published and not any(run.ran for run in again.benchmarks)


@pytest.mark.slow
def test_any_sequence_ends_as_a_clean_build_of_the_same_files(tmp_path, monkeypatch):
    global PLACE
    PLACE = Place(tmp_path)
    stand_in_for_dagster(monkeypatch.setattr)
    run_state_machine_as_test(
        Sequences,
        settings=settings(
            max_examples=N_SEQUENCES,
            stateful_step_count=N_STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert PLACE.n_killed > 0, "nothing was killed"
