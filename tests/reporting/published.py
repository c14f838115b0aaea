"""A published database with planted figures, for tests of what people see: no pipeline runs, no lake is there.

One benchmark, `quiz`, has something in every table; `bare` has two models and nothing computed. Model names and texts
are hostile: what they say must show as text and do nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.storage.conformity import conform
from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.tables import TABLES

QUIZ, BARE = "quiz@2", "bare"
HOSTILE_MODEL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
MODELS = (
    HOSTILE_MODEL,
    "acme/rook-70b",
    "acme/rook-8b",
    "quote\"&'s model",
    "<b>bold</b> %{x}",
    "tern-mini",
    "tern-nano",
)
HOSTILE_PROMPT = (
    "Ignore this: </pre></details></script><script>window.hacked=1</script> <!-- ]]> \u2028 What is 2 < 3 & 4?"
)
N_ITEMS = 40
MADE_AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def publish(path: Path, *, with_estimates: bool = True, models: Sequence[str] = MODELS, n_clusters: int = 3) -> Path:
    """Write the database; without estimates, every table of estimates and simulations stays empty."""
    tables = raw_tables(models)
    if with_estimates:
        tables |= estimates(models, n_clusters)
    with duckdb.connect(str(path)) as connection:
        connection.execute("set timezone = 'UTC'")
        for key, contract in TABLES.items():
            connection.execute(f"create schema if not exists {contract.schema}")
            rows = [dict.fromkeys(contract.column_names) | dict(row) for row in tables.get(key, [])]
            frame = pa.Table.from_pylist(rows, contract.arrow_schema)
            if not contract.is_partitioned:
                frame = conform(contract, frame, None)
            connection.register("handed", frame)
            connection.execute(f"create table {key} as select * from handed")
            connection.unregister("handed")
        for key, model in load_project().models.items():
            connection.execute(f"create schema if not exists {model.schema}")
            connection.execute(f"create table {key} as {model.sql}")
    return path


Rows = list[Mapping[str, Any]]


def raw_tables(names_of_models: Sequence[str] = MODELS) -> dict[str, Rows]:
    """What ingest would have left of the two benchmarks."""
    common = {"higher_is_better": True, "score_low": 0.0, "score_high": 1.0, "settings": "{}", "metric": "accuracy"}
    benchmarks = [
        {"benchmark_id": QUIZ, "name": "quiz", "version": "2", "zero_cost": "unknown", **common},
        {"benchmark_id": BARE, "name": "bare", **common},
    ]
    items: Rows = [
        {
            "benchmark_id": QUIZ,
            "item_id": f"q{item}",
            "prompt": HOSTILE_PROMPT if item == 0 else f"What is {item} times {item}?",
            "category": ("sums", "<i>words</i>")[item % 2],
            "content_hash": f"hash{item}",
        }
        for item in range(N_ITEMS)
    ] + [{"benchmark_id": BARE, "item_id": "only"}]
    models: Rows = [
        {"benchmark_id": benchmark_id, "model_id": model}
        for benchmark_id, names in ((QUIZ, names_of_models), (BARE, ("one", "two")))
        for model in names
    ]
    cell = {"generation_id": 0, "status": "ok", "file_id": "f1", "is_cached": False}
    generations: Rows = [
        {
            **cell,
            "benchmark_id": QUIZ,
            "item_id": f"q{item}",
            "model_id": model,
            "score": float((item * (place + 3)) % 11 >= place),
            "cost_usd": 0.002 / (place + 1),
            "cost_source": "reported",
            "cost_reported_usd": 0.002 / (place + 1),
        }
        for item in range(N_ITEMS)
        for place, model in enumerate(names_of_models)
    ] + [
        {**cell, "benchmark_id": BARE, "item_id": "only", "model_id": name, "score": 1.0, "cost_source": "unknown"}
        for name in ("one", "two")
    ]
    counts = {"n_read": 281, "n_kept": 280, "n_rejected": 1, "n_duplicate": 0, "ingested_at": MADE_AT, "status": "read"}
    files: Rows = [
        {"benchmark_id": QUIZ, "file_id": "f1", "path": "in/<scores>.csv", "format": "long", **counts},
        {"benchmark_id": BARE, "file_id": "f2", "path": "in/bare.csv", "format": "long", **counts},
    ]
    rejections: Rows = [
        {
            "benchmark_id": QUIZ,
            "file_id": "f1",
            "location": "line 7",
            "severity": "rejected",
            "reason": "score_invalid",
            "message": "score is '<script>alert(1)</script>'; expected a number",
        }
    ]
    versions: Rows = [
        {
            "schema": "estimates",
            "table": "strengths",
            "benchmark_id": QUIZ,
            "data_version": "0123abcd",
            "code_version": "1",
            "inputs": "{}",
            "config": json.dumps({"seed": 0}),
            "materialized_at": MADE_AT,
        }
    ]
    states: Rows = [{"benchmark_id": QUIZ, "data_version": "feedbeef"}, {"benchmark_id": BARE, "data_version": "00aa"}]
    return {
        "raw.benchmarks": benchmarks,
        "raw.items": items,
        "raw.models": models,
        "raw.generations": generations,
        "raw.files": files,
        "raw.rejections": rejections,
        "meta.data_versions": versions,
        "meta.partition_state": states,
        "meta.pipeline_version": [{"version": "0.1.0", "materialized_at": MADE_AT}],
    }


def estimates(models: Sequence[str] = MODELS, n_clusters: int = 3) -> dict[str, Rows]:
    """Planted figures of every stage for `quiz`; `bare` has a reason for having none."""
    return {
        **_strengths(models),
        **_clusters(models, n_clusters),
        **_identification(),
        **frontier_tables("point"),
        **_studies(),
        "verdicts.strengths": [_verdict("strengths", f"{HOSTILE_MODEL} is ahead by 2.1 points (0.4 to 3.8).")],
        "verdicts.ecc": [
            _verdict("clusters", "3 clusters of items explain who beats whom 9.3 % better than one ranking."),
            _verdict("probe", "One observed pair raises the gain; a rule without clusters reaches 50.0 %."),
            {**_verdict("clusters", "no item has a prompt or an embedding"), "benchmark_id": BARE, "is_skipped": True},
        ],
        "verdicts.identification": [_verdict("identification", "PULSE names the best model after 8,997 calls.")],
        "verdicts.frontier": [
            _verdict("frontier", "Choosing per item would be right 83.0 % (80.1–85.2)."),
            {**_verdict("frontier", "no cost is known"), "benchmark_id": BARE, "is_skipped": True},
        ],
    }


def _studies() -> dict[str, Rows]:
    """Two worlds of each study."""
    worlds, draws = ("equal_means", "near_01"), (2, 5, 10)
    sizes = {"n_models": 8}
    return {
        "studies.oracle_bias_decay": [
            {"world": world, **sizes, "n_generations": g, "true_oracle": 0.7, "naive": 0.7 + 0.2 / g, "bias": 0.2 / g}
            for world in worlds
            for g in draws
        ],
        "studies.debiaser_comparison": [
            {"world": world, **sizes, "n_generations": g, "estimator": name, "bias": 0.1, "rmse": 0.1, "coverage": 0.9}
            for world in worlds
            for g in draws
            for name in ("naive", "bias_corrected")
        ],
        "studies.interval_coverage": [
            {
                "world": world,
                "n_items": 300,
                **sizes,
                "n_generations": g,
                "interval": "oracle, these items",
                "coverage": 0.97,
                "mean_width": 0.05,
                "share_point": 1.0,
                "n_seeds": 30,
            }
            for world in worlds
            for g in draws
        ],
        "studies.topic_entropy": [
            {"world": "relabelled", "mixture": f"{share}, {1 - share}", "entropy": share, "oracle_gap": share / 5}
            for share in (0.1, 0.3, 0.5)
        ],
    }


def _verdict(question: str, sentence: str) -> dict[str, Any]:
    return {
        "benchmark_id": QUIZ,
        "question": question,
        "sentence": sentence,
        "source_table": "estimates.strengths",
        "is_skipped": False,
    }


def _strengths(models: Sequence[str]) -> dict[str, Rows]:
    step, logits = min(0.06, 0.75 / len(models)), min(0.5, 6 / len(models))
    strengths: Rows = [
        {
            "benchmark_id": QUIZ,
            "model_id": model,
            "mean_score": 0.8 - step * place,
            "score_lower": 0.75 - step * place,
            "score_upper": 0.84 - step * place,
            "strength": 1.5 - logits * place,
            "lower": 1.2 - logits * place,
            "upper": None if place == 0 else 1.8 - logits * place,
            "rank": place + 1,
            "rank_lower": max(1, place),
            "rank_upper": min(len(models), place + 2),
            "tie_group": place // 2 + 1,
            "n_items": N_ITEMS,
            "component_id": 0,
            "is_separated": False,
        }
        for place, model in enumerate(models)
    ]
    pairs: Rows = []
    for place, model in enumerate(models):
        for other_place in range(place + 1, len(models)):
            other, gap = models[other_place], step * (other_place - place)
            first, second, sign = (model, other, 1.0) if model < other else (other, model, -1.0)
            better = "a_better" if sign > 0 else "b_better"
            pairs.append(
                {
                    "benchmark_id": QUIZ,
                    "model_a_id": first,
                    "model_b_id": second,
                    "n_shared_items": N_ITEMS,
                    "difference": sign * gap,
                    "lower": sign * gap - 0.05,
                    "upper": sign * gap + 0.05,
                    "p_value": 0.01 / gap,
                    "p_adjusted": min(1.0, 0.05 / gap),
                    "verdict": "cannot_tell" if other_place - place == 1 else better,
                }
            )
    previous: Rows = [
        {
            "benchmark_id": QUIZ,
            "model_id": model,
            "rank": place + 2,
            "rank_lower": place + 2,
            "rank_upper": place + 3,
            "mean_score": 0.78 - step * place,
            "data_version": "0000",
        }
        for place, model in enumerate(models[:3])
    ]
    return {
        "estimates.strengths": strengths,
        "estimates.model_pairs": pairs,
        "meta.previous_leaderboard": previous,
        "raw.judgments": _judgments(models),
    }


def _judgments(models: Sequence[str]) -> Rows:
    """One pair judged in both orders on four items; on one of them the other answer wins when they change places."""
    return [
        {
            "benchmark_id": QUIZ,
            "item_id": f"q{item}",
            "model_a_id": models[1],
            "model_b_id": models[2],
            "judge_id": "a judge",
            "position": position,
            "draw": 0,
            "outcome": 1.0 if item else float(position),
            "file_id": "f1",
        }
        for item in range(4)
        for position in (0, 1)
    ]


def _clusters(models: Sequence[str], n_clusters: int) -> dict[str, Rows]:
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


def _identification() -> dict[str, Rows]:
    budgets = [round(100 * 10 ** (step / 8)) for step in range(17)]
    speeds = {"pulse": 1.3, "ucb_e": 1.0, "uniform": 0.6, "naive_pooling": 0.9}
    curves: Rows = []
    for policy, speed in speeds.items():
        for budget in budgets:
            accuracy = 1 - 0.9 * math.exp(-speed * budget / 1500)
            bounds = {"lower": max(0.0, accuracy - 0.07), "upper": min(1.0, accuracy + 0.06)}
            key = {"benchmark_id": QUIZ, "policy": policy, "pull_budget": budget}
            curves.append({**key, "accuracy": accuracy, "n_runs": 104, **bounds})
    summary: Rows = [
        {
            "benchmark_id": QUIZ,
            "policy": policy,
            "pulls_for_target": 4300 / speed if speed > 0.7 else None,
            "pulls_lower": 3900 / speed,
            "pulls_upper": 4900 / speed,
            "pulls_for_90": 3300 / speed,
            "pulls_90_lower": 2900 / speed,
            "pulls_90_upper": 3700 / speed,
            "target_accuracy": 0.95,
            "saving_vs_ucb_e": 1 - 1 / speed,
            "coverage_simultaneous": 0.97,
            "coverage_lower": 0.92,
            "mean_error": 0.2 / speed,
            "n_runs": 104,
            "n_certified": 3,
            "n_wrong_certificates": 0,
        }
        for policy, speed in speeds.items()
    ]
    intervals: Rows = [
        {
            "benchmark_id": QUIZ,
            "policy": "pulse",
            "interval": kind,
            "n_answers": answers,
            "mean_width": width / math.sqrt(answers),
            "miss_any_time": 0.01,
            "n_arm_runs": 700,
        }
        for kind, width in (("betting", 2.0), ("empirical_bernstein", 2.6))
        for answers in (50, 100, 200, 400)
    ]
    savings: Rows = [
        {
            "benchmark_id": QUIZ,
            "gap_class": gap_class,
            "policy": policy,
            "n_runs": 40,
            "mean_certificate_share": 0.31,
            "n_wrong_certificates": 1,
            "n_arms": 60,
            "n_items": 100,
            "smallest_gap": gap,
            "target_accuracy": 0.95,
            "pulls_for_target": 30 / gap / speeds[policy],
            "pulls_lower": 25 / gap / speeds[policy],
            "pulls_upper": 36 / gap / speeds[policy],
            "saving_vs_ucb_e": 1 - 1 / speeds[policy],
        }
        for gap_class, gap in ((".01–.02", 0.011), ("≥.04", 0.05))
        for policy in ("pulse", "ucb_e")
    ]
    return {
        "simulations.identification_gap_classes": savings,
        "simulations.identification_curves": curves,
        "simulations.identification_summary": summary,
        "simulations.identification_intervals": intervals,
    }


def frontier_tables(verdict: str) -> dict[str, Rows]:
    """Frontier, headline and diagnostics under one of the three verdicts."""
    is_point, has_lower = verdict == "point", verdict != "upper_bound_only"
    costs = [0.0003 * 1.06**step for step in range(33)]
    points: Rows = []

    def add(estimator: str, routing: str, values: Sequence[float | None], half: float | None) -> None:
        for point, (cost, value) in enumerate(zip(costs, values, strict=True)):
            middle = values[point] if value is not None else 0.6 + 0.006 * point
            assert middle is not None
            points.append(
                {
                    "benchmark_id": QUIZ,
                    "cost_axis": "usd",
                    "estimator": estimator,
                    "routing": routing,
                    "point": point,
                    "cost_usd": cost,
                    "quality": value,
                    "lower": middle - half if half and has_lower else None,
                    "upper": middle + half if half else None,
                }
            )

    rising = [0.62 + 0.25 * (1 - math.exp(-step / 9)) for step in range(33)]
    add("naive", "pre_hoc", [value + 0.05 for value in rising], None)
    add("headline", "pre_hoc", rising if is_point else [None] * 33, 0.03)
    add("naive", "constant", [0.5 + 0.009 * step for step in range(33)], None)
    add("cross_fit", "cluster_router", [value - 0.06 for value in rising], 0.01)
    headline = {"benchmark_id": QUIZ, "category": "", "n_items": N_ITEMS, "n_models": 7, "n_generations": 5}
    n_draws = 5 if has_lower else 1
    return {
        "estimates.frontier_points": points + [{**row, "cost_axis": "latency_p95_s"} for row in points],
        "estimates.frontier_headlines": [
            {
                "benchmark_id": QUIZ,
                "cost_axis": "usd",
                "estimator": "headline",
                "routing": "pre_hoc",
                "n_models": 7,
                "best_model_id": HOSTILE_MODEL,
                "best_quality": 0.8,
                "best_cost_usd": 0.002,
                "oracle_quality_at_matched_cost": 0.83 if is_point else None,
                "oracle_quality_at_matched_cost_lower": 0.80 if has_lower else None,
                "oracle_quality_at_matched_cost_upper": 0.85,
                "matched_cost_error_reduction": 0.15 if is_point else None,
            }
        ],
        "estimates.frontier_models": [
            {
                "benchmark_id": QUIZ,
                "cost_axis": axis,
                "model_id": model,
                "is_in_frontier": True,
                "quality": quality,
                "cost_usd": cost,
            }
            for axis in ("usd", "latency_p95_s")
            for model, quality, cost in ((HOSTILE_MODEL, 0.8, 0.002), ("lab/small", 0.55, 0.0004))
        ],
        "estimates.frontier_latency_limits": [
            {
                "benchmark_id": QUIZ,
                "latency_limit_s": 2.0,
                "share_allowed": 0.05,
                "best_model_id": HOSTILE_MODEL,
                "best_quality": 0.8,
                "best_share_late": 0.03,
                "naive_quality": 0.9,
                "cross_fit_quality": 0.82,
                "lower": 0.78,
                "upper": 0.92,
            }
        ],
        "estimates.frontier_diagnostics": [
            {
                "benchmark_id": QUIZ,
                "n_models": 7,
                "left_out": [],
                "n_generations": n_draws,
                "verdict": verdict,
                "reason": "",
            }
        ],
        "estimates.oracle_estimates": [
            {**headline, "estimator": "naive", "value": 0.9, "lower": 0.88, "upper": 0.92},
            {**headline, "estimator": "cross_fit", "value": 0.82, "lower": 0.8, "upper": 0.84},
            {**headline, "estimator": "headline", "value": 0.86 if is_point else None, "lower": 0.83, "upper": 0.89},
        ],
        "estimates.oracle_bias_curve": [
            {"benchmark_id": QUIZ, "g": g, "source": source, "naive_value": 0.86 + 0.1 / math.sqrt(g)}
            for g, source in [(1, "observed"), (2, "observed"), (3, "observed"), (5, "observed"), (20, "forecast")]
            if g <= n_draws or source == "forecast"
        ],
    }
