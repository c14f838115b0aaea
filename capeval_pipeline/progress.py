"""How whoever works tells whoever watches what is being done."""

from typing import Protocol


class Progress(Protocol):
    """Told what is being done, a short phrase; where it is known, how much of the work is done, and of how much."""

    def __call__(self, doing: str, n_done: float = 0.0, n_all: float = 0.0, /) -> None: ...


def nothing_said(doing: str, n_done: float = 0.0, n_all: float = 0.0, /) -> None:
    """Where nobody watches."""
