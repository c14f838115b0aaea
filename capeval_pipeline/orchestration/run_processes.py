"""Which process executes a run: what lets a run whose process is gone be told from a slow one, and ended.

Dagster's own launcher on one machine never looks whether the processes it started are alive: a run that was killed,
by hand or with the daemon, would stay STARTED for ever.
"""

import os
import socket
from pathlib import Path

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus, DefaultRunLauncher, RunsFilter
from dagster._core.storage.tags import PARENT_RUN_ID_TAG

HOST_TAG, PROCESS_TAG, STARTED_TAG = "capeval/host", "capeval/pid", "capeval/process_started"
RUN_TAG = "capeval/run"
"""The run that a process said it executes: Dagster gives a run that is executed again the tags of the first one."""

_marked: set[str] = set()


def mark_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Say of a run that this process executes it; those that `capeval` starts say so from the beginning."""
    if not _says_who_it_is(run) and run.run_id not in _marked:
        instance.add_run_tags(run.run_id, {**process_tags(), RUN_TAG: run.run_id})
        _marked.add(run.run_id)


def _says_who_it_is(run: dg.DagsterRun) -> bool:
    """Whether the process in a run's tags is its own and not that of the run it repeats."""
    is_repetition = PARENT_RUN_ID_TAG in run.tags
    return PROCESS_TAG in run.tags and (run.tags.get(RUN_TAG) == run.run_id or not is_repetition)


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
    """Fail runs whose process is gone and free what they hold; returns how many there were.

    A killed run stays STARTED for ever and keeps its place in a pool, on which the next run would wait.
    """
    marked = RunsFilter(
        statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.NOT_STARTED],
        tags={HOST_TAG: socket.gethostname()},
    )
    runs = [record.dagster_run for record in instance.get_run_records(marked)]
    runs = [run for run in runs if _says_who_it_is(run)]
    dead = [run for run in runs if process_started(int(run.tags[PROCESS_TAG])) != run.tags.get(STARTED_TAG)]
    dead += _dead_before_they_were_marked(instance)
    # one that came to its end since it was asked for has no process either
    dead = [run for run in dead if not _is_over(instance, run.run_id)]
    for run in dead:
        instance.report_run_failed(run, "its process is gone; `capeval run` goes on from what it wrote")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return len(dead)


def _is_over(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished


def _dead_before_they_were_marked(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Runs that Dagster's launcher started here, by the process that their log names and that is no more.

    Only where launcher and log are those of one machine: of another one nothing is known here.
    """
    from dagster._core.storage.event_log import SqliteEventLogStorage  # brings SQLAlchemy, which definitions do without

    if not isinstance(instance.run_launcher, DefaultRunLauncher):
        return []
    if not isinstance(instance.event_log_storage, SqliteEventLogStorage):
        return []
    dead = []
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.STARTED])):
        run = record.dagster_run
        if not _says_who_it_is(run):
            events = instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT)
            told = [
                event.dagster_event.engine_event_data.metadata.get("pid") for event in events if event.dagster_event
            ]
            pids = {int(str(entry.value)) for entry in told if entry is not None}
            if pids and all(process_started(pid) is None for pid in pids):
                dead.append(run)
    return dead
