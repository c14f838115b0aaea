"""`capeval route`: which model to send one prompt to, by the published clusters of a benchmark."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval_pipeline.cli.invocation import invocation, print_table
from capeval_pipeline.cli.reading import BENCHMARK_HELP, TOP_HELP, Benchmark, published_benchmark
from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.one_thread import one_thread
from capeval_pipeline.reporting.numbers import dollars, percent
from capeval_pipeline.reporting.queries import Query
from capeval_pipeline.reporting.queries import prompt_routing as queries

if TYPE_CHECKING:
    import numpy as np

    from capeval_pipeline.arrays.published_clusters import LabelledClusters
    from capeval_pipeline.methods.ecc.live_routing import Route

LEAST_SHARE, MOST_CLUSTERS = 0.1, 3
"""Clusters that the sentence names: those that say something of the prompt, and no more than one can take in."""


def route(
    context: typer.Context,
    benchmark: Annotated[str, typer.Argument(help=BENCHMARK_HELP)],
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")] = "",
    item: Annotated[str, typer.Option(help="An item of the benchmark instead of a prompt.")] = "",
    vector: Annotated[
        Path | None,
        typer.Option(help="A JSON list of numbers: the prompt's vector, where vectors came with the items."),
    ] = None,
    cost_budget: Annotated[
        float | None, typer.Option(min=0.0, help="Dollars a call may cost; dearer models are not chosen.")
    ] = None,
    observed: Annotated[
        str,
        typer.Option(metavar="WINNER,LOSER", help="Two models that were compared on this prompt, the better first."),
    ] = "",
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """The model to send a prompt to: its mix of clusters, and who is strongest there within a cost budget.

    A prompt unlike anything measured gets the ranking of all items, and is told so.

    Example: `capeval route support_desk "How do I reset my password?" --cost-budget 0.002`
    """
    if sum((bool(prompt), bool(item), vector is not None)) != 1:
        raise UsageError("route: give one of a prompt, --item or --vector")
    text = sys.stdin.read() if prompt == "-" else prompt
    if prompt and not text.strip():
        raise UsageError("route: the prompt is empty")
    invocation(context).check_workspace()
    from capeval_pipeline.methods.ecc.live_routing import route_item

    with published_benchmark(invocation(context), benchmark) as found:
        labelled, labels, embedder = _clusters(found)
        at = _vector_of(found, labelled, embedder, text=text, item=item, file=vector)
        sentences = {entry.question: entry.sentence for entry in found.sentences(("clusters", "routing"))}
    if cost_budget is not None and not _has_costs(labelled):
        raise CapevalError(f"{found.benchmark_id}: no model has a known cost, so no cost budget can be kept")
    chosen = route_item(labelled.clusters, at, observed=_observed(observed, labelled.models), cost_budget=cost_budget)
    if chosen.chosen < 0:
        raise CapevalError(_nobody(found.benchmark_id, labelled, chosen, cost_budget))
    told = _told(found.benchmark_id, labelled, labels, chosen, cost_budget)
    if as_json:
        typer.echo(json.dumps(told | {"verdicts": sentences}, ensure_ascii=False))
    else:
        _print(told, sentences, top)


def _clusters(found: Benchmark) -> "tuple[LabelledClusters, dict[int, str], str]":
    """The headline's clusters as arrays, their labels, and the embedder of the items."""
    from capeval_pipeline.arrays.published_clusters import encode_published_clusters

    benchmark_id = found.benchmark_id

    def rows(query: Query, **values: str) -> Any:
        return found.connection.sql(query.text(benchmark_id), params=values)

    fits = rows(queries.HEADLINE_FIT).df()
    embeddings = rows(queries.ITEM_VECTORS).to_arrow_table()
    if embeddings.num_rows == 0 or fits.empty:
        missing = "no item has a vector" if embeddings.num_rows == 0 else "no clusters were fitted"
        raise CapevalError(
            f"{benchmark_id}: {missing}, so a prompt cannot be placed; `capeval clusters {benchmark_id}` says why"
        )
    fit = fits.iloc[0]
    method = str(fit["method"])
    labelled = encode_published_clusters(
        fit=fit,
        embeddings=embeddings,
        responsibilities=rows(queries.RESPONSIBILITIES, method=method).to_arrow_table(),
        strengths=rows(queries.CLUSTER_STRENGTHS, method=method).df(),
        costs=rows(queries.CLUSTER_COSTS, method=method).df(),
        overall=rows(queries.OVERALL_STRENGTHS).df(),
    )
    named = rows(queries.CLUSTER_LABELS, method=method).fetchall()
    return labelled, dict(named), str(embeddings.column("embedder")[0].as_py())


