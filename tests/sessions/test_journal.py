"""The journal under faults: cut and damaged lines, a full disk, an unwritable folder, another writer."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.sessions import Session
from capeval_pipeline.sessions.journal import Journal, JournalError, make_journal
from tests.sessions.worlds import World

RECORDS = [{"kind": "ask", "n": 1}, {"kind": "tell", "text": "µ"}, {"kind": "ask", "n": 3}]


@pytest.fixture
def path(tmp_path) -> Path:
    make_journal(tmp_path / "journal.jsonl")
    journal = Journal(tmp_path / "journal.jsonl")
    for record in RECORDS:
        journal.append(record)
    return tmp_path / "journal.jsonl"


def test_what_was_appended_is_read_as_json_lines_with_checksums(path):
    assert Journal(path).read_on() == RECORDS
    assert [json.loads(line)["record"] for line in path.read_bytes().splitlines()] == RECORDS
    assert {len(json.loads(line)["check"]) for line in path.read_bytes().splitlines()} == {16}


def test_a_reader_reads_on_from_where_it_was(path):
    reader, writer = Journal(path), Journal(path)
    reader.read_on(), writer.read_on()
    writer.append({"n": 4})
    assert (reader.read_on(), reader.read_on()) == ([{"n": 4}], [])


@pytest.mark.parametrize("n_left", [0, 1, 30, -1])
def test_a_cut_last_line_is_dropped_and_overwritten(path, n_left):
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[:start] + whole[start:][:n_left])
    journal = Journal(path)
    assert journal.read_on() == RECORDS[:2]
    journal.append({"n": "new"})
    assert Journal(path).read_on() == [*RECORDS[:2], {"n": "new"}]


def test_lost_blocks_of_the_last_line_are_dropped(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b'n":4}}\n')
    journal = Journal(path)
    assert journal.read_on() == RECORDS
    journal.append({"n": 4})
    assert Journal(path).read_on() == [*RECORDS, {"n": 4}]


def damage(content: bytes, how: str) -> bytes:
    lines = content.splitlines(keepends=True)
    return {
        "a digit": lambda: content.replace(b'"n":1', b'"n":2'),
        "the last line": lambda: content.replace(b'"n":3', b'"n":4'),
        "a line lost": lambda: lines[0] + lines[2],
        "lines moved": lambda: lines[1] + lines[0] + lines[2],
        "a line twice": lambda: lines[0] + lines[0] + lines[1],
        "no JSON": lambda: b"hello\n" + content,
        "zeros": lambda: b"\0" * len(lines[0]) + lines[1] + lines[2],
    }[how]()


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("a digit", 1), ("the last line", 3), ("a line lost", 2), ("lines moved", 1), ("a line twice", 2),
        ("no JSON", 1), ("zeros", 1),
    ],
)  # fmt: skip
def test_damage_before_the_end_is_refused_with_its_line(path, how, line):
    damaged = damage(path.read_bytes(), how)
    path.write_bytes(damaged)
    journal = Journal(path)
    for _ in range(2):  # whoever asks again is told again
        with pytest.raises(JournalError, match=f"line {line} is damaged.*cannot be trusted.*put back a copy"):
            journal.read_on()
    assert path.read_bytes() == damaged


def test_a_journal_that_became_shorter_is_refused(path):
    journal = Journal(path)
    journal.read_on()
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="shorter than it was"):
        journal.read_on()


@pytest.fixture
def file_size_limit():
    """A real limit of the system on the size of files: writing stops half way through a line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def set_to(n_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))

    yield set_to
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_nothing_that_was_answered_for(tmp_path, file_size_limit):
    world = World(3, 30)
    live = world.session(tmp_path, policy="pulse", batch=5)
    live.tell(world.answers(live.ask()))
    reply = live.ask()
    journal = tmp_path / "sessions" / "s" / "journal.jsonl"
    before = journal.read_bytes()
    file_size_limit(len(before) + 30)
    with pytest.raises(CapevalError, match=r"nothing of this call was recorded\. Free some space"):
        live.tell(world.answers(reply))
    with pytest.raises(CapevalError, match="nothing of this call was recorded"):
        live.ask()
    assert journal.read_bytes() == before
    file_size_limit(resource.RLIM_INFINITY)
    assert live.tell(world.answers(reply)).accepted == 5
    undisturbed = world.session(tmp_path, "undisturbed", policy="pulse", batch=5)
    for _ in range(2):
        undisturbed.tell(world.answers(undisturbed.ask()))
    assert live.ask().asks == undisturbed.ask().asks
    assert live.status().as_json()["arms"] == undisturbed.status().as_json()["arms"]


def test_an_unwritable_folder_is_named_in_a_sentence(tmp_path, monkeypatch):
    world = World(3, 30)
    (tmp_path / "file").write_text("")
    with pytest.raises(CapevalError, match="cannot be written to"):
        world.session(tmp_path / "file", policy="ucb_e")
    live = world.session(tmp_path, policy="ucb_e")

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)  # the superuser, who runs tests in containers, may write anywhere
    with pytest.raises(CapevalError, match=r"sessions/s: cannot be written to \(Permission denied\)"):
        live.ask()
    monkeypatch.undo()
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(CapevalError, match=r"journal\.jsonl: cannot be written to \(Permission denied\)"):
        live.ask()


HOLD = """
import fcntl, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_session_in_use_is_waited_for_and_then_said_to_be_in_use(tmp_path):
    world = World(3, 30)
    live = world.session(tmp_path, policy="ucb_e")
    lock = tmp_path / "sessions" / "s" / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        journal = Journal(tmp_path / "sessions" / "s" / "journal.jsonl")
        started = time.monotonic()
        in_use = r"session 's' has been in use by another process for 0\.2 s"
        with pytest.raises(JournalError, match=in_use), journal.locked(0.2):
            pass
        assert 0.2 <= time.monotonic() - started < 5
        assert live.status().n_told == 0  # reading waits for nobody
        holder.kill()
    assert live.ask().asks  # a killed holder leaves nothing to clean up


def test_half_a_session_is_never_seen(tmp_path, monkeypatch):
    world = World(3, 30)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("capeval_pipeline.sessions.folder.make_journal", killed)
    with pytest.raises(KeyboardInterrupt):
        world.session(tmp_path, policy="ucb_e")
    monkeypatch.undo()
    assert list((tmp_path / "sessions").iterdir()) == []
    assert world.session(tmp_path, policy="ucb_e").ask().asks
    left = tmp_path / "sessions" / ".new-1-1"
    left.mkdir()
    os.utime(left, (0, 0))  # what a kill left behind is swept once it is old
    world.session(tmp_path, "t", policy="ucb_e")
    assert not left.exists()
    assert Session.open(tmp_path, "t").name == "t"
