"""Views on clusters of items: what they hold, what they predict, what routing by them gains."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.figures.ecc_gains import method_name, router_name
from capeval_pipeline.reporting.numbers import (
    UNKNOWN,
    count,
    dollars,
    is_unknown,
    percent,
    percent_value,
    score,
    shortened,
    words,
)
from capeval_pipeline.reporting.queries import Row
from capeval_pipeline.reporting.views.view import Column, View, interval, plain, with_interval

ALIKE = 0.005
"""Shares of the items that differ by no more than this are one size."""


def clusters_alike(rows: Sequence[Row]) -> str:
    """Said of clusters that are all of one size and in which no model was compared; rows: queries.CLUSTERS."""
    weights = [row["weight"] for row in rows if not is_unknown(row["weight"])]
    if len(weights) < 2 or any(row["n_compared"] for row in rows) or max(weights) - min(weights) > ALIKE:
        return ""
    return (
        f"The comparisons do not tell the {counted(len(rows), 'cluster')} apart: each holds about "
        f"{percent(weights[0])} of the "
        f"items, and in none was a model compared often enough to be ranked, so they are not listed."
    )


def _examples(row: Row) -> str:
    prompts: list[Any] = row["example_prompts"] or []
    if not prompts:
        return words(row["top_item_ids"])
    return " · ".join(f"“{shortened(' '.join(str(prompt).split()), 140)}”" for prompt in prompts[:2])


def _held(row: Row) -> str:
    if not row["held_categories"]:
        return UNKNOWN
    parts = zip(row["held_categories"], row["held_shares"], row["held_of_category"], strict=True)
    return ", ".join(
        f"{percent(share)} {name} ({percent(of_category)})" for name, share, of_category in list(parts)[:3]
    )


def _best_there(row: Row) -> str:
    ranks = row["best_ranks_overall"] or []
    names = row["best_model_ids"] or []
    return _few([name if is_unknown(rank) else f"{name} ({rank})" for name, rank in zip(names, ranks, strict=True)])


def _few(names: Sequence[Any] | None, limit: int = 4) -> str:
    if not names:
        return UNKNOWN
    listed = ", ".join(str(name) for name in names[:limit])
    return listed + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _reversed(row: Row) -> str:
    if not row["n_compared"]:
        return UNKNOWN
    if not row["n_reversed"]:
        return "no pair reversed"
    pairs = "pair" if row["n_reversed"] == 1 else "pairs"
    return f"{count(row['n_reversed'])} {pairs} reversed, e.g. {row['reversed_above']} above {row['reversed_below']}"


CLUSTERS = View(
    "clusters",
    "Clusters of items, heaviest first. Holds: categories in it, in brackets how much of the category is here (less "
    "than all: it was split; several: they were merged). Reversed: pairs of models with a real difference overall that "
    "stand the other way round here, with intervals that do not meet; the intervals take the clusters as given.",
    queries.CLUSTERS,
    (
        plain("cluster", "cluster_id", count),
        plain("label", "label"),
        plain("share of items", "weight", percent),
        Column("holds (share of the category)", _held, False),
        Column("best there, rank overall (not to be told apart)", _best_there, False),
        Column("against the ranking overall", _reversed, False),
        Column("examples", _examples, False, is_wide=True),
    ),
    clusters_alike,
)

ECC_GAINS = View(
    "ecc_gains",
    "Gain over one ranking on test items (percent of its loss removed).",
    queries.ECC_GAINS,
    (
        Column("method", method_name, False),
        plain("pairs", "pair_subset"),
        plain("number of pairs", "n_pairs", count),
        plain("gain", "gain_percent", percent_value),
        interval("95 % interval", "gain_lower", "gain_upper", percent_value),
    ),
)

ROUTING = View(
    "routing",
    "Routers on test items. The probe's winner sees the answers it is scored on, so it measures nothing.",
    queries.ROUTING,
    (
        Column("router", lambda row: router_name(row["router"]), False),
        plain("probe", "probe_policy"),
        with_interval("mean score", "mean_score", "score_lower", "score_upper", score),
        plain("cost an item", "mean_cost_usd", dollars),
        with_interval("share of the oracle's gain", "share_of_oracle_gain", "share_lower", "share_upper", percent),
        plain("items", "n_items", count),
    ),
)
