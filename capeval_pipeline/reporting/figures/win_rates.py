"""Win rates: how likely the model of a row beats the model of a column on an item where they differ."""

import math
from collections.abc import Sequence

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import is_unknown, number, percent
from capeval_pipeline.reporting.queries import Row


def win_rates(rows: Sequence[Row]) -> Figure | None:
    """Heat map of models against models, best first; "?" where a pair cannot be told apart. rows: queries.WIN_RATES."""
    if not rows:
        return None
    models = list(dict.fromkeys(row["row_model_id"] for row in rows))
    place = {model: index for index, model in enumerate(models)}
    reach = _reach(rows)
    rates: list[list[float | None]] = [[None] * len(models) for _ in models]
    marks = [[""] * len(models) for _ in models]
    hovers = [[""] * len(models) for _ in models]
    for row in rows:
        at, against = place[row["row_model_id"]], place[row["column_model_id"]]
        rates[at][against] = row["win_probability"]
        marks[at][against] = "?" if row["verdict"] == "cannot_tell" else ""
        hovers[at][against] = _hover(row)
    trace = {
        "type": "heatmap",
        "z": rates,
        "zmin": 0.5 - reach,
        "zmax": 0.5 + reach,
        "colorscale": [[0, "--low"], [0.5, "--middle"], [1, "--high"]],
        "hoverinfo": "text",
        "hovertext": hovers,
        "text": marks,
        "texttemplate": "%{text}",
        "textfont": {"size": 11 if len(models) <= 20 else 9, "color": spec.INK},
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "orientation": "h",
            "y": 1.0,
            "yanchor": "bottom",
            "thickness": 10,
            "len": 0.7,
            "x": 0,
            "xanchor": "left",
            "tickformat": ".0%",
            "tickvals": [0.5 - reach, 0.5, 0.5 + reach],
            "outlinewidth": 0,
            "title": {"text": "row beats column", "side": "top", "font": {"size": 12}},
        },
    }
    layout = spec.layout(
        230 + 22 * len(models),
        spec.names_axis(models, limit=18, tickangle=-60, side="bottom"),
        spec.names_axis(models, range=[len(models) - 0.5, -0.5]),
    )
    n_unclear = sum(row["verdict"] == "cannot_tell" for row in rows) // 2
    description = (
        "Probability that the model of a row beats the model of a column, "
        f"{counted(len(models), 'model')}, best first. {n_unclear} of "
        f"{counted(len(rows) // 2, 'pair')} cannot be told apart."
    )
    note = (
        "Win rates on items where the two differ, as the strengths give them; ? marks pairs that cannot be told apart. "
        f"{spec.left_out(len(models), rows[0]['n_models'])}"
    )
    return Figure([trace], layout, description, note.strip())


def _reach(rows: Sequence[Row]) -> float:
    """Half the range of the colours: the largest distance from 50 %, rounded up to tenths, so that differences show."""
    known = [abs(row["win_probability"] - 0.5) for row in rows if not is_unknown(row["win_probability"])]
    return min(0.5, max(1, math.ceil(10 * max(known, default=0.0) - 1e-9)) / 10)


def _hover(row: Row) -> str:
    verdicts = {"cannot_tell": "cannot be told apart", None: "no items in common"}
    told = verdicts.get(row["verdict"], f"a real difference, adjusted p = {number(row['p_adjusted'])}")
    rate = percent(row["win_probability"])
    chance = "not connected by comparisons" if is_unknown(row["win_probability"]) else f"wins {rate} where they differ"
    shared = row["n_shared_items"]
    items = "" if is_unknown(shared) else counted(shared, "shared item")
    return spec.hover(f"{row['row_model_id']} against {row['column_model_id']}", chance, told, items)
