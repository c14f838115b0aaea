"""Which process executes a run: what lets a run whose process is gone be told from a slow one, and ended.

Dagster's own launcher on one machine never looks whether the processes it started are alive: a run that was killed,
by hand or with the daemon, would stay STARTED for ever.
"""

import os
import socket
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

HOST_TAG, PROCESS_TAG, STARTED_TAG = "capeval/host", "capeval/pid", "capeval/process_started"

_marked: set[str] = set()


def mark_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Say of a run that this process executes it; those that `capeval` starts say so from the beginning."""
    if PROCESS_TAG not in run.tags and run.run_id not in _marked:
        instance.add_run_tags(run.run_id, process_tags())
        _marked.add(run.run_id)


def process_tags() -> dict[str, str]:
    """Who runs it: host, process, its start time; so a run whose process is gone can be told from a slow one."""
    return {
        HOST_TAG: socket.gethostname(),
        PROCESS_TAG: str(os.getpid()),
        STARTED_TAG: process_started(os.getpid()) or "",
    }


def process_started(pid: int) -> str | None:
    """Start time of a process in the system's own ticks, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return "unknown"
    return stat.rsplit(")", 1)[1].split()[19]


def end_dead_runs(instance: dg.DagsterInstance) -> int:
    """Fail in-process runs whose process is gone and free what they hold; returns how many there were.

    A killed run stays STARTED for ever and keeps its place in a pool, on which the next run would wait.
    """
    running = RunsFilter(
        statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.NOT_STARTED],
        tags={HOST_TAG: socket.gethostname()},
    )
    n_ended = 0
    for record in instance.get_run_records(running):
        tags = record.dagster_run.tags
        if process_started(int(tags[PROCESS_TAG])) == tags.get(STARTED_TAG):
            continue
        instance.report_run_failed(record.dagster_run, "its process is gone; `capeval run` goes on from what it wrote")
        instance.event_log_storage.free_concurrency_slots_for_run(record.dagster_run.run_id)
        n_ended += 1
    return n_ended
