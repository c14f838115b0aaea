"""Costs, times and tokens that are no amounts: unknown, as if nothing stood there, but not in silence."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from capeval_pipeline.counting import counted
from capeval_pipeline.formats import cells
from capeval_pipeline.formats.protocol import Note
from capeval_pipeline.formats.refusals import message, shown
from capeval_pipeline.formats.tabular import Batch


class UnusableAmounts:
    """Counts, column by column through a file, what stands where an amount belongs and is none."""

    def __init__(self, path: Path, place_format: str) -> None:
        self._path, self._place_format = path, place_format
        self._found: dict[str, tuple[int, str]] = {}

    def without(self, name: str, batch: Batch, column: pa.Array | pa.ChunkedArray, amounts: cells.Amounts) -> pa.Array:
        """The usable amounts of a column, NULL where there is none; the others are counted under its name."""
        unusable = np.flatnonzero(amounts.is_unusable)
        if len(unusable):
            n_before, example = self._found.get(name, (0, ""))
            first = int(unusable[0])
            place = self._place_format.format(batch.places[first].as_py())
            self._found[name] = (n_before + len(unusable), example or f"{_cell(column, first)} at {place}")
        return amounts.values

    def notes(self) -> list[Note]:
        """A warning a column."""
        notes: list[Note] = []
        for name, (n_cells, example) in self._found.items():
            where = f"column {name}"
            found = f"{example} is no amount" + (f", nor {counted(n_cells - 1, 'other cell')}" if n_cells > 1 else "")
            text = message(self._path.name, where, found, "plain numbers", "What is none is unknown.")
            notes.append((None, "warning", where, "amount_unusable", text))
        return notes


def _cell(column: pa.Array | pa.ChunkedArray, index: int) -> str:
    """A cell as messages show it; Python has no word for a time outside of its calendar."""
    try:
        return shown(column[index].as_py())
    except (OverflowError, ValueError):
        return "a time of no calendar"
