"""What a figure is, and the parts that figures share: colours by name, labels that cannot be markup, axes.

Colours are names of CSS variables ("--series-1"); the page's script looks them up when it draws, so that one
specification serves light, dark and paper. Text from data goes through `label` or `hover`, because plotly reads its
labels as markup.
"""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from capeval_pipeline.reporting.numbers import is_unknown, shortened

INK, MUTED, GRID = "--ink", "--muted", "--grid"
SERIES = tuple(f"--series-{index}" for index in range(1, 9))
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MAX_MODELS = 40
"""More models than this on one axis cannot be read; the figure says how many it leaves out."""
ROOM_FOR_LABELS = {"automargin": True, "ticklabeloverflow": "allow"}
"""The margins grow until every label has room, so none need be looked for that reaches over the edge: measuring each
for that, at every change of a margin, is half of what drawing 60 clusters costs."""


@dataclass(frozen=True)
class Figure:
    """One figure: plotly traces and layout, height in pixels, a description for those who cannot see it.

    note: a sentence under the figure about what it leaves out or how to read it.
    """

    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    description: str
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The specification as plotly.js takes it."""
        return {"data": list(self.data), "layout": self.layout}


def label(text: Any, limit: int = 26) -> str:
    """A name from the data as a tick or legend label: shortened, and nothing in it is markup."""
    return html.escape(shortened(str(text), limit), quote=False)


def hover(*lines: str) -> str:
    """Hover text of several lines; nothing in them is markup, and long ones are shortened."""
    return "<br>".join(html.escape(shortened(line, 110), quote=False) for line in lines if line)


def layout(height: int, x_axis: dict[str, Any], y_axis: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Layout with the legend above the plot, where it pushes the plot down instead of covering it."""
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 13},
        "hoverlabel": {"align": "left", "bgcolor": "--paper", "bordercolor": MUTED, "font": {"color": INK, "size": 13}},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "xanchor": "left", "yanchor": "bottom", "font": {"size": 12}},
        "hovermode": "closest",
        "xaxis": x_axis,
        "yaxis": y_axis,
    }
    return base | more


def axis(title: str, **more: Any) -> dict[str, Any]:
    """A numeric axis with its title, quiet grid lines and room for its labels."""
    base: dict[str, Any] = {
        "title": {"text": title, "font": {"size": 12}, "standoff": 10},
        **ROOM_FOR_LABELS,
        "gridcolor": GRID,
        "linecolor": MUTED,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": MUTED,
    }
    return base | more


def names_axis(names: Sequence[str], *, limit: int = 26, **more: Any) -> dict[str, Any]:
    """An axis of names at 0, 1, …; numbered, so that names that look alike when shortened stay apart."""
    base: dict[str, Any] = {
        "tickvals": list(range(len(names))),
        "ticktext": [label(name, limit) for name in names],
        **ROOM_FOR_LABELS,
        "showgrid": False,
        "zeroline": False,
        "tickfont": {"size": 12},
    }
    return base | more


def log_cost_ticks(values: Iterable[Any], prefix: str = "") -> dict[str, Any]:
    """Ticks of a log axis at 1, 2 and 5 of each power of ten inside the range of the positive values.

    plotly's own show bare 2 and 5 between powers, which reads as two and five dollars.
    """
    positive = [value for value in values if not is_unknown(value) and value > 0]
    if not positive:
        return {"type": "log"}
    low, high = min(positive), max(positive)
    ticks = [
        digit * 10.0**power
        for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        for digit in (1, 2, 5)
        if low * 0.85 <= digit * 10.0**power <= high * 1.15
    ]
    if len(ticks) > 9:
        ticks = [tick for tick in ticks if f"{tick:e}"[0] == "1"]
    while len(ticks) > 9:
        ticks = ticks[::2]
    padding = max(0.04, 0.04 * math.log10(high / low))
    return {
        "type": "log",
        "range": [math.log10(low) - padding, math.log10(high) + padding],
        "tickvals": ticks,
        "ticktext": [_plain(tick, prefix) for tick in ticks],
    }


def band(
    x: Sequence[Any], lower: Sequence[Any], upper: Sequence[Any], colour: str, name: str, **more: Any
) -> dict[str, Any]:
    """A shaded region between two curves over x; points where a bound is unknown are left out."""
    whole = [
        (at, low, high)
        for at, low, high in zip(x, lower, upper, strict=True)
        if not is_unknown(low) and not is_unknown(high)
    ]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": [point[0] for point in whole] + [point[0] for point in reversed(whole)],
        "y": [point[1] for point in whole] + [point[2] for point in reversed(whole)],
        "fill": "toself",
        "fillcolor": f"{colour}-band",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "name": name,
    }
    return trace | more


def whiskers(values: Sequence[Any], lower: Sequence[Any], upper: Sequence[Any], colour: str) -> dict[str, Any]:
    """Error bars from values to their limits; an unknown limit has no whisker on that side."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_distance(value, bound) for value, bound in zip(values, upper, strict=True)],
        "arrayminus": [_distance(bound, value) for value, bound in zip(values, lower, strict=True)],
        "color": colour,
        "thickness": 1.6,
        "width": 3,
    }


def left_out(n_shown: int, n_all: int) -> str:
    """A sentence about models that are not in the figure; empty when all are."""
    return f"The first {n_shown} of {n_all} models are shown." if n_all > n_shown else ""


def _distance(low: Any, high: Any) -> float:
    return 0.0 if is_unknown(low) or is_unknown(high) else max(float(high) - float(low), 0.0)


def _plain(value: float, prefix: str) -> str:
    digits = max(0, -math.floor(math.log10(value) + 1e-9))
    return f"{prefix}{value:,.{digits}f}"
