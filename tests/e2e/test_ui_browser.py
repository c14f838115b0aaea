"""The Dagster UI as a person meets it: `capeval up`, the graph, one benchmark materialized by clicking, what it left.

One workspace, one server, one browser page after the other; nothing but the server is asked for anything.
"""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from capeval_pipeline.reporting.index import page_name
from capeval_pipeline.storage.lake import Lake
from tests.e2e.browser import chromium_browser, screenshot
from tests.e2e.conftest import COMMAND, call_capeval, free_port, write_benchmark

pytestmark = pytest.mark.browser

PATIENCE = 90_000
"""Milliseconds a thing on the page may take; a run starts a process, and a busy machine does that slowly."""
STRENGTHS = "/assets/estimates/strengths"
MODELS = ["lab/alder", "lab/birch", "lab/cedar"]
PLOTS_ARE_DRAWN = """() => {
    const isDrawn = canvas => canvas.getContext('2d')
        .getImageData(0, 0, canvas.width, canvas.height).data.some((value, place) => place % 4 === 3 && value > 0);
    const plots = [...document.querySelectorAll('canvas')];
    return plots.length > 3 && plots.every(isDrawn);
}"""


@dataclass
class Ui:
    """A running UI and every address its pages asked for."""

    address: str
    data: Path
    context: Any
    screenshots: Path
    asked_for: list[str] = field(default_factory=list)

    def open(self, path: str) -> Any:
        """A new page at a path of the UI; pages opened before are closed."""
        for page in self.context.pages:
            page.close()
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.asked_for.append(request.url))
        page.goto(self.address + path, wait_until="domcontentloaded")
        return page

    def keep(self, page: Any, name: str) -> None:
        screenshot(page, f"ui-{name}", self.screenshots)


def wait_until_served(address: str, server: "subprocess.Popen[str]", log: Path) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert server.poll() is None, f"capeval up ended with {server.returncode}\n{log.read_text()}"
            assert time.monotonic() < deadline, f"capeval up serves nothing\n{log.read_text()}"
            time.sleep(0.3)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """`capeval up` on a workspace whose derived tables are made and whose strengths are not."""
    root = tmp_path_factory.mktemp("ui")
    data, address, log = root / "workspace", f"http://127.0.0.1:{free_port()}", root / "up.log"
    call_capeval("ingest", str(write_benchmark(root / "desk", MODELS, n_items=40)), data=data)
    call_capeval("run", "--only", "derive", data=data)
    with log.open("w") as written:
        server = subprocess.Popen(
            [COMMAND, "up", "--port", address.rpartition(":")[2]],
            env={**os.environ, "CAPEVAL_DATA": str(data)},
            stdout=written,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        wait_until_served(address, server, log)
        with chromium_browser() as browser:
            context = browser.new_context(viewport={"width": 1400, "height": 1600})
            yield Ui(address, data, context, root / "screenshots")
            context.close()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def runs_by_hand(ui: Ui) -> list[str]:
    """Ids of the runs that were launched from the page, the newest first."""
    asked = json.dumps({"query": "{ runsOrError { ... on Runs { results { runId tags { key value } } } } }"})
    request = urllib.request.Request(f"{ui.address}/graphql", asked.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)["data"]["runsOrError"]["results"]
    return [run["runId"] for run in found if {"key": "dagster/from_ui", "value": "true"} in run["tags"]]


def materialize(ui: Ui) -> None:
    """Make the strengths of the one benchmark by clicking, and wait for the run on its own page."""
    before = runs_by_hand(ui)
    page = ui.open(STRENGTHS)
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_role("button", name="Confirm").click()  # the step makes two more tables
    page.get_by_text("All", exact=True).click()
    page.get_by_role("button", name="Launch 1 run").click()
    page.get_by_text("Launched run").first.wait_for()
    (run_id,) = set(runs_by_hand(ui)) - set(before)
    page = ui.open(f"/runs/{run_id}")
    page.get_by_text("Success", exact=True).first.wait_for()
    ui.keep(page, "run")


@pytest.fixture(scope="module")
def made(ui: Ui) -> Ui:
    """The UI after the strengths were materialized twice; the second time nothing had changed."""
    materialize(ui)
    materialize(ui)
    return ui


def test_the_graph_shows_every_stage(ui):
    page = ui.open("/asset-groups")
    for stage in ("ingest", "derive", "capabilities", "identification", "frontier", "marts", "report", "studies"):
        page.get_by_text(stage, exact=True).first.wait_for()
    ui.keep(page, "graph")


def test_a_page_nobody_has_materialized_says_what_the_table_is(ui):
    page = ui.open("/assets/simulations/identification_curves")
    page.get_by_text("Never materialized").first.wait_for()
    page.get_by_text("pull_budget", exact=True).first.wait_for()


def test_the_page_of_a_benchmark_is_useful_alone(made):
    page = made.open(f"{STRENGTHS}?view=partitions&partition=desk")
    page.get_by_text("first rows").first.wait_for()
    (said,) = Lake(str(made.data / "lake")).read("verdicts.strengths", "desk").to_pylist()
    sentence = said["sentence"]
    page.get_by_text(sentence, exact=True).first.wait_for()
    for model in MODELS:
        page.get_by_role("cell", name=model, exact=True).first.wait_for()
    page.get_by_text("select * from estimates.strengths where benchmark_id = 'desk' limit 100").first.wait_for()
    page.get_by_text(str(made.data / "reports" / page_name("desk"))).first.wait_for()
    top = page.get_by_text(sentence, exact=True).first.bounding_box()
    record = page.get_by_text("capeval/record", exact=True).first.bounding_box()
    assert top["y"] < record["y"], "what a person reads stands above what the program keeps"
    made.keep(page, "benchmark")


def test_a_check_is_a_sentence_and_says_what_it_found(made):
    page = made.open(f"{STRENGTHS}?view=checks")
    page.get_by_text("fits_its_contract").first.wait_for()
    page.get_by_text("Columns, types, keys and grain are as the table's contract declares them.").first.wait_for()
    page.get_by_text("3 rows; columns, types, keys and grain are as declared.").first.wait_for()
    page.get_by_text("Succeeded").first.wait_for()
    made.keep(page, "check")


def test_numbers_are_plotted_over_time(made):
    page = made.open(STRENGTHS)
    page.get_by_text("Plots", exact=True).first.click()
    page.get_by_text("Events", exact=True).last.click()
    page.get_by_text("n_tied_with_best", exact=True).first.wait_for()
    page.locator("canvas").first.wait_for()
    page.wait_for_function(PLOTS_ARE_DRAWN)
    made.keep(page, "plots")


def test_nothing_but_the_server_is_asked_for_anything(made):
    hosts = {urlsplit(url).netloc for url in made.asked_for if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(made.address).netloc}
