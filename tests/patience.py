"""A guard against waiting for ever: what must come to an end is given up with a sentence, not with a hanging suite."""

import threading
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 180


def ended(what: Callable[[], Any]) -> Any:
    """What a function returns or raises; fails the test if it has done neither after PATIENCE_SECONDS."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.extend((True, what()))
        except BaseException as error:
            found.extend((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert found, f"it has not come to an end in {PATIENCE_SECONDS} seconds: it waits for ever"
    is_well, outcome = found
    if not is_well:
        raise outcome
    return outcome
