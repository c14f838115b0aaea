"""The report in a real browser: every figure drawn, nothing said in the console, nothing asked of the network."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from capeval_pipeline.reporting.sections import SECTIONS
from capeval_pipeline.reporting.writing import write_pages
from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.browser import chromium_browser, screenshot
from tests.reporting.published import BARE, HOSTILE_MODEL, QUIZ, publish

pytestmark = pytest.mark.browser

N_FIGURES = sum(len(section.drawings) for section in SECTIONS)


@dataclass
class Visit:
    """A page that was opened, what it said and what it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    with open_published(publish(folder / "capeval.duckdb")) as connection:
        quiz, bare, *_, index = write_pages(connection, folder, [QUIZ, BARE])
    return {QUIZ: quiz, BARE: bare, "index": index}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with chromium_browser() as browser:
        yield browser


@pytest.fixture
def visit(chromium: Any) -> Iterator[Any]:
    contexts = []

    def open_page(path: Path, *, width: int = 1100, scheme: str = "light", scripts: bool = True) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked_for.append(request.url))
        found.page.goto(path.as_uri())
        if scripts and "generator" in path.read_text(encoding="utf-8") and path.name != "index.html":
            found.page.wait_for_selector("html[data-figures]", state="attached", timeout=60_000)
        return found

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (390, "light"), (390, "dark")])
def test_every_figure_is_drawn_quietly_and_without_the_network(visit, reports, tmp_path, width, scheme):
    seen = visit(reports[QUIZ], width=width, scheme=scheme)
    screenshot(seen.page, f"report-{scheme}-{width}", tmp_path)
    assert seen.page.evaluate("document.documentElement.dataset.figures") == "drawn"
    assert seen.page.locator(".plot .main-svg").count() >= N_FIGURES
    assert seen.page.locator(".plot[data-drawn=yes]").count() == N_FIGURES
    assert seen.said == []
    assert seen.asked_for == [reports[QUIZ].as_uri()]


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        (QUIZ, 1100, "light"),
        (QUIZ, 390, "dark"),
        (BARE, 1100, "dark"),
        ("index", 390, "light"),
        ("index", 1100, "dark"),
    ],
)
def test_nothing_keeps_people_out(visit, reports, name, width, scheme):
    """Contrast, headings, names, roles and the rest of the rules of axe-core: no violation of any weight."""
    from axe_playwright_python.sync_playwright import Axe

    page = visit(reports[name], width=width, scheme=scheme).page
    found = Axe().run(page).response
    told = [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]]
    assert told == []
    passed = {rule["id"] for rule in found["passes"]}
    assert {"color-contrast", "heading-order", "document-title", "html-has-lang"} <= passed


LARGE_MODELS = [f"provider-{place % 7}/a-model-of-some-name-{place:02}" for place in range(50)]


def test_fifty_models_and_sixty_clusters_open_at_once(visit, tmp_path):
    with open_published(publish(tmp_path / "capeval.duckdb", models=LARGE_MODELS, n_clusters=60)) as connection:
        path = write_pages(connection, tmp_path, [QUIZ])[0]
    assert path.stat().st_size < 3_000_000
    seen = visit(path)
    assert seen.page.evaluate("document.documentElement.dataset.figures") == "drawn"
    assert seen.page.locator(".plot[data-drawn=yes]").count() == N_FIGURES
    assert seen.said == []
    # the layout of 60 clusters: a heat map of 40 models, the table of all clusters
    assert seen.page.locator("section:has(#clusters) tbody tr").count() == 60
    assert seen.page.evaluate("document.querySelectorAll('*').length") < 25_000


def test_nothing_is_wider_than_a_phone(visit, reports):
    page = visit(reports[QUIZ], width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    widest = page.evaluate("Math.max(...[...document.querySelectorAll('.plot .main-svg')].map(s => s.clientWidth))")
    assert widest <= 390


def test_hostile_text_is_shown_and_does_nothing(visit, reports):
    page = visit(reports[QUIZ]).page
    assert page.evaluate("window.hacked") is None
    assert page.locator("th", has_text=HOSTILE_MODEL).count() >= 1
    assert page.locator(".plot b, .plot a").count() == 0


def test_a_script_that_got_in_would_not_be_run(visit, reports):
    seen = visit(reports[QUIZ])
    seen.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        " document.body.append(s); fetch('https://example.org/').catch(() => 0); }"
    )
    assert seen.page.evaluate("window.hacked") is None
    assert seen.asked_for == [reports[QUIZ].as_uri()]


def test_dark_and_light_differ_in_figures_and_follow_a_change(visit, reports):
    page = visit(reports[QUIZ], scheme="light").page
    colour = "getComputedStyle(document.querySelector('#plot-leaderboard .ytick text')).fill"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    # not wait_for_function: it evaluates text inside the page, which the page's policy forbids
    deadline = time.monotonic() + 20
    while page.evaluate(colour) == light:
        assert time.monotonic() < deadline, "the figures kept the light colours"
        page.wait_for_timeout(100)


def test_hover_shows_the_numbers_behind_a_dot(visit, reports):
    page = visit(reports[QUIZ]).page
    page.locator("#plot-leaderboard").scroll_into_view_if_needed()
    dot = page.locator("#plot-leaderboard .points path").first.bounding_box()
    page.mouse.move(dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2)
    page.wait_for_selector("#plot-leaderboard .hoverlayer .hovertext", timeout=10_000)
    assert "0.800 (0.750 to 0.840)" in page.locator("#plot-leaderboard .hoverlayer").text_content()


def test_the_sql_opens_with_the_keyboard(visit, reports):
    page = visit(reports[QUIZ]).page
    summary = page.locator("details.sql summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.sql[open] pre").first.is_visible()
    assert "from marts.leaderboard" in page.locator("details.sql[open] pre").first.text_content()


def test_the_page_prints(visit, reports, tmp_path):
    page = visit(reports[QUIZ], scheme="dark").page
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000


def test_without_scripts_the_tables_and_descriptions_are_there(visit, reports):
    page = visit(reports[QUIZ], scripts=False).page
    assert page.locator("table").count() > 8
    assert page.locator("#plot-leaderboard").get_attribute("aria-label").startswith("Mean score of 7 models")


def test_a_benchmark_with_nothing_computed_is_quiet_too(visit, reports):
    seen = visit(reports[BARE])
    assert seen.page.locator(".plot").count() == 0
    assert seen.page.locator(".nothing").count() > 5
    assert seen.said == []


def test_the_index_leads_to_every_report(visit, reports):
    seen = visit(reports["index"])
    seen.page.get_by_role("link", name=QUIZ).click()
    seen.page.wait_for_selector("html[data-figures=drawn]", state="attached", timeout=60_000)
    assert seen.page.locator("h1").text_content() == QUIZ
