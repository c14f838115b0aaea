"""What a session takes from a benchmark of the lake, right after `capeval ingest`: items, range, scores of its models.

Item scores are derived here, by the same SQL models that `capeval run` uses, from the raw tables as they are now.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.reporting.benchmark_names import match_benchmark
from capeval_pipeline.sessions.records import SessionItem
from capeval_pipeline.stage_settings.identification import IdentificationSettings

if TYPE_CHECKING:
    import pandas as pd

    from capeval_pipeline.settings import Settings
    from capeval_pipeline.storage.lake import Lake

DERIVED = ("staging/stg_generations", "intermediate/item_scores")


@dataclass(frozen=True)
class BenchmarkSource:
    """A benchmark as a session needs it.

    items : by item id. item_scores : item_id, model_id, quality, one row a cell. look_alikes : (model, look-alike).
    identification : the benchmark's effective settings of that stage.
    """

    benchmark_id: str
    score_low: float
    score_high: float
    higher_is_better: bool
    items: tuple[SessionItem, ...]
    item_scores: pd.DataFrame
    look_alikes: tuple[tuple[str, str], ...] = ()
    identification: IdentificationSettings = field(default_factory=IdentificationSettings)


def read_benchmark(settings: Settings, name: str) -> BenchmarkSource:
    """A benchmark of the workspace, by id or by its name while that has one version.

    Raises UsageError for an unknown or ambiguous name, CapevalError without items or without both ends of its range.
    """
    from capeval_pipeline.arrays.score_block import look_alike_pairs
    from capeval_pipeline.storage.lake import lake_of
    from capeval_pipeline.storage.locks import benchmark_lock, unfinished_note
    from capeval_pipeline.storage.tables import TABLES
    from capeval_pipeline.storage.unfinished import lake_at_rest

    lake = lake_of(settings)
    known = lake.read("raw.benchmarks").to_pylist() if lake.has_table("raw.benchmarks") else []
    benchmark_id = match_benchmark(sorted(row["benchmark_id"] for row in known), name)
    lake = lake_at_rest(
        lake,
        unfinished_note(settings.root, benchmark_id),
        lambda: benchmark_lock(settings.root, benchmark_id),
        [key for key in TABLES if key.startswith("raw.")],
    )
    described = lake.read("raw.benchmarks", benchmark_id).to_pylist()
    if not described:  # it was found among those of a change that is put back now
        raise CapevalError(f"the first ingest of benchmark {benchmark_id!r} was cut short; ingest its files again")
    facts = described[0]
    low, high = (_bound(facts["score_low"]), _bound(facts["score_high"]))
    if low is None or high is None or not low < high:
        raise CapevalError(
            f"benchmark {benchmark_id!r} declares no lowest and highest score, which the limits of a session rest on; "
            "declare score_range in its benchmark.yml and ingest it again"
        )
    item_scores = _item_scores(settings, lake, benchmark_id)
    rows = lake.read("raw.items", benchmark_id).to_pylist() if lake.has_table("raw.items") else []
    items = {
        row["item_id"]: SessionItem(row["item_id"], row["prompt"] or None, row["category"] or None) for row in rows
    }
    for item_id in item_scores["item_id"].unique():
        items.setdefault(item_id, SessionItem(item_id))
    if not items:
        raise CapevalError(f"benchmark {benchmark_id!r} has no items to ask; `capeval ingest` files with items")
    models = lake.read("raw.models", benchmark_id).to_pandas() if lake.has_table("raw.models") else None
    return BenchmarkSource(
        benchmark_id=benchmark_id,
        score_low=low,
        score_high=high,
        higher_is_better=facts["higher_is_better"] is not False,
        items=tuple(items[item_id] for item_id in sorted(items)),
        item_scores=item_scores,
        look_alikes=() if models is None else tuple(look_alike_pairs(models)),
        identification=_identification(settings, facts),
    )


def _bound(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _identification(settings: Settings, facts: Mapping[str, Any]) -> IdentificationSettings:
    """Defaults < capeval.toml < the benchmark's own block; those that only a replay reads do no harm here."""
    own = json.loads(facts["settings"] or "{}").get("identification") or {}
    try:
        return IdentificationSettings(**{**settings.stage_block("identification"), **own})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"identification.{place} is {first.get('input')!r}: {first['msg']}") from error


def _item_scores(settings: Settings, lake: Lake, benchmark_id: str) -> pd.DataFrame:
    """item_id, model_id, quality of every scored cell."""
    import duckdb

    from capeval_pipeline.storage.connections import ComputeLimits, memory_connection
    from capeval_pipeline.storage.lake import parquet_scan
    from capeval_pipeline.storage.sql_models import load_model, parameter_statements, sql_folder
    from capeval_pipeline.storage.tables import TABLES

    models = [load_model(sql_folder() / "models" / f"{name}.sql") for name in DERIVED]
    made = {model.key for model in models}
    limits = ComputeLimits(settings.memory_limit, 1, settings.cache / "spill")
    with memory_connection(limits) as connection:
        for key in sorted({key for model in models for key in model.references} - made):
            connection.execute(f"create schema if not exists {key.split('.')[0]}")
            if paths := lake.paths(key, benchmark_id):
                connection.execute(f"create view {key} as {parquet_scan(paths)}")
            else:
                connection.register("nothing", TABLES[key].arrow_schema.empty_table())
                connection.execute(f"create table {key} as select * from nothing")
        for model in models:
            values: dict[str, object] = {"error_policy": settings.error_policy}
            for statement in parameter_statements({name: values.get(name) for name in model.parameters}):
                connection.execute(statement)
            connection.execute(f"create schema if not exists {model.schema}")
            try:
                connection.execute(f"create table {model.key} as {model.sql}")
            except duckdb.Error as error:
                reason = str(error).splitlines()[0]
                raise CapevalError(f"{model.key}: its SQL failed for benchmark {benchmark_id!r}: {reason}") from error
        return (
            connection.sql("select item_id, model_id, quality from intermediate.item_scores order by item_id, model_id")
            .to_arrow_table()
            .to_pandas()
        )
