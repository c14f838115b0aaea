"""The registry of models: one row a model with its spellings and settings, and what looks like one model twice."""

import json
from collections import defaultdict
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from capeval_pipeline.formats.refusals import one_line
from capeval_pipeline.ingestion.identity import MIN_SHARED_ITEMS, look_alikes, same_vectors

MAX_MATRIX_CELLS = 4_000_000
"""Models × items up to which score vectors are compared pair by pair, which takes some 40 bytes a cell."""
MAX_SAMPLED_CELLS = 1_000_000
"""Models × items of the sample in which twins are looked for where all cells are more than that."""

_SCHEMA = pa.schema(
    [
        ("model_id", pa.string()),
        ("raw_names", pa.list_(pa.string())),
        ("provider", pa.string()),
        ("revision", pa.string()),
        ("quantization", pa.string()),
        ("look_alike_of", pa.string()),
        ("settings", pa.string()),
    ]
)


def model_rows(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """raw.models without benchmark_id: models that have a row of their own, or a part in a judgment."""
    rows = connection.execute(
        """select models.model_id, models.raw_name, models.settings, files.file_rank
        from read_models as models inner join files using (file_id)
        order by models.model_id, files.file_rank, models.raw_name"""
    ).fetchall()
    names: dict[str, set[str]] = defaultdict(set)
    settings: dict[str, dict[str, Any]] = {}
    for model_id, raw_name, said, _ in rows:
        names[model_id].add(raw_name)
        parsed = json.loads(said)
        if parsed:
            settings.setdefault(model_id, parsed)
    alike = look_alikes(names)
    registry = []
    for model_id in sorted(names):
        own = settings.get(model_id, {})
        registry.append(
            {
                "model_id": model_id,
                "raw_names": sorted(names[model_id]),
                "provider": own.get("provider"),
                "revision": _text(own.get("revision")),
                "quantization": quantization(own),
                "look_alike_of": alike.get(model_id),
                "settings": json.dumps(own, sort_keys=True),
            }
        )
    return pa.Table.from_pylist(registry, _SCHEMA)


def quantization(settings: dict[str, Any]) -> str | None:
    """Quantization of the weights as the settings tell it: 4bit, 8bit, gptq; None if they do not."""
    for name, word in (("load_in_4bit", "4bit"), ("load_in_8bit", "8bit")):
        if str(settings.get(name, "")).lower() in ("true", "1", "yes"):
            return word
    for name in ("gptq", "autogptq"):
        if str(settings.get(name, "false")).lower() not in ("false", "none", "0", ""):
            return "gptq"
    return _text(settings.get("quantization"))


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def model_warnings(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str, str]]:
    """Warnings (file_id, location, reason, message): look_alike_model, same_vector, settings_differ."""
    owners = connection.execute(
        "select model_id, file_id, settings from read_models inner join files using (file_id) order by all"
    ).fetchall()
    files_of: dict[str, set[str]] = defaultdict(set)
    settings_of: dict[str, set[str]] = defaultdict(set)
    for model_id, file_id, settings in owners:
        files_of[model_id].add(file_id)
        settings_of[model_id].add(settings)
    found = []
    for model_id, first in sorted(look_alikes(files_of).items()):
        text = f"{model_id}: looks like {first}; expected one name a model. `models:` in benchmark.yml joins names."
        found += _for_files(files_of[model_id] | files_of[first], model_id, "look_alike_model", text)
    for first, second in _twins(connection):
        text = f"{second}: has the same scores as {first} on all shared items; expected others. Both are kept."
        found += _for_files(files_of[second] | files_of[first], second, "same_vector", text)
    for model_id, settings in sorted(settings_of.items()):
        if len(settings) > 1:
            text = f"{model_id}: was run with {len(settings)} different settings; expected one. See raw.models."
            found += _for_files(files_of[model_id], model_id, "settings_differ", text)
    return found


def _for_files(file_ids: set[str], model_id: str, reason: str, text: str) -> list[tuple[str, str, str, str]]:
    return [(file_id, f"key {model_id}", reason, one_line(text, 300)) for file_id in sorted(file_ids)]


