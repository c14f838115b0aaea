"""Every command of README.md, typed into a pseudo-terminal in a fresh folder, in the order of the page.

`make demo` is `make install`, which everything here needs, and `capeval demo`, which runs here; `make up` is
`capeval up`, which test_ui_browser.py starts and looks at.
"""

import re

import pytest

from tests.e2e.readme import (
    BLOCK,
    ELSEWHERE,
    ESCAPE,
    README,
    Session,
    commands,
    readme_session,
    shell_environment,
    type_in,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("readme")]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return readme_session(tmp_path_factory)


def test_every_line_of_every_block_is_a_command_that_is_run():
    assert all(kind for kind, _ in BLOCK.findall(README)) or drawing_only()
    assert len(commands()) > 20
    assert set(ELSEWHERE) <= set(commands())
    assert {command.split()[0] for command in commands()} == {"make", "capeval"}


def drawing_only() -> bool:
    """Whether the one block without a language is the drawing of the layers, in which nothing can be typed."""
    plain = [text for kind, text in BLOCK.findall(README) if not kind]
    return len(plain) == 1 and "capeval " not in plain[0]


@pytest.mark.parametrize("command", [command for command in commands() if command not in ELSEWHERE])
def test_a_command_of_the_page_does_what_it_says(session, command):
    typed = session.done[command]
    assert typed.code == 0, typed.text
    assert typed.text.strip()
    assert "Traceback" not in typed.text


def test_the_reader_of_the_page_learns_what_was_read(session):
    assert "wide" in session.told("capeval ingest results/ --dry-run")
    assert "480 480 0 0" in session.told("capeval ingest results/ --dry-run")


def test_the_reader_of_the_page_finds_tie_groups(session):
    assert "tie group" in session.told("capeval leaderboard my_benchmark")
    assert "could be" in session.told("capeval leaderboard my_benchmark")


def test_the_reader_of_the_page_learns_why_there_is_no_frontier(session):
    assert "one draw" in session.told("capeval frontier my_benchmark").lower()


def test_a_terminal_shows_progress_and_a_pipe_does_not(session):
    run = session.done["capeval run"]
    assert ESCAPE.search(run.shown), "nothing moved on the terminal"
    assert re.search(r"step \d+ of \d+", run.text), "no step was counted"


def test_the_demo_gives_three_answers(tmp_path):
    environment = shell_environment() | {"CAPEVAL_DATA": str(tmp_path / "data")}
    done = type_in("capeval demo", tmp_path, environment)
    assert done.code == 0, done.text
    flat = " ".join(done.text.split())
    for answer in ("Capabilities (support_desk):", "Best model in few calls (circuit_quiz):", "Capability frontier"):
        assert answer in flat
    assert (tmp_path / "data" / "reports" / "index.html").exists()
