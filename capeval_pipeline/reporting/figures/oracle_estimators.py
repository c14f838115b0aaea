"""What each estimator makes of the best choice per item: one row each, the bracket behind them."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.reporting.estimator_names import ESTIMATORS
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.frontier import REFUSALS
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, is_unknown, score
from capeval_pipeline.reporting.queries import Row


def oracle_estimators(estimates: Sequence[Row], diagnostics: Sequence[Row]) -> Figure | None:
    """estimates: queries.ORACLE_ESTIMATES; diagnostics: FRONTIER_VERDICT, whose refusal is written into the figure.

    None with fewer than three estimators: with one draw a cell there is the naive one alone.
    """
    by_name = {row["estimator"]: row for row in estimates}
    names = [name for name in ESTIMATORS if name in by_name]
    valued = [name for name in names if not is_unknown(by_name[name]["value"])]
    if len(valued) < 3:
        return None
    rows = [by_name[name] for name in names]
    places = [len(names) - 1 - index for index in range(len(names))]
    low, high = by_name.get("cross_fit"), by_name.get("naive")
    traces: list[dict[str, Any]] = []
    if low and high:
        ends, floor = [low["value"], high["value"]], [-0.5, -0.5]
        traces.append(spec.band(ends, floor, [len(names) - 0.5] * 2, "--series-1", "bracket: cross-fit to naive"))
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [row["value"] for row in rows],
            "y": places,
            "name": "value with 95 % interval, items of this kind",
            "marker": {"size": 9, "color": "--series-2"},
            "error_x": spec.whiskers(
                [row["value"] for row in rows],
                [row["lower"] for row in rows],
                [row["upper"] for row in rows],
                "--series-2",
            ),
            "hoverinfo": "text",
            "hovertext": [
                spec.hover(ESTIMATORS[name], f"{score(row['value'])} ({between(row['lower'], row['upper'])})")
                for name, row in zip(names, rows, strict=True)
            ],
        }
    )
    answer = by_name.get("headline")
    if answer and is_unknown(answer["value"]) and not is_unknown(answer["lower"]):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [answer["lower"], answer["upper"]],
                "y": [len(names) - 1 - names.index("headline")] * 2,
                "name": "between these bounds",
                "line": {"color": "--series-1", "width": 4},
                "hoverinfo": "text",
                "hovertext": [spec.hover(ESTIMATORS["headline"], between(answer["lower"], answer["upper"]))] * 2,
            }
        )
    verdict = str(diagnostics[0]["verdict"]) if diagnostics else ""
    refused = _refused(by_name, names, verdict)
    layout = spec.layout(
        90 + 30 * len(names),
        spec.axis("mean quality of the best model per item"),
        {
            **spec.names_axis([ESTIMATORS[name] for name in reversed(names)]),
            "range": [-0.5, len(names) - 0.5],
        },
        annotations=refused,
    )
    description = "Best choice per item by estimator: " + "; ".join(
        f"{ESTIMATORS[name]} {score(by_name[name]['value'])}" for name in valued
    )
    note = (
        "Only the first row is the answer; the others show what it rests on. The shaded bracket holds it whatever the "
        "model."
    )
    return Figure(traces, layout, f"{description}.", note)


def _refused(by_name: dict[Any, Row], names: Sequence[str], verdict: str) -> list[dict[str, Any]]:
    """The refusal in the answer's row, where it has no value."""
    answer = by_name.get("headline")
    if answer is None or not is_unknown(answer["value"]) or verdict not in REFUSALS:
        return []
    text = {"text": REFUSALS[verdict], "font": {"size": 12, "color": "--series-5"}, "showarrow": False}
    middle = 0.5 * (answer["lower"] + answer["upper"]) if not is_unknown(answer["lower"]) else answer["upper"]
    return [text | {"x": middle, "y": len(names) - 1 - names.index("headline"), "xanchor": "center", "yshift": -11}]
