"""Chromium for tests: how it is started, and where screenshots are kept."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = "CAPEVAL_SCREENSHOTS"


@contextmanager
def chromium_browser() -> Iterator[Any]:
    """A headless browser; without Chromium the test is skipped and says how to get it."""
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def screenshot(page: Any, name: str, folder: Path) -> None:
    """Keep what the page shows as `<name>.png` in the folder the variable SCREENSHOTS names, else in `folder`."""
    kept = Path(os.environ.get(SCREENSHOTS) or folder)
    kept.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(kept / f"{name}.png"), full_page=True)
