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

    def open_page(
        path: Path,
        *,
        at: str = "",
        width: int = 1100,
        scheme: str = "light",
        scripts: bool = True,
        before: str = "",
        until: str = "html[data-figures]",
    ) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked_for.append(request.url))
        if before:
            found.page.add_init_script(before)
        found.page.goto(path.as_uri() + at)
        if scripts and "generator" in path.read_text(encoding="utf-8") and path.name != "index.html":
            found.page.wait_for_selector(until, state="attached", timeout=60_000)
        return found

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (390, "light"), (390, "dark")])
def test_every_figure_is_drawn_quietly_and_without_the_network(visit, reports, tmp_path, width, scheme):
    seen = visit(reports[QUIZ], width=width, scheme=scheme)
    assert seen.page.evaluate("document.documentElement.dataset.figures") == "drawn"
    assert seen.page.locator(".plot .main-svg").count() >= N_FIGURES
    assert seen.page.locator(".plot[data-drawn=yes]").count() == N_FIGURES
    screenshot(seen.page, f"report-{scheme}-{width}", tmp_path)
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


# the browser is never idle until `window.pause()` lets one waiting callback go; it ends when the next one waits
NEVER_IDLE = """
    window.held = [];
    window.requestIdleCallback = (go) => window.held.push(go);
    window.pause = async () => {
        const go = window.held.shift();
        if (go) go();
        const isDone = () => window.held.length || document.documentElement.dataset.figures;
        while (!isDone()) await new Promise((done) => setTimeout(done, 10));
    };
"""
DRAWN = "[...document.querySelectorAll('.plot[data-drawn=yes] .main-svg')].map(s => s.closest('.plot').id)"
NAMES = "[...document.querySelectorAll('.plot')].map(plot => plot.id)"
IN_VIEW = """[...document.querySelectorAll('.plot')].filter(plot => {
    const { top, bottom } = plot.getBoundingClientRect();
    return top <= innerHeight && bottom >= 0;
}).map(plot => plot.id)"""


def drawn(page: Any) -> list[str]:
    return list(dict.fromkeys(page.evaluate(DRAWN)))


def test_what_is_in_view_is_drawn_first_and_the_rest_while_the_browser_is_idle(visit, reports):
    page = visit(reports[QUIZ], at="#pairs", before=NEVER_IDLE, until="html[data-view=drawn]").page
    names = page.evaluate(NAMES)
    in_view = page.evaluate(IN_VIEW)
    assert 1 <= len(in_view) < 4
    assert drawn(page) == in_view
    assert page.evaluate("document.documentElement.dataset.figures") is None
    for n_more in (1, 2):
        page.evaluate("window.pause()")
        assert len(drawn(page)) == len(in_view) + n_more
    # nearest first: what is drawn is one run of neighbours around the view
    assert "|".join(drawn(page)) in "|".join(names)


def test_a_figure_that_a_reader_jumps_to_is_the_next_to_be_drawn(visit, reports):
    page = visit(reports[QUIZ], before=NEVER_IDLE, until="html[data-view=drawn]").page
    first = drawn(page)
    target = page.evaluate(NAMES)[-1]
    page.locator(f"#{target}").scroll_into_view_if_needed()
    page.evaluate("window.pause()")
    assert set(page.evaluate(IN_VIEW)) <= set(drawn(page)) - set(first)
    assert len(drawn(page)) < N_FIGURES


def test_paper_shows_every_figure_though_the_browser_was_never_idle(visit, reports, tmp_path):
    page = visit(reports[QUIZ], before=NEVER_IDLE, until="html[data-view=drawn]").page
    assert len(drawn(page)) < N_FIGURES
    page.evaluate("addEventListener('beforeprint', () => { window.onPaper = " + DRAWN + "; })")
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert len(set(page.evaluate("window.onPaper"))) == N_FIGURES


def test_nothing_moves_when_figures_are_drawn(visit, reports):
    heights = "[...document.querySelectorAll('h2')].map(h => Math.round(h.getBoundingClientRect().top + scrollY))"
    for width in (1100, 390):
        page = visit(reports[QUIZ], width=width, before=NEVER_IDLE, until="html[data-view=drawn]").page
        before = page.evaluate(heights)
        while page.evaluate("document.documentElement.dataset.figures") is None:
            page.evaluate("window.pause()")
        assert page.evaluate(heights) == before


def test_after_a_change_of_theme_too_what_is_in_view_is_drawn_first(visit, reports):
    page = visit(reports[QUIZ], scheme="light").page
    page.evaluate(NEVER_IDLE)
    ink = "[...document.querySelectorAll('.plot')].map(plot => plot.layout.font.color)"
    light = page.evaluate(ink)[0]
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-view=drawn]:not([data-figures])", state="attached", timeout=20_000)
    n_in_view = len(page.evaluate(IN_VIEW))
    assert [colour != light for colour in page.evaluate(ink)] == [place < n_in_view for place in range(N_FIGURES)]


def test_of_the_kinds_of_traces_only_those_that_are_drawn_are_loaded(visit, reports):
    page = visit(reports[QUIZ]).page
    kinds = set(page.evaluate("Object.keys(Plotly.PlotSchema.get().traces)"))
    assert {"scatter", "bar", "heatmap"} <= kinds
    assert len(kinds) < 8


def test_a_figure_that_cannot_be_drawn_leaves_the_others(visit, reports, tmp_path):
    whole = reports[QUIZ].read_text(encoding="utf-8")
    path = tmp_path / "broken.html"
    start = whole.index('id="spec-win-rates">') + len('id="spec-win-rates">')
    path.write_text(whole[:start] + '{"data":[{"type":"scatter"}]}' + whole[whole.index("</script>", start) :])
    page = visit(path).page
    assert page.evaluate("document.documentElement.dataset.figures") == "failed"
    assert page.locator("#plot-win-rates").text_content().startswith("This browser cannot draw the figure")
    assert len(drawn(page)) == N_FIGURES - 1


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
