"""The golden list of assets: a changed key is a decision, not an accident."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline.definitions import build_definitions
from capeval_pipeline.errors import UsageError
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.jobs import REFRESH_JOB
from capeval_pipeline.orchestration.records import asset_key
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage.tables import TABLES


@pytest.fixture(scope="module")
def definitions(tmp_path_factory) -> dg.Definitions:
    return build_definitions(Settings(data=tmp_path_factory.mktemp("workspace")))


def test_the_definitions_load(definitions):
    dg.Definitions.validate_loadable(definitions)


def test_every_table_of_the_contract_is_an_asset_and_every_asset_a_table(definitions):
    keys = {".".join(key.path) for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    expected = set(TABLES) | set(build_graph().project.models) | {"report.pages"}
    assert keys == expected


def test_assets_stand_in_the_groups_of_their_stages(definitions):
    graph = definitions.resolve_asset_graph()
    groups = {graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert groups == {"ingest", "derive", "capabilities", "identification", "frontier", "marts", "report", "studies"}


def test_every_asset_has_a_description_an_owner_and_a_kind(definitions):
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description, key
        assert node.owners, key
        assert node.kinds, key


def test_every_asset_names_its_code_and_its_columns(definitions):
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        metadata = graph.get(key).metadata
        (reference,) = metadata["dagster/code_references"].code_references
        lines = Path(reference.file_path).read_text(encoding="utf-8").splitlines()
        assert 1 <= reference.line_number <= len(lines), key
        if key.path[0] != "report":  # pages are files, not a table
            columns = metadata["dagster/column_schema"].columns
            assert columns and all(column.description for column in columns), key


def test_a_benchmark_needs_at_most_twenty_steps_and_sixty_checks(definitions):
    """An event of the log costs 10 ms."""
    steps = build_graph().steps
    plain = {asset_key(key) for step in steps if not step.is_long for key in step.outputs}
    checks = definitions.resolve_asset_graph().asset_check_keys
    assert len(steps) <= 20
    assert len([check for check in checks if check.asset_key in plain]) <= 60


WARNING_CHECKS = {
    ("raw.files", "files_were_read_whole"),
    ("raw.generations", "cells_have_scores"),
    ("raw.generations", "costs_are_plausible"),
    ("raw.models", "names_are_distinct"),
    ("estimates.strengths", "fits_settled"),
    ("estimates.ecc_fits", "fits_settled"),
    ("estimates.frontier_diagnostics", "one_figure_may_be_given"),
    ("report.pages", "pages_are_current"),
}
"""What a person should look at and what stops nothing."""


def test_every_table_of_a_benchmark_has_a_check_that_blocks_and_the_warnings_are_these(definitions):
    graph = definitions.resolve_asset_graph()
    blocking = {check for check in graph.asset_check_keys if graph.get(check).blocking}
    others = graph.asset_check_keys - blocking
    assert {(".".join(check.asset_key.path), check.name) for check in others} == WARNING_CHECKS
    made = {asset_key(key) for step in build_graph().steps for key in step.outputs}
    assert made <= {check.asset_key for check in blocking}
    assert {check.name for check in blocking} == {"fits_its_contract", "claims_hold"}


def test_marts_are_stale_after_the_days_in_the_settings(tmp_path):
    key = asset_key("marts.leaderboard")

    def windows(days: int) -> tuple[float, float] | None:
        graph = build_definitions(Settings(data=tmp_path, freshness_days=days)).resolve_asset_graph()
        policy = graph.get(key).freshness_policy
        return policy and (policy.fail_window.to_timedelta().days, policy.warn_window.to_timedelta().days)

    assert windows(4) == (4, 2)
    assert windows(0) is None


def test_schedules_run_when_the_settings_say(tmp_path):
    settings = Settings(data=tmp_path, nightly_cron="30 1 * * 1-5", weekly_cron="0 6 * * 6", time_zone="Asia/Kolkata")
    found = {
        schedule.name: (schedule.cron_schedule, schedule.execution_timezone)
        for schedule in build_definitions(settings).get_repository_def().schedule_defs
    }
    assert found == {
        "nightly_refresh_schedule": ("30 1 * * 1-5", "Asia/Kolkata"),
        "weekly_studies_schedule": ("0 6 * * 6", "Asia/Kolkata"),
    }


def test_steps_run_in_the_run_or_in_kubernetes_jobs(tmp_path, monkeypatch):
    pytest.importorskip("dagster_k8s", reason="the extra 'k8s' is not installed")
    settings = Settings(data=tmp_path, step_executor="k8s_job", n_workers=3)
    job = build_definitions(settings).resolve_job_def(REFRESH_JOB)
    assert job.executor_def.name == "k8s_job"
    assert build_definitions(Settings(data=tmp_path)).resolve_job_def(REFRESH_JOB).executor_def.name == "in_process"


def test_without_the_package_for_kubernetes_jobs_launched_runs_fail_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)  # importing it fails, as where the extra is not installed
    settings = Settings(data=tmp_path, step_executor="k8s_job")
    job = build_definitions(settings).resolve_job_def(REFRESH_JOB)
    (made,) = [job.executor_def.executor_creation_fn]
    with pytest.raises(UsageError, match="extra 'k8s'"):
        made(None)


def test_schedules_are_off_and_sensors_run_from_the_start(definitions):
    repository = definitions.get_repository_def()
    assert {schedule.default_status for schedule in repository.schedule_defs} == {dg.DefaultScheduleStatus.STOPPED}
    assert {schedule.name for schedule in repository.schedule_defs} == {
        "nightly_refresh_schedule", "weekly_studies_schedule"
    }  # fmt: skip
    assert {sensor.name for sensor in repository.sensor_defs} == {"follow_changes", "inbox"}
    assert {sensor.default_status for sensor in repository.sensor_defs} == {dg.DefaultSensorStatus.RUNNING}


def test_loading_the_definitions_imports_no_heavy_library():
    """They are loaded again by every run; compilers, arrays, figures and databases wait until a step needs them."""
    heavy = ("numba", "scipy", "sklearn", "plotly", "pandas", "numpy", "pyarrow", "duckdb", "deltalake", "sqlalchemy",
             "alembic")  # fmt: skip
    script = f"import sys, capeval_pipeline.definitions; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
