"""The services of `deploy/compose.yaml` as processes of this machine: the same commands, other ports and folders."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.conftest import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROGRAMS = Path(sys.executable).parent
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Team:
    """Running services; the web page's address."""

    url: str
    processes: Mapping[str, "subprocess.Popen[bytes]"]
    logs: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Answer of the page's GraphQL interface."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.loads(answer.read())
        assert "errors" not in found, found
        return found["data"]

    def wait(self, is_so, what: str) -> Any:
        """The first true answer; fails with the end of every log where a service ended or patience did."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := is_so()):
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                told = "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in self.logs.glob("*.log"))
                raise AssertionError(f"{what} did not happen; ended: {ended}\n{told}")
            time.sleep(0.5)
        return found


def is_listening(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


@contextmanager
def team(environment: Mapping[str, str], folder: Path) -> Iterator[Team]:
    """Start code location, page and daemon in the order in which they wait for each other; end all of them."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    ports = {"4000": str(free_port()), "3000": str(free_port())}
    found_in = yaml.safe_load((DEPLOY / "workspace.yaml").read_text(encoding="utf-8"))
    found_in["load_from"][0]["grpc_server"] |= {"host": "127.0.0.1", "port": int(ports["4000"])}
    (folder / "workspace.yaml").write_text(yaml.safe_dump(found_in), encoding="utf-8")
    replaced = {**ports, "0.0.0.0": "127.0.0.1", "/opt/capeval/deploy/workspace.yaml": str(folder / "workspace.yaml")}

    def words(command: list[str]) -> list[str]:
        return [str(PROGRAMS / command[0]), *(replaced.get(word, word) for word in command[1:])]

    processes: dict[str, subprocess.Popen[bytes]] = {}
    running = Team(f"http://127.0.0.1:{ports['3000']}", processes, folder)

    def start(name: str) -> None:
        with (folder / f"{name}.log").open("w") as log:
            processes[name] = subprocess.Popen(
                words(services[name]["command"]),
                env={**os.environ, **environment},
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_served() -> bool:
        try:
            with urllib.request.urlopen(f"{running.url}/server_info", timeout=5):
                return True
        except OSError:
            return False

    try:
        start("code")
        health = words(services["code"]["healthcheck"]["test"][1:])
        running.wait(lambda: is_listening(ports["4000"]), "the code location listens")
        checked = subprocess.run(health, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        start("webserver")
        start("daemon")
        running.wait(is_served, "the page is served")
        yield running
    finally:
        for process in processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
