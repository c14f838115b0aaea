"""The command in a process that ends itself with kill -9 at a given place: `python -m tests.e2e.dies_at PLACE words…`.

PLACE is `module:attribute` with `#n` for its n-th call, and `=text` for calls one of whose arguments is that text;
the process dies when the call has returned, with `<` in front before it is made. So a kill hits the same line of the
same work every time, which no timer does.
"""

import functools
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any


def die_at(place: str) -> None:
    """Replace the named function by one that kills the process."""
    befall_at(place, lambda: os.kill(os.getpid(), signal.SIGKILL))


def befall_at(place: str, befall: Callable[[], object]) -> None:
    """Replace the named function by one to which something happens."""
    found = re.fullmatch(
        r"(?P<before><?)(?P<module>[\w.]+):(?P<name>[\w.]+)(?:=(?P<text>[^#]+))?(?:#(?P<nth>\d+))?", place
    )
    assert found, place
    owner: Any = importlib.import_module(found["module"])
    *path, name = found["name"].split(".")
    for part in path:
        owner = getattr(owner, part)
    original, waits = getattr(owner, name), [int(found["nth"] or 1)]

    @functools.wraps(original)
    def befallen(*args: Any, **kwargs: Any) -> Any:
        if found["text"] is None or found["text"] in args:
            waits[0] -= 1
        is_there = waits[0] == 0 and (found["text"] is None or found["text"] in args)
        if is_there and found["before"]:
            befall()
        result = original(*args, **kwargs)
        if is_there and not found["before"]:
            befall()
        return result

    setattr(owner, name, befallen)


if __name__ == "__main__":
    die_at(sys.argv[1])
    sys.argv = ["capeval", *sys.argv[2:]]
    from capeval_pipeline.cli import main

    main()
