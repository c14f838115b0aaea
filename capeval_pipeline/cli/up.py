"""`capeval up`: Dagster's web page and daemon on this workspace, until Ctrl-C."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation
from capeval_pipeline.errors import CapevalError

PATIENCE_SECONDS = 15.0
"""How long the two processes may take to end by themselves after Ctrl-C."""


def up(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web page.")] = 3000,
    host: Annotated[str, typer.Option(help="Address it listens on; 0.0.0.0 for other machines too.")] = "127.0.0.1",
) -> None:
    """Start the web page and the daemon (sensors, schedules) of this workspace; Ctrl-C ends both.

    Example: `capeval up --port 3001`
    """
    call = invocation(context)
    home = call.settings.dagster_home
    from capeval_pipeline.orchestration.driver import prepare_home
    from capeval_pipeline.orchestration.step_executors import KUBERNETES, kubernetes_executor

    if call.settings.step_executor == KUBERNETES:
        kubernetes_executor(call.settings)  # else the first run that is launched would say that the package is missing
    prepare_home(home)
    check_free(host, port)
    location = workspace_file()
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    web = [sys.executable, "-m", "dagster_webserver", "-w", str(location), "-h", host, "-p", str(port)]
    # the daemon is dagster's own command; run as a module, so that it is the one of this Python
    daemon = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(location)]
    typer.echo(f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port} shows workspace {call.settings.root}")
    typer.echo("the daemon runs beside it; Ctrl-C ends both")
    watch([web, daemon], environment, location.parent)


def workspace_file() -> Path:
    """The project's workspace.yaml, which names the one code location. Raises CapevalError where it is missing."""
    path = Path(__file__).resolve().parents[2] / "workspace.yaml"
    if not path.is_file():
        raise CapevalError(f"{path}: missing; run from a checkout of the project, which has a workspace.yaml")
    return path


def check_free(host: str, port: int) -> None:
    """Raises CapevalError if another process listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CapevalError(
                f"port {port} on {host} cannot be used: {error.strerror}; choose one with --port"
            ) from error


def watch(commands: Sequence[Sequence[str]], environment: dict[str, str], folder: Path) -> None:
    """Run commands side by side until one ends (an error) or this process is told to stop; then end all.

    Each gets a process group of its own: Ctrl-C reaches this process alone, which ends the others in order.
    Raises CapevalError if one ended by itself.
    """
    running: list[subprocess.Popen[bytes]] = []

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        for command in commands:
            running.append(subprocess.Popen(command, env=environment, cwd=folder, start_new_session=True))
        while all(process.poll() is None for process in running):
            time.sleep(0.2)
        ended = next(process for process in running if process.poll() is not None)
        name = commands[running.index(ended)][2]
        raise CapevalError(f"{name} ended by itself with code {ended.returncode}; its messages stand above")
    except KeyboardInterrupt:
        typer.echo("stopping")
    finally:
        signal.signal(signal.SIGTERM, before)
        end_all(running)


def end_all(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Interrupt each process group, wait, and kill what is left of it."""
    for process in processes:
        _signal_group(process, signal.SIGINT)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
