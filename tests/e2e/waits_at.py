"""The project as a code location whose runs stop at a place and wait there, until something is done to them.

WAITS_AT is the place, as dies_at.py names it; WAITING the file that appears once a run is there. Without them nothing
waits.
"""

import os
import time
from pathlib import Path

from capeval_pipeline.definitions import defs
from tests.e2e.dies_at import befall_at

__all__ = ["defs"]

PATIENCE_SECONDS = 600.0


def wait() -> None:
    Path(os.environ["WAITING"]).touch()
    time.sleep(PATIENCE_SECONDS)


if "WAITS_AT" in os.environ:
    befall_at(os.environ["WAITS_AT"], wait)
