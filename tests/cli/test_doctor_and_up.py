"""doctor says what is set and what is broken; up ends what it started."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.cli import main
from capeval_pipeline.cli.up import check_free, watch, workspace_file
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.storage.lake import Lake, benchmark_key
from tests.reporting.published import publish


@pytest.fixture
def doctor(monkeypatch, capsys):
    """Run `capeval doctor --json` on a folder: (exit code, report)."""

    def call(folder: Path, *words: str) -> tuple[int, dict]:
        monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(folder), "doctor", "--json", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return call


def state_of(report: dict, what: str) -> str:
    return next(finding["state"] for finding in report["findings"] if finding["what"] == what)


def setting_of(report: dict, name: str) -> dict:
    return next(entry for entry in report["settings"] if entry["setting"] == name)


def test_up_says_at_once_that_the_package_for_kubernetes_jobs_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)  # importing it fails, as where the extra is not installed
    monkeypatch.setattr(sys.modules[watch.__module__], "watch", lambda *_: None)
    monkeypatch.setenv("CAPEVAL_STEP_EXECUTOR", "k8s_job")
    monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(tmp_path), "up"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "needs the extra 'k8s', which is not installed" in capsys.readouterr().err


def test_a_healthy_workspace_ends_with_zero(doctor, tmp_path):
    publish(tmp_path / "capeval.duckdb")
    code, report = doctor(tmp_path)
    assert code == 0
    assert state_of(report, "database") == "ok"
    assert report["versions"]["duckdb"]


def test_every_setting_says_where_it_comes_from(doctor, tmp_path, monkeypatch):
    (tmp_path / "capeval.toml").write_text("n_workers = 3\n[derive]\nseed = 5\n", encoding="utf-8")
    monkeypatch.setenv("CAPEVAL_MEMORY_LIMIT", "2GB")
    _, report = doctor(tmp_path)
    assert setting_of(report, "n_workers") == {"setting": "n_workers", "value": 3, "from": "capeval.toml"}
    assert setting_of(report, "memory_limit")["from"] == "environment CAPEVAL_MEMORY_LIMIT"
    assert setting_of(report, "time_zone")["from"] == "default"
    assert setting_of(report, "data")["from"] == "--data"
    assert state_of(report, "[derive]") == "ok"


@pytest.mark.parametrize("text", ["n_workers = 0", "no_such_setting = 1", "not toml at all ["])
def test_broken_settings_are_a_finding_and_code_one(doctor, tmp_path, text):
    (tmp_path / "capeval.toml").write_text(text, encoding="utf-8")
    code, report = doctor(tmp_path)
    assert code == 1
    assert state_of(report, "settings") == "broken"


def test_cleaning_deletes_old_files_that_nothing_names_and_only_when_asked(doctor, tmp_path):
    """The nightly run cleans too; whoever has no daemon asks for it. Files within log_retention_days stay."""
    lake = Lake(tmp_path / "lake")
    for number in (1, 2):
        lake.write("raw.benchmarks", "arc", pa.table({"benchmark_id": ["arc"], "version": [str(number)]}))
    parts = tmp_path / "lake" / "raw" / "benchmarks"
    stray = parts / f"benchmark_key={benchmark_key('arc')}" / "part-of-a-run-that-died.parquet"
    stray.write_bytes(b"nobody names this")
    os.utime(stray, (time.time() - 30 * 86_400,) * 2)

    _, report = doctor(tmp_path)
    assert stray.exists()
    assert state_of(report, "lake") == "ok"

    code, report = doctor(tmp_path, "--clean")
    assert code == 0
    cleaned = next(finding["sentence"] for finding in report["findings"] if finding["what"] == "cleaning")
    assert cleaned == "1 file of the lake deleted that nothing names any more"
    assert not stray.exists()
    assert len(list(parts.rglob("*.parquet"))) == 2, "the version before can still be looked back to"


def test_a_lake_that_cannot_be_read_is_broken(doctor, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPEVAL_LAKE_URI", "s3://nowhere/lake")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    code, report = doctor(tmp_path)
    assert code == 1
    assert state_of(report, "lake") == "broken"


def test_a_published_link_to_nothing_is_broken(doctor, tmp_path):
    (tmp_path / "capeval.duckdb").symlink_to("warehouse/gone.duckdb")
    code, report = doctor(tmp_path)
    assert code == 1
    assert state_of(report, "database") == "broken"


def test_a_published_file_that_is_no_database_is_broken(doctor, tmp_path):
    (tmp_path / "capeval.duckdb").write_bytes(b"not a database, but long enough to look at" * 200)
    code, report = doctor(tmp_path)
    assert code == 1
    assert state_of(report, "published") == "broken"


def test_a_port_in_use_is_told_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CapevalError, match="choose one with --port"):
            check_free("127.0.0.1", taken.getsockname()[1])


def test_the_workspace_file_names_the_one_code_location():
    assert "location_name: capeval_pipeline" in workspace_file().read_text(encoding="utf-8")


def test_a_process_that_ends_by_itself_ends_the_other_and_is_an_error(tmp_path):
    sleeper = "import os, time, pathlib; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    quitter = "import time; time.sleep(0.5); raise SystemExit(3)"
    commands = [[sys.executable, "-c", sleeper], [sys.executable, "-c", quitter]]
    with pytest.raises(CapevalError, match="code 3"):
        watch(commands, dict(os.environ), tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_interrupt_ends_both_and_is_no_error(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from capeval_pipeline.cli.up import watch; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's background job ignores it
        "child = 'import os, time, pathlib; pathlib.Path(str(os.getpid())).touch(); time.sleep(60)'; "
        "watch([[sys.executable, '-c', child]] * 2, dict(os.environ), Path(sys.argv[1]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2:
        assert time.monotonic() < deadline, "the two processes did not start"
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    parent.communicate(timeout=30)
    assert parent.returncode == 0
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
