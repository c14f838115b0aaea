"""Dagster's storage on a real PostgreSQL server, set up by the very file that `deploy/` ships."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline.orchestration import driver
from capeval_pipeline.orchestration.assets import build_graph
from capeval_pipeline.orchestration.event_log import kept_open
from capeval_pipeline.orchestration.records import latest_records
from capeval_pipeline.orchestration.run_processes import HOST_TAG, PROCESS_TAG, STARTED_TAG, end_dead_runs, process_tags
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import Settings
from tests.e2e.conftest import call_capeval
from tests.e2e.one_machine import BENCHMARKS, data_versions, on_one_machine
from tests.e2e.team import team

postgres_storage = pytest.importorskip("dagster_postgres", reason="the extra 'postgres' is not installed")

DEPLOYED = Path(__file__).resolve().parents[2] / "deploy" / "dagster.yaml"
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
pytestmark = pytest.mark.xdist_group("beyond_one_machine")


def as_whom() -> dict[str, object]:
    """Who runs the server: it refuses root, so root hands it to an account without rights."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    pytest.skip("the server refuses root, and there is neither an account 'postgres' nor 'nobody'")


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    """A server of its own on a free port, gone afterwards; gives the environment that `deploy/dagster.yaml` reads."""
    if not PROGRAMS:
        pytest.skip("no PostgreSQL under /usr/lib/postgresql (Debian: apt-get install postgresql)")
    programs, account = PROGRAMS[-1].parent, as_whom()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder = Path(tempfile.mkdtemp(prefix="capeval-postgres-"))  # pytest's own folders are closed to other accounts
    if account:
        os.chown(folder, account["user"], account["group"])
    files = folder / "files"

    def call(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False, **account)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        call(str(programs / "initdb"), "-D", str(files), "-U", "capeval", "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c max_connections=40"
        call(str(programs / "pg_ctl"), "-D", str(files), "-w", "-l", str(folder / "log"), "-o", options, "start")
        yield {
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": port,
            "DAGSTER_POSTGRES_USER": "capeval",
            "DAGSTER_POSTGRES_PASSWORD": "not asked for",
            "DAGSTER_POSTGRES_DB": "postgres",
        }
    finally:
        subprocess.run(
            [str(programs / "pg_ctl"), "-D", str(files), "-m", "immediate", "stop"],
            cwd=folder, capture_output=True, timeout=60, check=False, **account,
        )  # fmt: skip
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def workspace(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace whose Dagster instance is the team's."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "workspace" / "dagster"
    home.mkdir(parents=True)
    shutil.copy(DEPLOYED, home / "dagster.yaml")
    return Workspace(Settings(data=tmp_path / "workspace"))


def test_a_run_whose_process_is_gone_is_ended_and_one_of_another_machine_is_not(workspace):
    @dg.op(pool="scarce")
    def wait() -> None:
        pass

    @dg.job
    def waiting() -> None:
        wait()

    with driver.workspace_instance(workspace) as instance:
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        dead = {**process_tags(), PROCESS_TAG: gone.stdout.decode().strip(), STARTED_TAG: "1"}
        started = dg.DagsterRunStatus.STARTED
        killed = instance.create_run_for_job(waiting, tags=dead, status=started)
        alive = instance.create_run_for_job(waiting, tags=process_tags(), status=started)
        elsewhere = instance.create_run_for_job(waiting, tags={**dead, HOST_TAG: "elsewhere"}, status=started)
        log = instance.event_log_storage
        log.set_concurrency_slots("scarce", 1)
        log.claim_concurrency_slot("scarce", killed.run_id, "wait")
        assert log.get_concurrency_info("scarce").active_slot_count == 1

        assert end_dead_runs(instance) == 1
        assert log.get_concurrency_info("scarce").active_slot_count == 0
        status = {run.run_id: instance.get_run_by_id(run.run_id).status for run in (killed, alive, elsewhere)}
        assert status == {killed.run_id: dg.DagsterRunStatus.FAILURE, alive.run_id: started, elsewhere.run_id: started}


def test_events_written_while_the_log_is_kept_open_are_there(workspace):
    """Keeping files open is SQLite's business: here it must change nothing."""
    with driver.workspace_instance(workspace) as instance:
        assert isinstance(instance.event_log_storage, postgres_storage.PostgresEventLogStorage)
        before = dict(vars(instance.event_log_storage))
        with kept_open(instance):
            assert vars(instance.event_log_storage) == before
            instance.report_runless_asset_event(dg.AssetMaterialization(["raw", "kept"], metadata={"n": 3}))
        (event,) = instance.fetch_materializations(dg.AssetKey(["raw", "kept"]), limit=5).records
        assert event.asset_materialization.metadata["n"].value == 3


BACKFILL = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATUS = """query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"""


@pytest.mark.slow
def test_a_backfill_from_the_page_and_a_run_from_the_shell_make_what_one_machine_makes(
    workspace, tmp_path, tmp_path_factory
):
    """The team's services on PostgreSQL: one benchmark is backfilled from the page, the others run in the shell.

    The shell finds from what PostgreSQL remembers that the first needs nothing, and a second run that nothing does.
    """
    reference = on_one_machine(tmp_path_factory.getbasetemp())
    data = workspace.settings.root
    call_capeval("ingest", str(reference.files), data=data)
    steps = [step for step in build_graph().steps if step.stage != "ingest" and not step.is_long]
    keys = sorted({key for step in steps for key in step.outputs})
    environment = {"CAPEVAL_DATA": str(data), "DAGSTER_HOME": str(workspace.settings.dagster_home)}
    with team(environment, tmp_path) as services:
        params = {"assetSelection": [{"path": key.split(".")} for key in keys], "partitionNames": [BENCHMARKS[0]]}
        launched = services.ask(BACKFILL, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched

        def ended() -> str:
            found = services.ask(STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]
            return found if found.startswith(("COMPLETED", "FAILED", "CANCELED")) else ""

        assert services.wait(ended, "the backfill ends") == "COMPLETED_SUCCESS"
    with driver.workspace_instance(workspace) as instance:
        made = latest_records(instance, keys)
    assert {partition for _, partition in made} == {BENCHMARKS[0]}

    done = call_capeval("run", data=data).stdout
    assert f"skipped {BENCHMARKS[0]}:" in done
    assert all(f"{name}: " in done for name in BENCHMARKS[1:])
    again = call_capeval("run", data=data).stdout
    assert f"skipped {', '.join(BENCHMARKS)}" in again
    assert "nothing to publish" in again
    assert not list((data / "dagster").rglob("*.db")), "history must not be kept on disk as well"
    assert data_versions(data) == reference.data_versions
