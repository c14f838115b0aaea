"""The event log that is kept open while a run tells of much: what it holds, and that it is as before afterwards."""

import os
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline.orchestration.driver import prepare_home
from capeval_pipeline.orchestration.event_log import OPEN_DATABASES, kept_open


@dg.op(out=dg.Out(dg.Nothing))
def tell():
    for number in range(3):
        yield dg.AssetMaterialization("table", partition=f"b{number}", metadata={"rows": number})
        yield dg.AssetCheckEvaluation(asset_key=dg.AssetKey("table"), check_name="check", passed=number != 1)
    yield dg.Output(None)


@dg.job
def telling():
    tell()


def told(instance, run_id) -> list[str]:
    return [entry.dagster_event_type.value for entry in instance.all_logs(run_id) if entry.dagster_event_type]


def test_what_is_told_while_the_log_is_kept_open_is_what_is_told_otherwise(tmp_path):
    prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        plain = telling.execute_in_process(instance=instance)
        with kept_open(instance):
            kept = telling.execute_in_process(instance=instance)
            assert told(instance, kept.run_id) == told(instance, plain.run_id)
        assert not {"_connect", "has_table"} & set(vars(instance.event_log_storage))
        instance.add_dynamic_partitions("p", ["x"])
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert told(instance, kept.run_id) == told(instance, plain.run_id)
        made = instance.fetch_materializations(dg.AssetKey("table"), limit=10).records
        assert [(record.run_id, record.partition_key) for record in reversed(made)] == [
            (run_id, f"b{number}") for run_id in (plain.run_id, kept.run_id) for number in range(3)
        ]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_files_do_not_stay_open_for_every_run_that_was(tmp_path):
    prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance, kept_open(instance):
        counts = []
        for _ in range(OPEN_DATABASES + 4):
            telling.execute_in_process(instance=instance)
            counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] == counts[OPEN_DATABASES]


def test_the_log_is_as_before_after_an_error_and_other_storages_are_left_alone(tmp_path):
    prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        with pytest.raises(KeyError), kept_open(instance):
            raise KeyError
        assert not {"_connect", "has_table"} & set(vars(instance.event_log_storage))
    with dg.DagsterInstance.ephemeral() as instance, kept_open(instance):
        assert telling.execute_in_process(instance=instance).success
