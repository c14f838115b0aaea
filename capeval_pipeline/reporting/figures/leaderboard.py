"""Leaderboard: mean score with its interval, models by rank, groups that cannot be told apart shaded."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, count, score
from capeval_pipeline.reporting.queries import Row


def leaderboard(rows: Sequence[Row]) -> Figure | None:
    """Dots with whiskers, best on top. rows: queries.LEADERBOARD."""
    if not rows:
        return None
    shown = rows[: spec.MAX_MODELS]
    values = [row["mean_score"] for row in shown]
    positions = list(range(len(shown)))
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": values,
        "y": positions,
        "marker": {"color": "--series-1", "size": 8},
        "error_x": spec.whiskers(
            values, [row["score_lower"] for row in shown], [row["score_upper"] for row in shown], "--series-1"
        ),
        "hoverinfo": "text",
        "hovertext": [_hover(row) for row in shown],
        "showlegend": False,
    }
    shapes, annotations = _tie_groups(shown)
    names = [row["model_id"] for row in shown]
    layout = spec.layout(
        90 + 22 * len(shown),
        spec.axis("mean score with 95 % interval"),
        spec.names_axis(names, range=[len(shown) - 0.4, -0.6]),
        shapes=shapes,
        annotations=annotations,
    )
    layout["margin"] = {"l": 8, "r": 52, "t": 22, "b": 8}
    best = shown[0]
    description = (
        f"Mean score of {len(shown)} models with 95 % intervals, best on top. {best['model_id']} leads with "
        f"{score(best['mean_score'])} ({between(best['score_lower'], best['score_upper'])})."
    )
    note = "Shaded groups: models that cannot be told from the group's first one. " + spec.left_out(
        len(shown), len(rows)
    )
    return Figure([trace], layout, description, note.strip())


def _hover(row: Row) -> str:
    ranks = f"rank {row['rank']}, could be {between(row['rank_lower'], row['rank_upper'], count)}"
    interval = between(row["score_lower"], row["score_upper"])
    return spec.hover(
        str(row["model_id"]), f"{score(row['mean_score'])} ({interval})", ranks, f"{count(row['n_items'])} items"
    )


def _tie_groups(shown: Sequence[Row]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every second group shaded, each named at the right edge, where no whisker comes."""
    shapes, annotations = [], []
    indexed = list(enumerate(shown))
    for number, (group, members) in enumerate(groupby(indexed, key=lambda entry: entry[1]["tie_group"])):
        places = [place for place, _ in members]
        if number % 2 == 0:
            shapes.append(
                {
                    "type": "rect",
                    "xref": "paper",
                    "x0": 0,
                    "x1": 1,
                    "y0": places[0] - 0.5,
                    "y1": places[-1] + 0.5,
                    "fillcolor": "--shade",
                    "line": {"width": 0},
                    "layer": "below",
                }
            )
        if group is not None:
            text = {
                "text": f"tie {group}" if len(places) > 1 else f"{group}",
                "font": {"size": 11, "color": spec.MUTED},
            }
            place = {"xref": "paper", "x": 1.0, "xanchor": "left", "y": places[0], "showarrow": False, "xshift": 4}
            annotations.append(text | place)
    return shapes, annotations
