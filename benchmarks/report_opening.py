"""How long a large report (50 models, 60 clusters) takes to open in Chromium: `python -m benchmarks.report_opening`.

Opened at the heat map of clusters, its largest figure, as a link leads there: the top of the page has text alone.
Printed: its size, and of the first opening and one more, in seconds from the navigation: until the text is painted,
until every figure in view is drawn, and until all are; the longest time in which the page could not answer; and what
the page's own main thread computed, which other work on the machine does not lengthen.
"""

import tempfile
from pathlib import Path

from capeval_pipeline.reporting.writing import write_pages
from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.browser import chromium_browser
from tests.reporting.published import QUIZ, publish

MODELS = [f"provider-{place % 7}/a-model-of-some-name-{place:02}" for place in range(50)]
N_CLUSTERS = 60
# seconds since the navigation at which a state of the page was reached, and its tasks of 50 ms and more
CLOCK = """
    window.reached = {};
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration)))
        .observe({ type: "longtask", buffered: true });
    new MutationObserver(() => {
        for (const state of ["view", "figures"]) {
            if (document.documentElement.dataset[state]) {
                window.reached[state] ??= performance.now();
                window.reached[`${state}_figures`] ??= document.querySelectorAll(".plot[data-drawn]").length;
            }
        }
    }).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-view", "data-figures"] });
"""


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_published(publish(folder / "capeval.duckdb", models=MODELS, n_clusters=N_CLUSTERS)) as connection:
            page_file = write_pages(connection, folder, [QUIZ])[0]
        print(f"{page_file.stat().st_size / 1e6:.2f} MB")
        with chromium_browser() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.add_init_script(CLOCK)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            for occasion in ("first", "again"):
                page.goto(f"{page_file.as_uri()}#clusters")
                page.wait_for_selector("html[data-figures=drawn]", state="attached", timeout=60_000)
                page.wait_for_timeout(300)
                spent = {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}
                painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
                reached, tasks = page.evaluate("window.reached"), page.evaluate("window.tasks")
                print(
                    f"{occasion}: text painted {painted / 1000:.2f} s, {reached['view_figures']} of "
                    f"{reached['figures_figures']} figures, those in view, drawn {reached['view'] / 1000:.2f} s, all "
                    f"{reached['figures'] / 1000:.2f} s; longest task {max(tasks, default=0) / 1000:.2f} s, main "
                    f"thread {spent['TaskDuration']:.2f} s in all"
                )
                page.goto("about:blank")


if __name__ == "__main__":
    main()
