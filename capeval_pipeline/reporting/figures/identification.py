"""Identification: how often each policy names a best model after so many calls, and how wide its intervals are."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, count, is_unknown, percent, score
from capeval_pipeline.reporting.queries import Row

POLICIES = {
    "pulse": "PULSE",
    "ucb_e": "UCB-E",
    "uniform": "uniform",
    "race": "race (certified)",
    "successive_rejects_shared": "successive rejects",
    "naive_pooling": "naive pooling (biased)",
    "paper_literal": "paper, literally",
    "pulse_shared_order": "PULSE, shared order",
    "pulse_active": "PULSE, active",
}
INTERVALS = {
    "betting": "betting",
    "empirical_bernstein": "empirical Bernstein",
    "freedman_plugin": "Freedman, plug-in",
    "freedman_oracle": "Freedman, true variance",
}


def policy_name(policy: str) -> str:
    """A policy in words."""
    return POLICIES.get(policy, policy)


def identification_curves(rows: Sequence[Row]) -> Figure | None:
    """Accuracy against calls on a log axis, every policy with its band. rows: queries.IDENTIFICATION_CURVES."""
    kept = [row for row in rows if not is_unknown(row["accuracy"])]
    if not kept:
        return None
    by_policy = {policy: list(members) for policy, members in groupby(kept, key=lambda row: row["policy"])}
    order = sorted(by_policy, key=lambda policy: [*POLICIES, policy].index(policy))
    bands, lines = [], []
    # Nine full bands on top of each other are one dark block.
    opacity = 1.0 if len(order) <= 4 else 0.5
    for index, policy in enumerate(order):
        members = by_policy[policy]
        colour = spec.SERIES[index % len(spec.SERIES)]
        calls = [row["pull_budget"] for row in members]
        lower, upper = [row["lower"] for row in members], [row["upper"] for row in members]
        name = spec.label(policy_name(policy))
        band = spec.band(calls, lower, upper, colour, name, legendgroup=policy, showlegend=False, opacity=opacity)
        bands.append(band)
        lines.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": calls,
                "y": [row["accuracy"] for row in members],
                "name": name,
                "legendgroup": policy,
                "line": {"color": colour, "width": 2.2, "dash": spec.DASHES[index % len(spec.DASHES)]},
                "marker": {"color": colour, "size": 5, "symbol": spec.SYMBOLS[index % len(spec.SYMBOLS)]},
                "hoverinfo": "text",
                "hovertext": [_hover(row) for row in members],
            }
        )
    targets = [row["target_accuracy"] for row in kept if not is_unknown(row["target_accuracy"])]
    layout = spec.layout(
        460,
        spec.axis("scored answers (calls), log axis", **spec.log_cost_ticks(row["pull_budget"] for row in kept)),
        spec.axis("names a best model, share of replays", tickformat=".0%", range=[-0.02, 1.03]),
        shapes=[_target(targets[0])] if targets else [],
        annotations=[_target_label(targets[0])] if targets else [],
    )
    reached = {row["policy"]: row["pulls_for_target"] for row in kept if not is_unknown(row["pulls_for_target"])}
    told = ", ".join(f"{policy_name(policy)} {count(reached[policy])}" for policy in order if policy in reached)
    description = (
        "Share of replays that name a best model against calls spent, "
        f"{'1 policy' if len(order) == 1 else f'{len(order)} policies'}."
        + (f" Calls until {percent(targets[0])}: {told}." if told and targets else "")
    )
    note = "Bands: 95 % for the number of replays. Click a name in the legend to hide it."
    if "race" in by_policy:
        note += " The race asks all survivors alike until one is proved best: it buys a proof, not an early guess."
    return Figure([*bands, *lines], layout, description, note)


def interval_widths(rows: Sequence[Row]) -> Figure | None:
    """Mean width of PULSE's intervals (else of the first policy's) by answers. rows: IDENTIFICATION_INTERVALS."""
    kept = [row for row in rows if not is_unknown(row["mean_width"])]
    if not kept:
        return None
    policies = list(dict.fromkeys(row["policy"] for row in kept))
    policy = "pulse" if "pulse" in policies else policies[0]
    traces = []
    members_of = {
        name: list(members)
        for name, members in groupby(
            [row for row in kept if row["policy"] == policy], key=lambda row: str(row["interval"])
        )
    }
    for index, (interval, members) in enumerate(members_of.items()):
        colour = spec.SERIES[index % len(spec.SERIES)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [row["n_answers"] for row in members],
                "y": [row["mean_width"] for row in members],
                "name": spec.label(INTERVALS.get(interval, interval)),
                "line": {"color": colour, "width": 2.2, "dash": spec.DASHES[index % len(spec.DASHES)]},
                "marker": {"color": colour, "size": 6, "symbol": spec.SYMBOLS[index % len(spec.SYMBOLS)]},
                "hoverinfo": "text",
                "hovertext": [
                    spec.hover(
                        INTERVALS.get(interval, interval),
                        f"after {counted(row['n_answers'], 'answer')} {score(row['mean_width'])} wide",
                        f"missed at some count so far: {percent(row['miss_any_time'])} of arms",
                    )
                    for row in members
                ],
            }
        )
    layout = spec.layout(
        340,
        spec.axis("answers of one model, log axis", **spec.log_cost_ticks(row["n_answers"] for row in kept)),
        spec.axis("mean width of the interval", rangemode="tozero"),
    )
    description = (
        f"Mean width of {counted(len(traces), 'kind')} of intervals under {policy_name(policy)}, by answers of a model."
    )
    return Figure(traces, layout, description, f"Intervals under {policy_name(policy)}; hover for how often they miss.")


def _hover(row: Row) -> str:
    interval = between(row["lower"], row["upper"], percent)
    return spec.hover(
        policy_name(row["policy"]),
        f"{counted(row['pull_budget'], 'call')}: {percent(row['accuracy'])} ({interval})",
        counted(row["n_runs"], "replay"),
    )


def _target(accuracy: float) -> dict[str, Any]:
    place = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": accuracy, "y1": accuracy}
    return place | {"line": {"color": spec.MUTED, "width": 1.2, "dash": "dot"}}


def _target_label(accuracy: float) -> dict[str, Any]:
    text = {"text": f"target {100 * accuracy:g} %", "font": {"size": 11, "color": spec.MUTED}, "showarrow": False}
    return text | {"xref": "paper", "x": 0, "xanchor": "left", "y": accuracy, "yanchor": "top"}
