"""A run with nothing stale asks the event log and the lake a fixed number of times, however many benchmarks there are.

Counted, not timed. Everything is told as made of the present inputs, code and settings; whatever would run, fails.
"""

import dagster as dg
import pyarrow as pa
import pytest

from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.assets.marts import inputs_hash, mart_keys, marts_code, published_keys
from capeval_pipeline.orchestration.graph import Request
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import NEVER, VersionRecord, asset_key, latest_records
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.conformity import conform
from capeval_pipeline.storage.tables import TABLES
from tests.orchestration.counting import counted


def tell(instance, key, partition, record):
    instance.report_runless_asset_event(
        dg.AssetMaterialization(asset_key(key), partition=partition, metadata=record.metadata())
    )


def fresh(data, instance, names):
    """A workspace in which everything of the named benchmarks is made of what is there, long evaluations apart."""
    workspace = Workspace(Settings(data=data))
    instance.add_dynamic_partitions(BENCHMARKS.name, names)
    contract = TABLES["raw.benchmarks"]
    for name in names:
        row = dict.fromkeys(contract.column_names) | {"benchmark_id": name, "name": name, "higher_is_better": True}
        rows = pa.Table.from_pylist([row], pa.schema([(column.name, column.type) for column in contract.columns]))
        workspace.lake.write(contract.key, name, conform(contract, rows, name))
    facts = workspace.benchmarks()
    steps = [step for step in build_graph().steps if not step.is_long]
    made = {key for step in steps for key in step.outputs}
    for name in names:
        for step in steps:
            inputs = {key: f"{key} of {name}" if key in made else NEVER for key in step.inputs}
            for key in step.outputs:
                configured = step.configured(workspace, facts[name])
                checks = dict.fromkeys(step.checks_of(key), (True, ""))
                record = VersionRecord(f"{key} of {name}", step.code_version, inputs, configured, checks=checks)
                tell(instance, key, name, record)
    workspace.settings.database.touch()
    graph = build_graph()
    inputs = inputs_hash(latest_records(instance, published_keys(graph.steps)))
    for key in mart_keys(graph.project):
        tell(instance, key, None, VersionRecord("v", marts_code(graph.project), inputs, ""))
    return workspace


def nothing_may_run(name):
    raise AssertionError(f"{name} was asked for though nothing is stale")


@pytest.fixture
def counts_of(tmp_path, monkeypatch):
    """Counts of a run over that many benchmarks in a workspace of their own."""
    monkeypatch.setattr(driver, "are_written", lambda *_: True)
    monkeypatch.setattr("capeval_pipeline.storage.warehouse.benchmarks_held_back", lambda _: ())

    def count(n_benchmarks):
        data = tmp_path / f"of_{n_benchmarks}"
        data.mkdir()
        names = [f"b{number:02}" for number in range(n_benchmarks)]
        driver.prepare_home(data / "dagster")
        with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
            fresh(data, instance, names)
            workspace = Workspace(Settings(data=data))  # as a new process opens it
            with counted(monkeypatch) as counts:
                report = driver.run(nothing_may_run, workspace, instance, [], Request())
        assert [run.benchmark_id for run in report.benchmarks] == names
        assert not any(run.ran for run in report.benchmarks)
        assert not report.is_published
        return counts

    return count


def test_a_run_with_nothing_stale_asks_as_often_for_one_benchmark_as_for_six(counts_of):
    one, six = counts_of(1), counts_of(6)
    assert one["statements"] > 0
    assert one["tables opened"] > 0
    assert six == one
    assert six["tables opened"] <= 2
    assert six["statements"] <= 60
