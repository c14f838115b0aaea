"""The capability frontier: what the best choice of model per item could reach at each cost, beside single models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, dollars, is_unknown, score
from capeval_pipeline.reporting.queries import Row

REFUSALS = {
    "bracket_only": "bracket only: no single figure",
    "upper_bound_only": "upper bound only: one draw shows no luck",
}


def frontier(curves: Sequence[Row], models: Sequence[Row], diagnostics: Sequence[Row]) -> Figure | None:
    """Quality against cost on a log axis.

    curves: queries.FRONTIER_CURVES; models: SINGLE_MODELS; diagnostics: FRONTIER_VERDICT (a refusal is written into
    the figure). None without any model or curve of known cost.
    """
    return _frontier(curves, models, diagnostics, "mean cost of an item, US dollars, log axis", "$")


def latency_frontier(curves: Sequence[Row], models: Sequence[Row], diagnostics: Sequence[Row]) -> Figure | None:
    """The same with the 95 % quantile of a cell's latency as its cost; curves: LATENCY_CURVES, LATENCY_MODELS."""
    return _frontier(curves, models, diagnostics, "mean over items of the 95 % quantile of latency, s, log axis", "")


def _frontier(
    curves: Sequence[Row], models: Sequence[Row], diagnostics: Sequence[Row], cost_title: str, prefix: str
) -> Figure | None:
    lines = {
        key: [row for row in curves if (row["routing"], row["estimator"]) == key and row["cost_usd"] > 0]
        for key in dict.fromkeys((row["routing"], row["estimator"]) for row in curves)
    }
    priced = [row for row in models if not is_unknown(row["cost_usd"]) and row["cost_usd"] > 0]
    if not any(lines.values()):
        return None
    headline = lines.get(("pre_hoc", "headline"), [])
    is_point = any(not is_unknown(row["quality"]) for row in headline)
    verdict = str(diagnostics[0]["verdict"]) if diagnostics else ""
    router = _first(lines, "cluster_router")
    told = Told(prefix)
    traces = [
        *_headline(headline, is_point, told),
        *_curve(lines.get(("pre_hoc", "naive"), []), "naive maximum (biased)", "--series-5", "dot", 2, told),
        *_curve(_first(lines, "constant"), "fixed mixture of models", "--muted", "solid", 1.2, told),
        *_router_band(router),
        *_curve(router, "router by clusters (test items)", "--series-3", "dashdot", 2.4, told),
        *_dots(priced, told),
    ]
    costs = [row["cost_usd"] for members in lines.values() for row in members] + [row["cost_usd"] for row in priced]
    layout = spec.layout(
        520,
        spec.axis(cost_title, **spec.log_cost_ticks(costs, prefix)),
        spec.axis("mean quality (0 to 1)", **_height(lines, priced)),
        annotations=[_refusal(verdict)] if verdict in REFUSALS else [],
    )
    description = _description(priced, headline, is_point, verdict, told)
    return Figure(traces, layout, description, _note(priced, models, verdict, has_router=bool(router)))


def _height(lines: dict[tuple[str, str], list[Row]], models: Sequence[Row]) -> dict[str, Any]:
    """Range of the quality axis: what is reached and the band's upper end, not its lower one far left, which is 0."""
    values = [row["quality"] for row in models]
    values += [row["quality"] for key, rows in lines.items() if key != ("pre_hoc", "headline") for row in rows]
    values += [row["upper"] for row in lines.get(("pre_hoc", "headline"), [])]
    known = [value for value in values if not is_unknown(value)]
    if not known:
        return {}
    low, high = min(known), max(known)
    margin = 0.06 * ((high - low) or 1.0)
    return {"range": [low - 2 * margin, high + margin]}


@dataclass(frozen=True)
class Told:
    """How a cost is written: in dollars, or in seconds where the prefix is empty."""

    prefix: str

    def cost(self, value: float) -> str:
        """A mean cost of an item in words."""
        return f"{dollars(value)} an item" if self.prefix else f"{value:.3g} s"


def _router_band(rows: Sequence[Row]) -> list[dict[str, Any]]:
    if not any(not is_unknown(row["lower"]) for row in rows):
        return []
    costs, lower, upper = ([row[name] for row in rows] for name in ("cost_usd", "lower", "upper"))
    return [spec.band(costs, lower, upper, "--series-3", "its 95 % band", showlegend=False)]


def _headline(rows: Sequence[Row], is_point: bool, told: Told) -> list[dict[str, Any]]:
    if not rows:
        return []
    costs = [row["cost_usd"] for row in rows]
    lower, upper = [row["lower"] for row in rows], [row["upper"] for row in rows]
    colour = "--series-1"
    name = "95 % band of the best choice" if is_point else "between these bounds"
    traces = []
    if any(not is_unknown(low) and not is_unknown(high) for low, high in zip(lower, upper, strict=True)):
        traces.append(spec.band(costs, lower, upper, colour, name))
    elif any(not is_unknown(high) for high in upper):
        traces.append(_line(costs, upper, "upper bound", colour, "dash", 2, rows, told))
    if is_point:
        quality = [row["quality"] for row in rows]
        traces.append(_line(costs, quality, "best choice per item, luck removed", colour, "solid", 2.6, rows, told))
    return traces


