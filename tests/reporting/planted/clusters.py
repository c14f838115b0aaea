"""Clusters, their evaluation and routing by them."""

import math
from collections.abc import Sequence

from tests.reporting.planted.names import N_ITEMS, QUIZ, Rows


def cluster_tables(models: Sequence[str], n_clusters: int) -> dict[str, Rows]:
    logits = min(0.5, 6 / len(models))
    weights = (
        (0.5, 0.3, 0.2)
        if n_clusters == 3
        else [2 * (n + 1) / n_clusters / (n_clusters + 1) for n in range(n_clusters)][::-1]
    )
    labels = ("sum, times, plus", "<u>verb</u>, noun", "cluster 2", *(f"cluster {n}" for n in range(3, n_clusters)))
    of = {"benchmark_id": QUIZ, "method": "ecc_shrunk"}
    clusters: Rows = [
        {
            **of,
            "cluster_id": cluster,
            "weight": weights[cluster],
            "label": labels[cluster],
            "top_item_ids": [f"q{cluster % N_ITEMS}", f"q{(cluster + 3) % N_ITEMS}"],
            "top_categories": ["sums", "<i>words</i>"][: cluster + 1],
            "top_terms": ["sum", "times"],
            "best_model_id": models[cluster % len(models)],
        }
        for cluster in range(n_clusters)
    ]
    profiles: Rows = [
        {
            **of,
            "cluster_id": cluster,
            "model_id": model,
            "strength": 1.5 - logits * place + 0.6 * math.cos(2 * cluster + place),
            "lower": 1.0 - logits * place,
            "upper": 2.2 - logits * place,
            "is_compared": not (cluster == 2 and place == 6),
        }
        for cluster in range(n_clusters)
        for place, model in enumerate(models)
    ]
    gains = {
        ("ecc_shrunk", "emb"): (9.3, 8.8, 9.7),
        ("ecc", "emb"): (-0.7, 0.2, -1.5),
        ("linear", "emb"): (10.5, 10.1, 10.9),
        ("human_labels", "emb"): (1.2, 1.0, 1.3),
        ("ecc_shrunk", "emb_probe_calibrated"): (62.1, 98.0, 27.0),
        ("carry_over_control", "probe"): (50.0, 96.0, 0.0),
    }
    evaluation: Rows = [
        {
            "benchmark_id": QUIZ,
            "method": method,
            "inference": inference,
            "pair_subset": subset,
            "n_pairs": 400,
            "gain_percent": gain,
            "gain_lower": gain - 2,
            "gain_upper": gain + 2,
        }
        for (method, inference), of_subsets in gains.items()
        for subset, gain in zip(("all", "shared", "disjoint"), of_subsets, strict=True)
    ]
    routing: Rows = [
        {
            "benchmark_id": QUIZ,
            "router": router,
            "probe_policy": "none",
            "n_items": N_ITEMS,
            "mean_score": value,
            "mean_cost_usd": 0.001,
            "share_of_oracle_gain": (value - 0.8) / 0.2,
            "score_lower": value - 0.03,
            "score_upper": value + 0.03,
            "share_lower": (value - 0.83) / 0.2,
            "share_upper": (value - 0.77) / 0.2,
        }
        for router, value in (("global_best", 0.8), ("ecc_shrunk", 0.85), ("oracle", 1.0))
    ]
    return {
        "estimates.ecc_fits": [{**of, "n_clusters": 3}],
        "estimates.clusters": clusters,
        "estimates.cluster_strengths": profiles,
        "estimates.ecc_evaluation": evaluation,
        "estimates.routing_evaluation": routing,
    }
