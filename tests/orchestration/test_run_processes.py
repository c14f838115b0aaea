"""Runs whose process is gone are ended; runs of living processes, repeated ones too, are not."""

import subprocess

import dagster as dg
from dagster import DagsterRunStatus

from capeval_pipeline.orchestration.run_processes import (
    HOST_TAG,
    PROCESS_TAG,
    STARTED_TAG,
    end_dead_runs,
    mark_run,
    process_tags,
)


@dg.job
def nothing():
    pass


def of_a_dead_process() -> dict[str, str]:
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    return {**process_tags(), PROCESS_TAG: gone.stdout.strip()}


def test_a_run_whose_process_is_gone_is_ended_and_one_that_lives_is_not(instance):
    started = DagsterRunStatus.STARTED
    dead = instance.create_run_for_job(nothing, tags=of_a_dead_process(), status=started)
    alive = instance.create_run_for_job(nothing, tags=process_tags(), status=started)
    assert end_dead_runs(instance) == 1
    assert instance.get_run_by_id(dead.run_id).status == DagsterRunStatus.FAILURE
    assert instance.get_run_by_id(alive.run_id).status == started


def test_another_process_with_the_number_of_the_dead_one_does_not_keep_its_run(instance):
    tags = {**process_tags(), STARTED_TAG: "1"}
    instance.create_run_for_job(nothing, tags=tags, status=DagsterRunStatus.STARTED)
    assert end_dead_runs(instance) == 1


def test_a_run_of_another_machine_is_left_to_it(instance):
    tags = {**of_a_dead_process(), HOST_TAG: "elsewhere"}
    instance.create_run_for_job(nothing, tags=tags, status=DagsterRunStatus.STARTED)
    assert end_dead_runs(instance) == 0


def test_what_a_dead_run_held_of_a_pool_is_free(instance):
    run = instance.create_run_for_job(nothing, tags=of_a_dead_process(), status=DagsterRunStatus.STARTED)
    log = instance.event_log_storage
    log.initialize_concurrency_limit_to_default("pool")
    log.set_concurrency_slots("pool", 1)
    assert log.claim_concurrency_slot("pool", run.run_id, "step").is_claimed
    assert not log.claim_concurrency_slot("pool", "another", "step").is_claimed
    end_dead_runs(instance)
    assert log.claim_concurrency_slot("pool", "another", "step").is_claimed


def test_a_repeated_run_is_not_taken_for_the_process_of_the_first_one(instance):
    """Dagster copies the tags of the run that is repeated."""
    first = instance.create_run_for_job(nothing, tags=of_a_dead_process(), status=DagsterRunStatus.FAILURE)
    again = {**first.tags, "dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    repeated = instance.create_run_for_job(nothing, tags=again, status=DagsterRunStatus.STARTED)
    assert end_dead_runs(instance) == 0
    mark_run(instance, repeated)
    marked = instance.get_run_by_id(repeated.run_id)
    assert marked.tags[PROCESS_TAG] == process_tags()[PROCESS_TAG] != first.tags[PROCESS_TAG]
    assert end_dead_runs(instance) == 0
    instance.add_run_tags(repeated.run_id, of_a_dead_process())
    assert end_dead_runs(instance) == 1


def test_a_run_that_ended_while_its_process_was_looked_for_stays_as_it_ended(instance, monkeypatch):
    run = instance.create_run_for_job(nothing, tags=of_a_dead_process(), status=DagsterRunStatus.STARTED)
    stale = instance.get_run_records()

    def ended(*_, **__):
        instance.report_run_canceled(instance.get_run_by_id(run.run_id))
        return stale

    monkeypatch.setattr(instance, "get_run_records", ended)
    assert end_dead_runs(instance) == 0
    assert instance.get_run_by_id(run.run_id).status == DagsterRunStatus.CANCELED
