"""The inbox sensor: whole files are asked for once, with what they hold in the run key."""

import json
import os
from pathlib import Path

import dagster as dg

from capeval_pipeline.orchestration.automation import fate, watch_inbox

NOW = 1_900_000_000.0


def put(inbox: Path, name: str, text: str, *, age: float = 10.0) -> Path:
    path = inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (NOW - age, NOW - age))
    return path


def paths_of(result: dg.SensorResult) -> list[list[str]]:
    return [request.run_config["ops"]["take_in"]["config"]["paths"] for request in result.run_requests]


def test_a_file_is_asked_for_at_the_second_look_and_never_again(tmp_path):
    put(tmp_path, "arc/a.csv", "one")
    first = watch_inbox(tmp_path, None, NOW)
    assert first.run_requests == []
    second = watch_inbox(tmp_path, first.cursor, NOW)
    assert paths_of(second) == [[str(tmp_path / "arc")]]
    assert watch_inbox(tmp_path, second.cursor, NOW).run_requests == []


def test_a_changed_file_is_asked_for_again_under_another_run_key(tmp_path):
    put(tmp_path, "arc/a.csv", "one")
    cursor = watch_inbox(tmp_path, None, NOW).cursor
    first = watch_inbox(tmp_path, cursor, NOW)
    put(tmp_path, "arc/a.csv", "corrected")
    cursor = watch_inbox(tmp_path, first.cursor, NOW).cursor
    second = watch_inbox(tmp_path, cursor, NOW)
    assert len(second.run_requests) == 1
    assert second.run_requests[0].run_key != first.run_requests[0].run_key


def test_a_file_that_grows_between_looks_waits(tmp_path):
    put(tmp_path, "arc/a.csv", "o")
    cursor = watch_inbox(tmp_path, None, NOW).cursor
    put(tmp_path, "arc/a.csv", "one")
    assert watch_inbox(tmp_path, cursor, NOW).run_requests == []


def test_a_deleted_file_is_forgotten_by_the_cursor(tmp_path):
    path = put(tmp_path, "arc/a.csv", "one")
    cursor = watch_inbox(tmp_path, watch_inbox(tmp_path, None, NOW).cursor, NOW).cursor
    path.unlink()
    memory = json.loads(watch_inbox(tmp_path, cursor, NOW).cursor)
    assert memory == {"seen": {}, "taken": {}}


def test_two_benchmarks_are_asked_for_apart(tmp_path):
    put(tmp_path, "arc/a.csv", "one")
    put(tmp_path, "desk/b.csv", "two")
    cursor = watch_inbox(tmp_path, None, NOW).cursor
    assert len(watch_inbox(tmp_path, cursor, NOW).run_requests) == 2


def test_a_file_of_the_future_is_whole_after_two_looks(tmp_path):
    """The clock was put back after it was written: waiting until its time has come would take as long."""
    put(tmp_path, "arc/a.csv", "one", age=-86_400)
    first = watch_inbox(tmp_path, None, NOW)
    assert first.run_requests == []
    assert paths_of(watch_inbox(tmp_path, first.cursor, NOW)) == [[str(tmp_path / "arc")]]


def test_a_file_whose_run_was_killed_or_cancelled_is_asked_for_again_up_to_three_times(tmp_path):
    put(tmp_path, "arc/a.csv", "one")
    looked = watch_inbox(tmp_path, watch_inbox(tmp_path, None, NOW).cursor, NOW)
    keys = [request.run_key for request in looked.run_requests]
    for _ in range(4):
        assert watch_inbox(tmp_path, looked.cursor, NOW, lambda _: "runs").run_requests == []
        looked = watch_inbox(tmp_path, looked.cursor, NOW, lambda _: "lost")
        keys += [request.run_key for request in looked.run_requests]
        assert paths_of(looked) in ([], [[str(tmp_path / "arc")]])
    assert keys == [keys[0], f"{keys[0]}#2", f"{keys[0]}#3"]


def test_a_request_that_never_became_a_run_is_made_again_under_the_same_key(tmp_path):
    """Dagster starts one run a key, so a daemon that was killed between the two makes no second one."""
    put(tmp_path, "arc/a.csv", "one")
    looked = watch_inbox(tmp_path, watch_inbox(tmp_path, None, NOW).cursor, NOW)
    again = watch_inbox(tmp_path, looked.cursor, NOW, lambda _: "unknown")
    assert [request.run_key for request in again.run_requests] == [looked.run_requests[0].run_key]
    assert watch_inbox(tmp_path, again.cursor, NOW, lambda _: "ended well").run_requests == []


def test_what_became_of_a_run_is_told_by_its_key(instance):
    from dagster import DagsterRunStatus, job

    @job
    def nothing():
        pass

    for key, status in {"a": "SUCCESS", "b": "FAILURE", "c": "CANCELED", "d": "STARTED"}.items():
        instance.create_run_for_job(nothing, tags={"dagster/run_key": key}, status=DagsterRunStatus(status))
    assert [fate(instance, key) for key in "abcde"] == ["ended well", "lost", "lost", "runs", "unknown"]