def _vector_of(
    found: Benchmark, labelled: "LabelledClusters", embedder: str, *, text: str, item: str, file: Path | None
) -> "np.ndarray":
    """The vector to place: of an item, of a file, or of the prompt among the benchmark's own."""
    import numpy as np

    if item:
        if item not in labelled.items:
            raise UsageError(f"--item {item!r}: {found.benchmark_id} has no such item")
        return labelled.vectors[labelled.items.index(item)]
    if file is not None:
        return _vector_in(file, labelled.vectors.shape[1])
    from capeval_pipeline.embedders import EMBEDDERS

    name = embedder.split()[0]
    if name not in EMBEDDERS or embedder != f"{EMBEDDERS[name].name} {EMBEDDERS[name].version}":
        reason = (
            "the vectors came with the items, and what made them is not here; give the prompt's own with --vector"
            if name == "given"
            else f"they were placed by {embedder!r}, which is not here; `capeval run` places them anew"
        )
        raise CapevalError(f"{found.benchmark_id}: a prompt cannot be placed among its items: {reason}")
    prompts = dict(
        found.connection.execute(
            "select item_id, coalesce(prompt, '') from staging.stg_items where benchmark_id = $benchmark",
            {"benchmark": found.benchmark_id},
        ).fetchall()
    )
    with one_thread():
        known, new = EMBEDDERS[name].place([prompts.get(item_id, "") for item_id in labelled.items], [text])
    if known.shape != labelled.vectors.shape or not np.allclose(known, labelled.vectors, atol=1e-6):
        raise CapevalError(
            f"{found.benchmark_id}: its items' vectors cannot be made again as they were published (another release "
            "of the embedder's libraries?); `capeval run --rebuild estimates.item_embeddings` makes them anew"
        )
    return np.asarray(new[0], dtype=np.float64)


