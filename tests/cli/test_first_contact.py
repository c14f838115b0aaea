"""What somebody meets who knows nothing yet: help with examples, no workspace, an empty one, a shell's completion."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from capeval_pipeline.cli import COMMANDS, FIRST_STEPS, app, main
from capeval_pipeline.cli.invocation import remaining_time
from tests.e2e.conftest import COMMAND

NO_JSON = {"demo", "run", "up"}
"""Commands that make or start something and have nothing to give to a machine."""
NEEDS_A_WORKSPACE: list[tuple[str, ...]] = [
    ("run",),
    ("status",),
    ("leaderboard", "quiz"),
    ("clusters", "quiz"),
    ("frontier", "quiz"),
    ("identify-study", "quiz"),
    ("route", "quiz", "a prompt"),
    ("sql", "select 1"),
    ("report",),
    ("export", "quiz", "--to", "tables"),
    ("verify",),
    ("identify", "new", "june", "-b", "quiz", "--arms", "a,b"),
]


def every_command(group: Any = None, name: str = "capeval") -> Iterator[tuple[str, Any]]:
    """(name as typed, command) of the root and everything below it."""
    group = group or typer.main.get_command(app)
    yield name, group
    for child, command in getattr(group, "commands", {}).items():
        yield from every_command(command, f"{name} {child}")


ALL = dict(every_command())


@pytest.fixture
def capeval(monkeypatch, capsys):
    """Run the command in this process: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capeval", *map(str, arguments)])
        monkeypatch.setenv("CAPEVAL_DATA", "")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_all_commands_are_looked_at():
    assert {name.split()[1] for name in ALL if " " in name} == {*COMMANDS, "identify"}


@pytest.mark.parametrize("name", ALL)
def test_help_shows_an_example_that_can_be_typed(name):
    found = re.findall(r"`(capeval[^`]*)`", ALL[name].help or "")
    assert re.search(r"Examples?:", ALL[name].help or "")
    assert any(example.startswith(name) or name == "capeval" for example in found), found


READING = [name for name in ALL if " " in name and name.split()[1] not in NO_JSON and name != "capeval identify"]


@pytest.mark.parametrize("name", READING)
def test_what_can_be_read_can_be_read_by_machines(name):
    assert any("--json" in option.opts for option in ALL[name].params)


def test_alone_it_says_what_to_do_first(capeval):
    code, out, _ = capeval()
    assert code == 0
    assert out == FIRST_STEPS + "\n"


@pytest.mark.parametrize("words", NEEDS_A_WORKSPACE, ids=" ".join)
def test_a_mistyped_workspace_is_one_line_and_stays_missing(capeval, tmp_path, words):
    code, out, err = capeval("--data", tmp_path / "dta", *words)
    assert (code, out) == (1, "")
    assert err.startswith(f"capeval: {tmp_path / 'dta'}: no such workspace; `capeval ingest PATH` makes one")
    assert err.count("\n") == 1
    assert not (tmp_path / "dta").exists()


@pytest.mark.parametrize("words", [words for words in NEEDS_A_WORKSPACE if words[0] not in ("run", "status")])
def test_an_empty_workspace_is_one_line_that_says_what_comes_first(capeval, tmp_path, words):
    code, out, err = capeval("--data", tmp_path, *words)
    assert code in (1, 2)
    assert out == ""
    assert err.count("\n") == 1
    assert "capeval ingest" in err or "capeval run" in err


def test_a_traceback_is_shown_to_who_asks_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(tmp_path / "dta"), "--debug", "status"])
    with pytest.raises(Exception, match="no such workspace"):
        main()


def test_nothing_is_coloured_where_nobody_looks(capeval, monkeypatch):
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in capeval("--help")[1]
    assert "\x1b" not in capeval("leaderboard")[2]


def test_the_shell_completes_commands(tmp_path):
    environment = os.environ | {"_CAPEVAL_COMPLETE": "complete_bash", "COMP_WORDS": "capeval identi", "COMP_CWORD": "1"}
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split() == ["identify-study", "identify"]


def test_completion_can_be_shown_and_kept():
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} --show-completion; exit $?"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F" in done.stdout


@pytest.mark.parametrize(
    ("taken", "n_done", "n_all", "told"),
    [
        (30.0, 0.0, 0.0, ""),  # nothing is known of the whole
        (30.0, 0.0, 9.0, ""),  # nothing is done of it
        (0.5, 1.0, 9.0, ""),  # too early to tell
        (30.0, 3.0, 9.0, "about 60 s left"),
        (60.0, 1.0, 11.0, "about 10 min left"),
        (30.0, 9.0, 9.0, "about 0 s left"),
    ],
)
def test_the_rest_is_estimated_from_what_is_done(taken, n_done, n_all, told):
    assert remaining_time(taken, n_done, n_all) == told


def test_every_step_of_a_run_is_counted_before_it_starts():
    from types import SimpleNamespace

    from dagster import DagsterEventType

    from capeval_pipeline.orchestration.step_progress import StepCount

    def starts(name: str) -> Any:
        return SimpleNamespace(dagster_event=SimpleNamespace(event_type=DagsterEventType.STEP_START, step_key=name))

    heard: list[Any] = []
    instance: Any = SimpleNamespace(add_event_listener=lambda _, hear: heard.append(hear))
    steps: Any = [SimpleNamespace(step=SimpleNamespace(name=name)) for name in ("strengths", "ecc")]
    said: list[Any] = []
    count = StepCount(lambda *told: said.append(told), steps)
    with count.of_run(instance, "run", "quiz"):
        heard[0](starts("strengths"))
        heard[0](SimpleNamespace(dagster_event=None))
        heard[0](starts("ecc"))
    assert said == [("quiz: strengths (step 1 of 2)", 0.0, 9.0), ("quiz: ecc (step 2 of 2)", 1.0, 9.0)]


def test_help_and_first_steps_load_nothing_heavy():
    script = (
        "import sys\nfrom capeval_pipeline.cli import app\napp(['--help'], standalone_mode=False)\n"
        "sys.exit(sum(name.split('.')[0] in ('dagster', 'duckdb', 'pandas', 'numba') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, cwd=Path(COMMAND).parent)
    assert done.returncode == 0, done.stderr
