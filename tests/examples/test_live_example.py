"""The worked example as a user runs it: a real ingest, a server over HTTP, eight workers, its answers read back."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = str(Path(sys.executable).parent / "capeval")


def run(*words: object, folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=600,
        env={**os.environ, "CAPEVAL_DATA": str(folder / "data")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_example_finds_the_best_model_and_its_answers_are_ingested(tmp_path):
    run(COMMAND, "ingest", PROJECT / "data" / "sample" / "support_desk", folder=tmp_path)
    example = (sys.executable, PROJECT / "examples" / "evaluate_live.py", "--data", tmp_path / "data")
    said = run(*example, "--export", "results", folder=tmp_path)
    calls, sentence, _ = said.splitlines()
    n_calls, n_told = int(calls.split()[0]), [int(n) for n in re.findall(r"\d+", calls.partition("told")[2])]
    assert len(n_told) == 8
    assert "grove/cedar-70b is the best at" in sentence
    status = json.loads(run(COMMAND, "identify", "status", "example", "--json", folder=tmp_path))
    assert (status["certified"], status["best"], status["n_told"]) == (True, ["grove/cedar-70b"], sum(n_told))
    assert n_calls > sum(n_told)  # some calls failed with a 500 and were made again

    # A session that has stopped makes no further call, and what was told is read as a benchmark of its own.
    assert run(*example, folder=tmp_path).startswith("0 HTTP calls")
    (read,) = [
        entry
        for entry in json.loads(run(COMMAND, "ingest", "results", "--json", folder=tmp_path))
        if entry["status"] == "read"
    ]
    assert (read["benchmark_ids"], read["n_kept"], read["n_rejected"]) == (["support_desk_example"], sum(n_told), 0)
