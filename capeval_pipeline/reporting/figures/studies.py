"""What planted worlds say of the oracle's estimators: decay of the bias, errors by estimator, coverage, topic mixes."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.estimator_names import ESTIMATORS
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import DASHES, SERIES, SYMBOLS, Figure
from capeval_pipeline.reporting.numbers import between, is_unknown, percent, score
from capeval_pipeline.reporting.queries import Row

WORLDS = {
    "equal_means": "equal means",
    "heterogeneous": "heterogeneous",
    "near_01": "near 0 or 1",
    "correlated": "shared shock",
    "graded": "graded",
}


def bias_decay(rows: Sequence[Row]) -> Figure | None:
    """Bias of the naive oracle by draws, log axes; rows: queries.BIAS_DECAY. The world with most models is drawn."""
    if not rows:
        return None
    most = max(row["n_models"] for row in rows)
    drawn = [row for row in rows if row["n_models"] == most and row["bias"] > 0]
    traces = [
        _line(
            [row["n_generations"] for row in members],
            [row["bias"] for row in members],
            WORLDS.get(world, world),
            index,
            [
                f"{counted(row['n_generations'], 'draw')}: {score(row['bias'])} too high, "
                f"exponent {score(row['local_exponent'])}"
                for row in members
            ],
        )
        for index, (world, members) in enumerate(_by(drawn, "world").items())
    ]
    layout = spec.layout(
        380,
        _draws_axis(drawn),
        spec.axis("naive oracle minus true oracle, log axis", **spec.log_cost_ticks(row["bias"] for row in drawn)),
    )
    last = {world: members[-1] for world, members in _by(drawn, "world").items()}
    told = "; ".join(f"{WORLDS.get(world, world)} {score(row['bias'])}" for world, row in last.items())
    note = "Where all models are equal the bias halves with four times the draws; where they differ, with two."
    return Figure(traces, layout, f"Bias of the naive oracle of {most} models, at its last point: {told}.", note)


def debiaser_errors(rows: Sequence[Row]) -> Figure | None:
    """Root mean squared error of each estimator by world at the middle number of draws; rows: DEBIASER_COMPARISON."""
    if not rows:
        return None
    choices = sorted({row["n_generations"] for row in rows})
    draws = 5 if 5 in choices else choices[len(choices) // 2]
    drawn = [row for row in rows if row["n_generations"] == draws and not is_unknown(row["rmse"])]
    names = [name for name in ESTIMATORS if any(row["estimator"] == name for row in drawn)]
    place = {name: len(names) - 1 - index for index, name in enumerate(names)}
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [row["rmse"] for row in members],
            "y": [place[row["estimator"]] for row in members],
            "name": WORLDS.get(world, world),
            "marker": {"color": SERIES[index % len(SERIES)], "symbol": SYMBOLS[index % len(SYMBOLS)], "size": 10},
            "hoverinfo": "text",
            "hovertext": [
                spec.hover(
                    f"{ESTIMATORS[row['estimator']]}, {WORLDS.get(world, world)}",
                    f"error {score(row['rmse'])}, on average {score(row['bias'])}",
                )
                for row in members
            ],
        }
        for index, (world, members) in enumerate(_by(drawn, "world").items())
    ]
    layout = spec.layout(
        100 + 30 * len(names),
        spec.axis("root mean squared error of the oracle's quality", rangemode="tozero"),
        {**spec.names_axis([ESTIMATORS[name] for name in reversed(names)]), "range": [-0.5, len(names) - 0.5]},
    )
    return Figure(traces, layout, f"Error of every estimator in planted worlds with {draws} draws per cell.")


def interval_coverage(rows: Sequence[Row]) -> Figure | None:
    """Measured coverage of the answer's interval by draws, a line a world; rows: INTERVAL_COVERAGE."""
    drawn = [row for row in rows if row["interval"] == "oracle, these items"]
    if not drawn:
        return None
    traces = [
        _line(
            [row["n_generations"] for row in members],
            [row["coverage"] for row in members],
            world,
            index,
            [
                f"{counted(row['n_generations'], 'draw')}: {percent(row['coverage'])} of "
                f"{counted(row['n_seeds'], 'benchmark')} "
                f"({between(row['coverage_lower'], row['coverage_upper'], percent)})"
                for row in members
            ],
        )
        for index, (world, members) in enumerate(_by(drawn, "world").items())
    ]
    layout = spec.layout(
        360,
        _draws_axis(drawn),
        spec.axis("share of intervals that hold the truth", range=[0, 1.03], tickformat=".0%"),
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": 0.95,
                "y1": 0.95,
                "line": {"color": spec.MUTED, "dash": "dot"},
            }
        ],
    )
    least = min(drawn, key=lambda row: (row["coverage"], row["world"]))
    description = (
        f"Measured coverage of nominal 95 % intervals; the lowest is {percent(least['coverage'])} in the world "
        f"{least['world']} with {counted(least['n_generations'], 'draw')}."
    )
    limits = between(least["coverage_lower"], least["coverage_upper"], percent)
    note = (
        f"Dotted: the promised 95 %. A point is {counted(least['n_seeds'], 'benchmark')} of "
        f"{counted(least['n_items'], 'item')}, so the lowest may be anything from {limits}."
    )
    return Figure(traces, layout, description, note)


def topic_entropy(rows: Sequence[Row]) -> Figure | None:
    """Gap of the oracle over the best single model against the entropy of the topic mix; rows: TOPIC_ENTROPY."""
    if not rows:
        return None
    labels = {"one_labelling": "one benchmark's topics", "relabelled": "averaged over relabelled topics"}
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [row["entropy"] for row in members],
            "y": [row["oracle_gap"] for row in members],
            "name": labels.get(world, world),
            "marker": {"color": SERIES[index], "symbol": SYMBOLS[index], "size": 6},
            "hoverinfo": "text",
            "hovertext": [spec.hover(f"mix {row['mixture']}", f"gap {score(row['oracle_gap'])}") for row in members],
        }
        for index, (world, members) in enumerate(_by(rows, "world").items())
    ]
    layout = spec.layout(
        360, spec.axis("entropy of the topic mix, nats"), spec.axis("true oracle minus best single model")
    )
    note = (
        "The more even the topics, the more there is to gain by choosing; for one benchmark's topics only nearly, "
        "since the gap is concave in the mix but its peak can lie off the even one."
    )
    return Figure(traces, layout, "Gain of the oracle against the entropy of the topic mix.", note)


def _draws_axis(rows: Sequence[Row]) -> dict[str, Any]:
    ticks = spec.log_cost_ticks(row["n_generations"] for row in rows)
    return spec.axis("draws of each model per item, log axis", **ticks)


def _by(rows: Sequence[Row], column: str) -> dict[Any, list[Row]]:
    return {key: [row for row in rows if row[column] == key] for key in dict.fromkeys(row[column] for row in rows)}


def _line(x: Sequence[Any], y: Sequence[Any], name: str, index: int, told: Sequence[str]) -> dict[str, Any]:
    colour = SERIES[index % len(SERIES)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(x),
        "y": list(y),
        "name": name,
        "line": {"color": colour, "width": 2, "dash": DASHES[index % len(DASHES)]},
        "marker": {"color": colour, "size": 7},
        "hoverinfo": "text",
        "hovertext": [spec.hover(name, line) for line in told],
    }