def _curve(rows: Sequence[Row], name: str, colour: str, dash: str, width: float, told: Told) -> list[dict[str, Any]]:
    if not any(not is_unknown(row["quality"]) for row in rows):
        return []
    costs, quality = [row["cost_usd"] for row in rows], [row["quality"] for row in rows]
    return [_line(costs, quality, name, colour, dash, width, rows, told)]


def _line(
    x: Sequence[Any],
    y: Sequence[Any],
    name: str,
    colour: str,
    dash: str,
    width: float,
    rows: Sequence[Row],
    told: Told,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "name": name,
        "line": {"color": colour, "width": width, "dash": dash},
        "hoverinfo": "text",
        "hovertext": [_hover(name, row, told) for row in rows],
    }


def _dots(models: Sequence[Row], told: Told) -> list[dict[str, Any]]:
    """Single models as dots, the best as a star; names stand beside dots that have room, all names on hover."""
    if not models:
        return []
    best = best_model(models)
    named = _with_room(models, best)
    costs = [row["cost_usd"] for row in models]
    others = [row for row in models if row is not best]

    def dots(rows: Sequence[Row], name: str, marker: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "markers+text",
            "x": [row["cost_usd"] for row in rows],
            "y": [row["quality"] for row in rows],
            "text": [spec.label(row["model_id"], 20) if row["model_id"] in named else "" for row in rows],
            "textposition": [_side(row["cost_usd"], costs) for row in rows],
            "textfont": {"size": 11, "color": spec.INK},
            "cliponaxis": False,
            "name": name,
            "marker": marker,
            "hoverinfo": "text",
            "hovertext": [_hover(str(row["model_id"]), row, told) for row in rows],
        }

    traces = [dots(others, "single models", {"color": "--series-2", "size": 8})] if others else []
    star = {"color": "--series-2", "size": 15, "symbol": "star", "line": {"color": spec.INK, "width": 1}}
    return [*traces, dots([best], "best single model", star)]


def _side(cost: float, costs: Sequence[float]) -> str:
    """Where the name of a dot stands, so that it stays inside the figure."""
    low, high = math.log10(min(costs)), math.log10(max(costs))
    place = (math.log10(cost) - low) / ((high - low) or 1.0)
    return "bottom right" if place < 0.25 else "bottom left" if place > 0.75 else "bottom center"


def best_model(models: Sequence[Row]) -> Row:
    """The model with the highest mean, ties to the cheaper."""
    return max(models, key=lambda row: (row["quality"], -row["cost_usd"]))


def _with_room(models: Sequence[Row], best: Row) -> set[str]:
    """Models whose names do not run into each other, the best first, then by quality; a coarse grid decides."""
    logs = [math.log10(row["cost_usd"]) for row in models]
    heights = [row["quality"] for row in models]
    width = (max(logs) - min(logs)) or 1.0
    height = (max(heights) - min(heights)) or 1.0
    placed: list[tuple[float, float]] = []
    named = set()
    for row in sorted(models, key=lambda row: (row is not best, -row["quality"], row["model_id"])):
        x, y = math.log10(row["cost_usd"]) / width, row["quality"] / height
        if all(abs(x - at) > 0.2 or abs(y - up) > 0.06 for at, up in placed):
            placed.append((x, y))
            named.add(row["model_id"])
    return named


def _first(lines: dict[tuple[str, str], list[Row]], routing: str) -> list[Row]:
    return next((members for (name, _), members in sorted(lines.items()) if name == routing), [])


def _refusal(verdict: str) -> dict[str, Any]:
    text = {"text": REFUSALS[verdict], "font": {"size": 13, "color": "--series-5"}, "showarrow": False}
    text |= {"bgcolor": "--paper"}
    return text | {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.02, "xanchor": "center", "yanchor": "bottom"}


def _hover(name: str, row: Row, told: Told) -> str:
    interval = between(row["lower"], row["upper"]) if "lower" in row else "–"
    value = score(row["quality"]) + (f" ({interval})" if interval != "–" else "")
    return spec.hover(name, told.cost(row["cost_usd"]), value)


def _description(priced: Sequence[Row], headline: Sequence[Row], is_point: bool, verdict: str, told: Told) -> str:
    parts = [
        f"Mean quality against mean cost of an item for {counted(len(priced), 'single model')} and "
        "for mixtures of them."
    ]
    if priced:
        best = best_model(priced)
        parts.append(
            f"Best single model: {best['model_id']}, {score(best['quality'])} at {told.cost(best['cost_usd'])}."
        )
    if verdict in REFUSALS:
        parts.append(f"For the best choice per item {REFUSALS[verdict]}.")
    elif is_point:
        last = [row for row in headline if not is_unknown(row["quality"])][-1]
        parts.append(
            f"The best choice per item reaches {score(last['quality'])} ({between(last['lower'], last['upper'])})."
        )
    return " ".join(parts)


def _note(priced: Sequence[Row], models: Sequence[Row], verdict: str, *, has_router: bool) -> str:
    note = "The naive maximum counts luck as skill. "
    if has_router:
        note += (
            "The router is drawn on test items only, all else on all items: the sentence above compares like items. "
        )
    n_free = len(models) - len(priced)
    if n_free > 0:
        note += f"A log axis has no place for cost 0 ({counted(n_free, 'model')}). "
    if verdict == "bracket_only":
        note += "The shaded region holds the answer; no curve inside it is claimed."
    elif verdict == "upper_bound_only":
        note += "The best choice per item lies below the dashed line; how far below, one draw cannot say."
    return note.strip()