def _vector_in(file: Path, n_dimensions: int) -> "np.ndarray":
    import numpy as np

    from capeval_pipeline.embedders.tfidf import unit_rows

    expected = f"expected a JSON list of {n_dimensions} numbers"
    try:
        values = np.asarray(json.loads(file.read_text(encoding="utf-8")), dtype=np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--vector {file}: {expected}; {error}") from error
    if values.shape != (n_dimensions,) or not np.isfinite(values).all():
        raise UsageError(f"--vector {file}: {expected}, got shape {list(values.shape)}")
    return unit_rows(values[None])[0]


def _observed(text: str, models: list[str]) -> tuple[int, int] | None:
    if not text:
        return None
    for cut in (i for i, letter in enumerate(text) if letter == ","):  # a name may hold a comma
        winner, loser = text[:cut].strip(), text[cut + 1 :].strip()
        if winner in models and loser in models and winner != loser:
            return models.index(winner), models.index(loser)
    raise UsageError(f"--observed {text!r}: expected WINNER,LOSER, two different models of {', '.join(models)}")


def _has_costs(labelled: "LabelledClusters") -> bool:
    import numpy as np

    return not (np.isnan(labelled.clusters.costs).all() and np.isnan(labelled.clusters.global_costs).all())


def _nobody(benchmark_id: str, labelled: "LabelledClusters", chosen: "Route", cost_budget: float | None) -> str:
    import numpy as np

    if cost_budget is None or not chosen.is_known.any():
        return f"{benchmark_id}: no model was compared often enough on items like this one"
    costs = np.where(chosen.is_known, chosen.costs, np.nan)
    if np.isnan(costs).all():
        return f"{benchmark_id}: no model that is known on items like this one has a known cost"
    cheapest = int(np.nanargmin(costs))
    return (
        f"{benchmark_id}: no model is within {dollars(cost_budget)} a call; the cheapest of known cost is "
        f"{labelled.models[cheapest]} at {dollars(float(costs[cheapest]))}"
    )


def _told(
    benchmark_id: str,
    labelled: "LabelledClusters",
    labels: dict[int, str],
    chosen: "Route",
    cost_budget: float | None,
) -> dict[str, Any]:
    """The answer as plain values; unknown is None."""

    def known(value: float) -> float | None:
        return None if math.isnan(value) else value

    first, second = chosen.most_informative_pair
    heaviest = sorted(range(len(chosen.responsibilities)), key=lambda k: -chosen.responsibilities[k])
    return {
        "benchmark_id": benchmark_id,
        "model_id": labelled.models[chosen.chosen],
        "is_unlike_anything_measured": chosen.is_unlike,
        "best_cosine": chosen.best_cosine,
        "least_cosine": labelled.clusters.least_cosine,
        "cost_budget_usd": cost_budget,
        "model_id_without_budget": labelled.models[chosen.best_known],
        "clusters": [
            {"cluster_id": k, "label": labels.get(k), "responsibility": float(chosen.responsibilities[k])}
            for k in heaviest
        ],
        "models": [
            {
                "model_id": labelled.models[m],
                "win_probability": float(chosen.win_probability[m]),
                "strength": float(chosen.strengths[m]),
                "cost_usd": known(float(chosen.costs[m])),
                "is_known": bool(chosen.is_known[m]),
                "is_affordable": bool(chosen.is_affordable[m]),
            }
            for m in chosen.order.tolist()
        ],
        "most_informative_pair": [labelled.models[first], labelled.models[second]],
    }


def _print(told: dict[str, Any], sentences: dict[str, str], top: int) -> None:
    first = told["models"][0]
    cost = f", about {dollars(first['cost_usd'])} a call" if first["cost_usd"] is not None else ""
    typer.echo(
        f"Send it to {told['model_id']}: it beats another model in {percent(first['win_probability'])} of the cases "
        f"where they differ{cost}."
    )
    dearer = told["model_id_without_budget"]
    if dearer != told["model_id"]:
        price = next(row["cost_usd"] for row in told["models"] if row["model_id"] == dearer)
        typer.echo(
            f"It is the best within {dollars(told['cost_budget_usd'])} a call; without a budget: {dearer} "
            f"({dollars(price) if price is not None else 'of unknown cost'})."
        )
    if told["is_unlike_anything_measured"]:
        typer.echo(
            f"The prompt is unlike anything measured (cosine {told['best_cosine']:.2f} to the nearest cluster, 99 % of "
            f"the items have at least {told['least_cosine']:.2f}): this is the ranking over all items, not of its kind."
        )
    else:
        shares = [
            f"{percent(entry['responsibility'])} {entry['label'] or 'cluster ' + str(entry['cluster_id'])}"
            for entry in told["clusters"]
            if entry["responsibility"] >= LEAST_SHARE
        ][:MOST_CLUSTERS]
        typer.echo(f"Placed by its text: {'; '.join(shares) or 'a mix of all clusters'}.")
    shown = told["models"][:top] if top else told["models"]
    print_table(
        "",
        ["model", "beats another", "cost a call", "why not"],
        [
            [
                row["model_id"],
                percent(row["win_probability"]),
                dollars(row["cost_usd"]),
                "" if row["is_known"] and row["is_affordable"] else _why_not(row),
            ]
            for row in shown
        ],
        right=["beats another", "cost a call"],
    )
    if "routing" in sentences:
        typer.echo(f"What routing is worth here: {sentences['routing']}")


def _why_not(row: dict[str, Any]) -> str:
    if not row["is_known"]:
        return "hardly compared on such items"
    return "cost unknown" if row["cost_usd"] is None else "above the budget"