def _twins(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Pairs of models with the same mean scores on all items they share."""
    n_models, n_items = connection.execute(
        "select (select count(*) from model_ids), (select count(*) from item_ids)"
    ).fetchall()[0]
    if n_models < 2 or n_items < MIN_SHARED_ITEMS:
        return []
    names = dict(connection.execute("select model_code - 1, model_id from model_ids").fetchall())
    if n_models * n_items <= MAX_MATRIX_CELLS:
        pairs = same_vectors(_mean_scores(connection, n_models, n_items, "cells"))
    else:
        pairs = _twins_by_hash(connection)
        pairs += _twins_by_sample(connection, n_models, n_items, found=pairs)
    return sorted((names[first], names[second]) for first, second in pairs)


def _mean_scores(connection: duckdb.DuckDBPyConnection, n_models: int, n_items: int, relation: str) -> np.ndarray:
    """Mean score of each model (row) on each item (column), NaN without one."""
    totals, n_scores = np.zeros(n_models * n_items), np.zeros(n_models * n_items, np.int32)
    reader = connection.sql(
        f"select (model_code - 1) * {n_items} + item_code - 1 as cell, score from {relation} where status = 'ok'"
    ).to_arrow_reader(65_536)
    for batch in reader:
        cells = batch.column(0).to_numpy()
        np.add.at(totals, cells, batch.column(1).to_numpy())
        np.add.at(n_scores, cells, 1)
    means = np.full(n_models * n_items, np.nan)
    np.divide(totals, n_scores, out=means, where=n_scores > 0)
    return means.reshape(n_models, n_items)


def _twins_by_hash(connection: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
    """Each model with its first twin, where a matrix would be too large: those with scores on the same items, all
    alike."""
    rows = connection.execute(
        f"""with scored as (
            select
                model_code - 1 as model, count(*) as n, min(score) as low, max(score) as high,
                sum((hash(item_code, generation_id, score) >> 8)::hugeint) as content
            from cells where status = 'ok' group by all
        )
        select model, min(model) over (partition by n, content) as first_model
        from scored where n >= {MIN_SHARED_ITEMS} and low <> high order by model"""
    ).fetchall()
    return [(first, model) for model, first in rows if first != model]


def _twins_by_sample(
    connection: duckdb.DuckDBPyConnection, n_models: int, n_items: int, found: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Further pairs, where a matrix would be too large, that have scores on different items too: alike on a sample of
    the items, then on all they share. Those that share a few items only may share none of the sample."""
    n_sampled = min(n_items, MAX_SAMPLED_CELLS // n_models)
    if n_sampled < MIN_SHARED_ITEMS:
        return []
    connection.execute(
        f"""create or replace table sampled_items as
        select item_code, row_number() over (order by item_code) as sample_code
        from (select item_code from item_ids order by hash(item_code), item_code limit {n_sampled})"""
    )
    sample = """(
        select model_code, sample_code as item_code, status, score
        from cells inner join sampled_items using (item_code)
    )"""
    known = {second for _, second in found}
    alike = same_vectors(_mean_scores(connection, n_models, n_sampled, sample))
    candidates = [(first, second) for first, second in alike if second not in known]
    if not candidates:
        return []
    firsts, seconds = zip(*candidates, strict=True)
    connection.register("candidates", pa.table({"first_model": firsts, "second_model": seconds}))
    rows = connection.execute(
        f"""with means as (
            select model_code - 1 as model, item_code, avg(score order by score) as score
            from cells
            where status = 'ok' and model_code - 1 in (
                select first_model from candidates union select second_model from candidates
            )
            group by all
        )
        select first_model, second_model
        from candidates
        inner join means as one on one.model = first_model
        inner join means as other on other.model = second_model and other.item_code = one.item_code
        group by all
        having count(*) >= {MIN_SHARED_ITEMS} and bool_and(one.score = other.score) and min(one.score) <> max(one.score)
        order by all"""
    ).fetchall()
    connection.unregister("candidates")
    return [(first, second) for first, second in rows]
