"""How long a large report (50 models, 60 clusters) takes to open in Chromium: `python -m benchmarks.report_opening`.

Printed: its size, and seconds from the navigation until every figure is drawn, the first time and again, by the clock
and of the page's own main thread, which other work on the machine does not lengthen.
"""

import tempfile
import time
from pathlib import Path

from capeval_pipeline.reporting.writing import write_pages
from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.browser import chromium_browser
from tests.reporting.published import QUIZ, publish

MODELS = [f"provider-{place % 7}/a-model-of-some-name-{place:02}" for place in range(50)]
N_CLUSTERS = 60


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_published(publish(folder / "capeval.duckdb", models=MODELS, n_clusters=N_CLUSTERS)) as connection:
            page_file = write_pages(connection, folder, [QUIZ])[0]
        print(f"{page_file.stat().st_size / 1e6:.2f} MB")
        with chromium_browser() as browser:
            page = browser.new_page()
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            for occasion in ("first", "again"):
                started = time.perf_counter()
                page.goto(page_file.as_uri())
                page.wait_for_selector("html[data-figures=drawn]", state="attached", timeout=60_000)
                wall = time.perf_counter() - started
                spent = {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}
                print(f"{occasion}: {wall:.2f} s until drawn, main thread {spent['TaskDuration']:.2f} s")


if __name__ == "__main__":
    main()
