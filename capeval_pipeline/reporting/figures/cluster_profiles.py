"""Capability profiles: in which cluster of items each model is stronger or weaker than it is overall."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, number, percent
from capeval_pipeline.reporting.queries import Row

READABLE = 16
"""More clusters than this leave no room for a rank in a cell, nor for their words under the figure."""


def cluster_profiles(rows: Sequence[Row]) -> Figure | None:
    """Heat map of models against clusters; cells hold the rank in the cluster. rows: queries.CLUSTER_PROFILES.

    None also where no model was compared in any cluster: all profiles are then the prior's.
    """
    if not any(row["is_compared"] for row in rows):
        return None
    models = list(dict.fromkeys(row["model_id"] for row in rows))
    clusters = list(dict.fromkeys(row["cluster_id"] for row in rows))
    heads = {row["cluster_id"]: row for row in rows}
    model_at = {model: index for index, model in enumerate(models)}
    cluster_at = {cluster: index for index, cluster in enumerate(clusters)}
    above: list[list[float | None]] = [[None] * len(clusters) for _ in models]
    ranks = [[""] * len(clusters) for _ in models]
    hovers = [[""] * len(clusters) for _ in models]
    for row in rows:
        at, cluster = model_at[row["model_id"]], cluster_at[row["cluster_id"]]
        if row["is_compared"]:
            above[at][cluster] = row["above_overall"]
            ranks[at][cluster] = str(row["rank_of_shown"])
        hovers[at][cluster] = _hover(row)
    is_readable = len(clusters) <= READABLE
    reach = max((abs(value) for line in above for value in line if value is not None), default=0.0) or 1.0
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": above,
        "zmin": -reach,
        "zmax": reach,
        "colorscale": [[0, "--low"], [0.5, "--middle"], [1, "--high"]],
        "hoverinfo": "text",
        "hovertext": hovers,
        "text": ranks,
        "texttemplate": "%{text}" if is_readable else "",
        "textfont": {"size": 11, "color": spec.INK},
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
            "tickformat": "+.1f",
            "nticks": 5,
            "outlinewidth": 0,
            "title": {"text": "strength here minus overall (logits)", "side": "top", "font": {"size": 12}},
        },
    }
    if is_readable:
        # to the left: the last name would else reach over the right edge, where it is not drawn
        x_axis = spec.names_axis([_name(heads[cluster]) for cluster in clusters], limit=20, tickangle=-40)
        cells = "Numbers are ranks in the cluster among the models shown; empty cells were never compared there."
    else:
        title = {"text": "cluster, by its number in the table", "font": {"size": 12}, "standoff": 10}
        x_axis = spec.names_axis([str(cluster) for cluster in clusters], tickangle=-90, title=title)
        cells = "Ranks in the clusters are on hover; empty cells were never compared there."
    layout = spec.layout(230 + 22 * len(models), x_axis, spec.names_axis(models, range=[len(models) - 0.5, -0.5]))
    description = (
        f"Strength of {counted(len(models), 'model')} in {counted(len(clusters), 'cluster')} of items, compared with "
        "their strength overall; models in the order of the leaderboard"
        + (", cells hold the rank in the cluster." if is_readable else ".")
    )
    note = f"{cells} Intervals (on hover) take the clusters as given, so they understate."
    return Figure([trace], layout, description, f"{note} {spec.left_out(len(models), rows[0]['n_models'])}".strip())


def _name(head: Row) -> str:
    label, plain = head["label"], f"cluster {head['cluster_id']}"
    return f"{head['cluster_id']} {label}" if label and label != plain else plain


def _hover(row: Row) -> str:
    head = f"{row['model_id']} in {_name(row)}"
    size = f"{percent(row['weight'])} of the items"
    if not row["is_compared"]:
        return spec.hover(head, size, "never compared in this cluster: unknown")
    strength = f"strength {number(row['strength'])} ({between(row['lower'], row['upper'], number)})"
    rank = f"rank {row['rank_of_shown']} in this cluster among the models shown"
    return spec.hover(
        head,
        size,
        strength,
        rank,
        f"overall {number(row['strength'] - row['above_overall'])}, rank {row['rank_overall']}",
    )
