"""What clusters predict: gain over one ranking on test items, by pair subset, beside the rule without clusters."""

from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.figures import spec
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.numbers import between, is_unknown, percent_value
from capeval_pipeline.reporting.queries import Row

CONTROL = "carry_over_control"
METHODS = {
    "ecc_shrunk": "shrunk clusters",
    "ecc": "clusters as published",
    "emb_only": "clusters of texts",
    "comp_only": "clusters of answers",
    "human_labels": "given categories",
    "linear": "linear in the text",
    "blend": "blend",
    CONTROL: "rule without clusters",
}
ROUTERS = {
    "oracle": "the best of each item (oracle)",
    "global_best": "always the best overall",
    "random": "any model",
    "probe_winner": "the probe's winner",
}
INFERENCES = {
    "emb": "no answer seen",
    "probe": "pair seen, no text",
    "emb_probe": "pair seen",
    "emb_probe_calibrated": "pair seen, calibrated",
}
SUBSETS = {
    "all": ("all pairs", "--series-1"),
    "shared": ("pairs with a model of the probe", "--series-2"),
    "disjoint": ("pairs without one", "--series-3"),
}


def router_name(router: str) -> str:
    """A router in words; one that routes by a method is called as the method is."""
    return ROUTERS.get(router, METHODS.get(router, router))


def method_name(row: Row) -> str:
    """A method and what it has seen, in words."""
    method = METHODS.get(row["method"], row["method"])
    return f"{method} · {INFERENCES.get(row['inference'], row['inference'])}"


def ecc_gains(rows: Sequence[Row]) -> Figure | None:
    """Bars with whiskers, a group a method: before any answer, then with one pair seen. rows: queries.ECC_GAINS.

    Of the ways to use a seen pair only the best-informed of each method is drawn; the table holds all.
    """
    kept = _best_informed([row for row in rows if not is_unknown(row["gain_percent"])])
    if not kept:
        return None
    order = sorted({(row["inference"], row["method"]) for row in kept}, key=_place)
    place = {key: index for index, key in enumerate(order)}
    traces: list[dict[str, Any]] = []
    for subset, (name, colour) in SUBSETS.items():
        of_subset = [row for row in kept if row["pair_subset"] == subset]
        if not of_subset:
            continue
        gains = [row["gain_percent"] for row in of_subset]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": gains,
                "y": [place[row["inference"], row["method"]] for row in of_subset],
                "name": name,
                "marker": {"color": colour},
                "error_x": spec.whiskers(
                    gains,
                    [row["gain_lower"] for row in of_subset],
                    [row["gain_upper"] for row in of_subset],
                    spec.INK,
                ),
                "hoverinfo": "text",
                "hovertext": [_hover(row, name) for row in of_subset],
            }
        )
    control = [row for row in kept if row["method"] == CONTROL and row["pair_subset"] == "all"]
    n_before = sum(inference == "emb" for inference, _ in order)
    whole = (-0.5, len(order) - 0.5)
    shapes = [_line(0, spec.INK, "solid", whole)]
    if 0 < n_before < len(order):
        shapes.append(_rule(n_before - 0.5))
    note = "Gain: percent of one ranking's loss that is removed; left of 0 is worse than one ranking. "
    if control:
        # only methods that have seen the pair compete with the rule that has
        shapes.append(_line(control[0]["gain_percent"], "--series-5", "dot", (n_before - 0.5, whole[1])))
        note += (
            f"Dotted: what a rule without clusters reaches on all pairs once a pair is seen "
            f"({percent_value(control[0]['gain_percent'])}); methods that have seen the pair must pass it."
        )
    names = [method_name({"inference": inference, "method": method}) for inference, method in order]
    axis = spec.names_axis(names, limit=60, range=[len(order) - 0.45, -0.55])
    axis["ticktext"] = [text.replace(" · ", "<br>") for text in axis["ticktext"]]
    layout = spec.layout(
        120 + 46 * len(order),
        spec.axis("gain over one ranking on test items, percent, 95 % interval"),
        axis,
        barmode="group",
        bargap=0.25,
        shapes=shapes,
    )
    best = max(
        (row for row in kept if row["pair_subset"] == "all"), key=lambda row: row["gain_percent"], default=kept[0]
    )
    description = (
        f"Gain over one ranking of {len(order)} ways to predict test comparisons, for all pairs and for pairs with and "
        f"without a model of the observed pair. Largest on all pairs: {method_name(best)}, "
        f"{percent_value(best['gain_percent'])}."
    )
    return Figure(traces, layout, description, note)


def _place(key: tuple[str, str]) -> tuple[int, int]:
    inference, method = key
    inferences, methods = list(INFERENCES), list(METHODS)
    return (
        0 if inference == "emb" else 1 if method != CONTROL else 2,
        (methods.index(method) if method in methods else len(methods)) * len(inferences)
        + (inferences.index(inference) if inference in inferences else 0),
    )


def _hover(row: Row, subset: str) -> str:
    interval = between(row["gain_lower"], row["gain_upper"], percent_value)
    return spec.hover(
        method_name(row),
        f"{subset}: {percent_value(row['gain_percent'])} ({interval})",
        counted(row["n_pairs"], "pair"),
    )


def _best_informed(rows: Sequence[Row]) -> list[Row]:
    """Rows without a probe, and of each method with one the inference that uses most."""
    inferences = list(INFERENCES)
    best: dict[str, int] = {}
    for row in rows:
        if row["inference"] in inferences[1:]:
            best[row["method"]] = max(best.get(row["method"], 0), inferences.index(row["inference"]))
    return [
        row for row in rows if row["inference"] == "emb" or row["inference"] == inferences[best.get(row["method"], 0)]
    ]


def _line(x: float, colour: str, dash: str, reach: tuple[float, float]) -> dict[str, Any]:
    place = {"type": "line", "x0": x, "x1": x, "y0": reach[0], "y1": reach[1]}
    return place | {"line": {"color": colour, "width": 1.5, "dash": dash}}


def _rule(y: float) -> dict[str, Any]:
    place = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return place | {"line": {"color": spec.MUTED, "width": 1}}
