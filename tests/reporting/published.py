"""A published database with planted figures, for tests of what people see: no pipeline runs, no lake is there.

One benchmark, `quiz`, has something in every table; `bare` has two models and nothing computed. Model names and texts
are hostile: what they say must show as text and do nothing.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.storage.conformity import conform
from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.tables import TABLES
from tests.reporting.planted.clusters import cluster_tables
from tests.reporting.planted.frontier import frontier_tables
from tests.reporting.planted.identification import identification_tables
from tests.reporting.planted.names import BARE, HOSTILE_MODEL, HOSTILE_PROMPT, MADE_AT, MODELS, N_ITEMS, QUIZ, Rows
from tests.reporting.planted.strengths import strength_tables
from tests.reporting.planted.studies import study_tables


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
        **strength_tables(models),
        **cluster_tables(models, n_clusters),
        **identification_tables(),
        **frontier_tables("point"),
        **study_tables(),
        "verdicts.strengths": [verdict_row("strengths", f"{HOSTILE_MODEL} is ahead by 2.1 points (0.4 to 3.8).")],
        "verdicts.ecc": [
            verdict_row("clusters", "3 clusters of items explain who beats whom 9.3 % better than one ranking."),
            verdict_row("probe", "One observed pair raises the gain; a rule without clusters reaches 50.0 %."),
            {
                **verdict_row("clusters", "no item has a prompt or an embedding"),
                "benchmark_id": BARE,
                "is_skipped": True,
            },
        ],
        "verdicts.identification": [verdict_row("identification", "PULSE names the best model after 8,997 calls.")],
        "verdicts.frontier": [
            verdict_row("frontier", "Choosing per item would be right 83.0 % (80.1–85.2)."),
            {**verdict_row("frontier", "no cost is known"), "benchmark_id": BARE, "is_skipped": True},
        ],
    }


def verdict_row(question: str, sentence: str) -> dict[str, Any]:
    return {
        "benchmark_id": QUIZ,
        "question": question,
        "sentence": sentence,
        "source_table": "estimates.strengths",
        "is_skipped": False,
    }
