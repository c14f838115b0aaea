"""kill -9 of the process that asks and tells, at random moments: nothing lost, nothing twice, the same last bit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from capeval_pipeline.sessions import Session
from tests.sessions.worlds import World

N_ARMS, N_ITEMS, N_ANSWERS, N_KILLS = 20, 900, 10_000, 20
ASKED_AT_ONCE = 90
PROJECT = Path(__file__).resolve().parents[2]


def world() -> World:
    """Arms so alike that no certificate ends the session early."""
    made = World(N_ARMS, N_ITEMS, seed=9)
    made.scores = (np.random.default_rng(9).random(made.scores.shape) < 0.6).astype(float)
    return made


def drive(data: Path, name: str, n_answers: int, seed: int) -> None:
    """Tell what is pending in random batches, ask anew, and so on; prints the asks that were confirmed as recorded."""
    own, rng = world(), np.random.default_rng(seed)
    session = Session.open(data, name)
    while True:
        waiting = own.answers(session.ask(reissue=True))
        rng.shuffle(waiting)
        while waiting:
            size = int(rng.integers(1, 13))
            told, waiting = waiting[:size], waiting[size:]
            assert session.tell(told).rejected == ()
            print(json.dumps([answer["ask_id"] for answer in told]), flush=True)
        n_left = n_answers - session.status().n_told
        if n_left <= 0:
            return
        assert session.ask(min(ASKED_AT_ONCE, n_left)).asks


@pytest.mark.slow
def test_ten_thousand_answers_and_twenty_kills_end_as_if_nothing_had_happened(tmp_path):
    own, rng = world(), np.random.default_rng(4)
    for name in ("killed", "undisturbed"):
        own.session(tmp_path, name, policy="pulse", delta=1e-6)
    command = [sys.executable, "-m", "tests.sessions.test_kills", str(tmp_path), "killed", str(N_ANSWERS)]
    confirmed: list[str] = []
    for life in range(N_KILLS + 1):
        n_tells = int(rng.integers(1, 60)) if life < N_KILLS else 10**9
        with subprocess.Popen([*command, str(life)], stdout=subprocess.PIPE, cwd=PROJECT) as process:
            for line in process.stdout:
                confirmed += json.loads(line)
                n_tells -= 1
                if n_tells == 0:
                    time.sleep(float(rng.random()) * 0.02)
                    os.kill(process.pid, signal.SIGKILL)
                    break
            confirmed += [ask for line in process.stdout if line.endswith(b"\n") for ask in json.loads(line)]
        assert process.returncode == (-signal.SIGKILL if life < N_KILLS else 0)
    drive(tmp_path, "undisturbed", N_ANSWERS, seed=99)

    journal = (tmp_path / "sessions" / "killed" / "journal.jsonl").read_text().splitlines()
    records = [json.loads(line)["record"] for line in journal]
    recorded = [answer[0] for record in records if record["kind"] == "tell" for answer in record["answers"]]
    given = [tuple(cell) for record in records if record["kind"] == "ask" for cell in record["given"]]
    assert len(recorded) == len(set(recorded)) == N_ANSWERS  # none twice
    assert len(given) == len(set(given)) == N_ANSWERS  # no cell under two ids
    assert {int(ask[1:]) - 1 for ask in confirmed} <= set(recorded)  # none lost that was answered for
    killed, undisturbed = (Session.open(tmp_path, name).status().as_json() for name in ("killed", "undisturbed"))
    assert killed | {"session": ""} == undisturbed | {"session": ""}
    assert killed["n_told"] == N_ANSWERS and killed["n_pending"] == 0


if __name__ == "__main__":
    drive(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
