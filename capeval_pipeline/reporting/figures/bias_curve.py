"""How much of the naive oracle is luck: its value by number of draws, the bracket, and what is left without luck."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, count, is_unknown, score
from capeval_pipeline.reporting.queries import Row


def bias_curve(curve: Sequence[Row], estimates: Sequence[Row]) -> Figure | None:
    """Naive oracle by draws, observed and forecast, with bracket and headline.

    curve: queries.BIAS_CURVE; estimates: queries.ORACLE_ESTIMATES. None with fewer than two observed points, since
    one point shows no decay.
    """
    observed = [row for row in curve if row["source"] == "observed" and not is_unknown(row["naive_value"])]
    forecast = [row for row in curve if row["source"] == "forecast" and not is_unknown(row["naive_value"])]
    if len(observed) < 2:
        return None
    by_name = {row["estimator"]: row for row in estimates}
    ends = [min(row["g"] for row in observed), max(row["g"] for row in [*observed, *forecast])]
    traces = [*_levels(by_name, ends), *_curve(observed, forecast)]
    layout = spec.layout(
        400,
        spec.axis(
            "draws of each model per item, log axis", **spec.log_cost_ticks(row["g"] for row in [*observed, *forecast])
        ),
        spec.axis("mean quality of the best model per item"),
    )
    headline = by_name.get("headline", {})
    description = (
        f"The naive oracle falls from {score(observed[0]['naive_value'])} with {counted(observed[0]['g'], 'draw')} to "
        f"{score(observed[-1]['naive_value'])} with {count(observed[-1]['g'])}. "
        f"With luck removed: {score(headline.get('value'))} "
        f"({between(headline.get('lower'), headline.get('upper'))})."
    )
    note = "If the curve still falls at its right end, more draws would bring the naive figure further down."
    return Figure(traces, layout, description, note)


def _levels(by_name: dict[Any, Row], ends: list[int]) -> list[dict[str, Any]]:
    traces = []
    headline = by_name.get("headline")
    if headline:
        bounds = [[headline[side]] * 2 for side in ("lower", "upper")]
        is_point = not is_unknown(headline["value"])
        name = "luck removed, 95 %" if is_point else "between these bounds (no single figure)"
        if not is_unknown(headline["lower"]) and not is_unknown(headline["upper"]):
            traces.append(spec.band(ends, bounds[0], bounds[1], "--series-1", name))
        if is_point:
            traces.append(_level(ends, headline["value"], "luck removed", "--series-1", "solid"))
    cross_fit = by_name.get("cross_fit")
    if cross_fit and not is_unknown(cross_fit["value"]):
        traces.append(_level(ends, cross_fit["value"], "cross-fit (a policy that exists)", "--series-3", "dashdot"))
    return traces


def _level(ends: list[int], value: float, name: str, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": [value, value],
        "name": name,
        "line": {"color": colour, "width": 2, "dash": dash},
        "hoverinfo": "text",
        "hovertext": [spec.hover(name, score(value))] * 2,
    }


def _curve(observed: Sequence[Row], forecast: Sequence[Row]) -> list[dict[str, Any]]:
    points = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [row["g"] for row in observed],
        "y": [row["naive_value"] for row in observed],
        "name": "naive maximum (biased), observed",
        "line": {"color": "--series-5", "width": 2},
        "marker": {"color": "--series-5", "size": 8},
        "hoverinfo": "text",
        "hovertext": [_hover("naive, observed", row) for row in observed],
    }
    if not forecast:
        return [points]
    last = observed[-1]
    beyond = [last, *[row for row in forecast if row["g"] > last["g"]]]
    dashed = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [row["g"] for row in beyond],
        "y": [row["naive_value"] for row in beyond],
        "name": "naive maximum, forecast",
        "line": {"color": "--series-5", "width": 1.6, "dash": "dot"},
        "marker": {"color": "--series-5", "size": 6, "symbol": "circle-open"},
        "hoverinfo": "text",
        "hovertext": [_hover("naive, forecast", row) for row in beyond],
    }
    return [points, dashed]


def _hover(name: str, row: Row) -> str:
    return spec.hover(name, f"{counted(row['g'], 'draw')}: {score(row['naive_value'])}")
