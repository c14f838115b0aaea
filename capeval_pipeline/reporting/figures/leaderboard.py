"""Leaderboard: mean score with its interval, models by rank, groups that cannot be told apart marked alike."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, count, score
from capeval_pipeline.reporting.queries import Row


def leaderboard(rows: Sequence[Row]) -> Figure | None:
    """Dots with whiskers, best on top; colour and shape tell the tie group. rows: queries.LEADERBOARD.

    A group need not be consecutive ranks: a model with few items can be tied with the best and stand below others
    that are not. So groups are told by marks, not by bands.
    """
    if not rows:
        return None
    shown = list(enumerate(rows[: spec.MAX_MODELS]))
    groups = sorted({row["tie_group"] for _, row in shown if row["tie_group"] is not None})
    traces = [_group([entry for entry in shown if entry[1]["tie_group"] == group], group) for group in groups]
    alone = [entry for entry in shown if entry[1]["tie_group"] is None]
    if alone:
        traces.append(_group(alone, None))
    names = [row["model_id"] for _, row in shown]
    layout = spec.layout(
        110 + 22 * len(shown),
        spec.axis("mean score with 95 % interval"),
        spec.names_axis(names, range=[len(shown) - 0.4, -0.6], showgrid=True, gridcolor=spec.GRID, griddash="dot"),
    )
    best = shown[0][1]
    description = (
        f"Mean score of {counted(len(shown), 'model')} with 95 % intervals, best on top. {best['model_id']} leads with "
        f"{score(best['mean_score'])} ({between(best['score_lower'], best['score_upper'])})."
    )
    note = "Models of a tie group cannot be told from the group's first one. " + spec.left_out(len(shown), len(rows))
    return Figure(traces, layout, description, note.strip())


def _group(members: Sequence[tuple[int, Row]], group: int | None) -> dict[str, Any]:
    place = 0 if group is None else group - 1
    colour = spec.SERIES[place % len(spec.SERIES)] if group is not None else spec.MUTED
    # shifted by one each time the colours begin again: group 9 has the colour of group 1 but not its shape
    symbol = spec.SYMBOLS[(place + place // len(spec.SERIES)) % len(spec.SYMBOLS)]
    values = [row["mean_score"] for _, row in members]
    lower, upper = [row["score_lower"] for _, row in members], [row["score_upper"] for _, row in members]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": values,
        "y": [at for at, _ in members],
        "name": "no group" if group is None else f"tie group {group}",
        "marker": {"color": colour, "size": 9, "symbol": symbol},
        "error_x": spec.whiskers(values, lower, upper, colour),
        "hoverinfo": "text",
        "hovertext": [_hover(row) for _, row in members],
        "showlegend": True,
    }


def _hover(row: Row) -> str:
    ranks = f"rank {row['rank']}, could be {between(row['rank_lower'], row['rank_upper'], count)}"
    interval = between(row["score_lower"], row["score_upper"])
    return spec.hover(
        str(row["model_id"]), f"{score(row['mean_score'])} ({interval})", ranks, counted(row["n_items"], "item")
    )
