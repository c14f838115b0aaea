"""The golden list of assets: a changed key is a decision, not an accident."""

import subprocess
import sys

import dagster as dg
import pytest

from capeval_pipeline.definitions import build_definitions
from capeval_pipeline.orchestration.assets import build_graph
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


def test_a_benchmark_needs_at_most_twenty_steps_and_sixty_four_checks():
    steps = build_graph().steps
    n_checks = sum(1 + len(step.check_names.get(key, ())) for step in steps for key in step.outputs if not step.is_long)
    assert len(steps) <= 20
    assert n_checks <= 64


def test_schedules_are_off_and_sensors_run_from_the_start(definitions):
    repository = definitions.get_repository_def()
    assert {schedule.default_status for schedule in repository.schedule_defs} == {dg.DefaultScheduleStatus.STOPPED}
    assert {schedule.name for schedule in repository.schedule_defs} == {
        "nightly_refresh_schedule", "weekly_studies_schedule"
    }  # fmt: skip
    assert {sensor.name for sensor in repository.sensor_defs} == {"follow_changes", "inbox"}
    assert {sensor.default_status for sensor in repository.sensor_defs} == {dg.DefaultSensorStatus.RUNNING}


def test_loading_the_definitions_imports_no_heavy_library():
    """They are loaded again by every run; compilers, solvers and figures wait until a step needs them."""
    script = (
        "import sys, capeval_pipeline.definitions; "
        "print([name for name in ('numba', 'scipy', 'sklearn', 'plotly') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
