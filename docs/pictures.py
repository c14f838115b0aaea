"""Makes the pictures of README.md from the reports of a demo workspace: python docs/pictures.py [WORKSPACE]

After `capeval demo`; needs Chromium. Each picture is a figure as the report draws it, in light colours.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from capeval_pipeline.reporting.index import page_name
from tests.e2e.browser import chromium_browser

FOLDER = Path(__file__).resolve().parent / "pictures"
PICTURES = {
    "clusters": ("support_desk", "plot-cluster-profiles"),
    "identification": ("circuit_quiz", "plot-identification-curves"),
    "frontier": ("support_desk", "plot-frontier"),
}
"""File name → benchmark and element of its page: an answer to each of the three questions."""
WIDTH = 860
MOST_BYTES = 150_000


def make_pictures(workspace: Path, folder: Path = FOLDER) -> list[Path]:
    """Write `<name>.png` for each of PICTURES. Raises FileNotFoundError where the demo's reports are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with chromium_browser() as browser:
        for name, (benchmark_id, element) in PICTURES.items():
            report = workspace.resolve() / "reports" / page_name(benchmark_id)
            if not report.exists():
                raise FileNotFoundError(f"{report}: missing; `capeval demo` writes it")
            page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-figures=drawn]", state="attached")
            path = folder / f"{name}.png"
            page.locator(f"#{element}").screenshot(path=str(path), animations="disabled")
            page.close()
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"{path}: {path.stat().st_size} bytes; expected at most {MOST_BYTES}")
            written.append(path)
    return written


if __name__ == "__main__":
    for made in make_pictures(Path(sys.argv[1] if len(sys.argv) > 1 else "data")):
        print(made)
