"""The commands of README.md and what comes of typing them in, once for all tests of a process."""

import csv
import errno
import json
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import COMMAND

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ELSEWHERE = {"make demo": "test_the_demo_gives_three_answers", "make up": "tests/e2e/test_ui_browser.py"}
SETTINGS = """
name: my_benchmark
identification: {n_seeds: 8, policies: [uniform, ucb_e]}
capabilities: {n_clusters: 4, cluster_counts: [1, 2], ridges: [1.0], n_resamples: 100, n_profile_resamples: 20}
"""
"""Small sizes: the commands are what is tried here."""


def commands() -> list[str]:
    """Every line of every shell block, comments taken off."""
    blocks = [text for kind, text in BLOCK.findall(README) if kind == "shell"]
    lines = [line for text in blocks for line in text.splitlines() if line.strip()]
    return [re.sub(r"\s{2,}#.*$|\s+# .*$", "", line).strip() for line in lines]


@dataclass(frozen=True)
class Typed:
    """A command, what the terminal showed, its exit code, seconds."""

    command: str
    shown: str
    code: int
    seconds: float

    @property
    def text(self) -> str:
        """What was shown without colours and movements of the cursor."""
        return ESCAPE.sub("", self.shown).replace("\r", "")


def type_in(command: str, folder: Path, environment: dict[str, str]) -> Typed:
    """Run a command of a shell on a terminal of its own: 120 columns, colours, nobody at the keyboard."""
    keyboard, screen = pty.openpty()
    started = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=screen, stdout=screen, stderr=screen, cwd=folder, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(screen)
    shown = b""
    while True:
        ready, _, _ = select.select([keyboard], [], [], 600)
        assert ready, f"{command} has said nothing for ten minutes\n{shown.decode(errors='replace')}"
        try:
            got = os.read(keyboard, 65536)
        except OSError as ended:  # Linux says so where the other side is closed
            assert ended.errno == errno.EIO
            break
        if not got:
            break
        shown += got
    os.close(keyboard)
    return Typed(command, shown.decode(errors="replace"), process.wait(60), time.monotonic() - started)


def shell_environment() -> dict[str, str]:
    """The environment of a user who has installed capeval and set nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CAPEVAL_")}
    return {
        **kept, "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}", "TERM": "xterm-256color", "COLUMNS": "120",
    }  # fmt: skip


def write_wide_table(folder: Path) -> None:
    """results/scores.csv in the shape README shows: prompts, a column a model, costs of each; one answer a cell."""
    folder.mkdir()
    own = np.random.default_rng(5)
    models = ["lab/alder", "lab/birch", "lab/cedar", "lab/elm"]
    topics = ["reset a password", "refund an order", "connect the printer"]
    with (folder / "scores.csv").open("w", newline="") as written:
        table = csv.writer(written)
        table.writerow(["item_id", "prompt", *models, *(f"{model}|total_cost" for model in models)])
        for i in range(120):
            skills = own.random(4) < [0.85, 0.6, 0.35 + 0.5 * (i % 3 == 0), 0.5]
            costs = [f"{cost:.5f}" for cost in (0.004, 0.002, 0.001, 0.0005) * own.uniform(0.8, 1.2, 4)]
            table.writerow([f"q{i}", f"How do I {topics[i % 3]}, case {i}?", *skills.astype(int), *costs])
    (folder / "benchmark.yml").write_text(SETTINGS)


@dataclass(frozen=True)
class Session:
    """A folder in which the page was followed from top to bottom; command → what came of it."""

    folder: Path
    done: Mapping[str, Typed]

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def told(self, start: str) -> str:
        """What the one command that begins so has shown, on one line."""
        (found,) = [typed for command, typed in self.done.items() if command.startswith(start)]
        return " ".join(found.text.split())


_sessions: list[Session] = []


def readme_session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The page followed, the commands of make apart; two minutes of work, done once in a process."""
    if not _sessions:
        folder = tmp_path_factory.mktemp("readme")
        _sessions.append(Session(folder, _follow(folder)))
    return _sessions[0]


def _follow(folder: Path) -> dict[str, Typed]:
    write_wide_table(folder / "results")
    environment = shell_environment()
    done: dict[str, Typed] = {}
    for command in commands():
        if command in ELSEWHERE:
            continue
        if command.startswith("capeval identify new"):  # a benchmark of many models, which the demo reads
            read = type_in(f"capeval ingest {PROJECT / 'data/sample/circuit_quiz'}", folder, environment)
            assert read.code == 0, read.text
        if command.startswith("capeval identify tell"):
            asks = json.loads(done["capeval identify ask june --max 32 --json"].text)["asks"]
            lines = [json.dumps({"ask_id": one["ask_id"], "score": 1}) for one in asks]
            (folder / "answers.jsonl").write_text("\n".join(lines) + "\n")
        done[command] = type_in(command, folder, environment)
    return done
