"""From what each file said to the tables of the layer raw: the rules between files, as one order-free function.

`resolve` sees all readings of one benchmark and nothing else. Files are ranked by their own time of writing, then by
file_id, so the tables do not depend on the order in which files came; taking a file's readings out and resolving again
gives what a build without that file would have given.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.ingestion.costs import COST_COLUMNS, PRICE_JOIN, PRICED_ON, cost_warnings, register_prices
from capeval_pipeline.ingestion.identity import HASH_DIGITS, TEXT_DIGITS
from capeval_pipeline.ingestion.parts import PART_TABLES
from capeval_pipeline.ingestion.registry import model_rows, model_warnings
from capeval_pipeline.storage.connections import ComputeLimits, memory_connection
from capeval_pipeline.storage.tables import TABLES

RAW_KEYS = (
    "raw.benchmarks", "raw.items", "raw.models", "raw.generations", "raw.judgments", "raw.metric_values",
    "raw.rejections", "raw.files",
)  # fmt: skip
"""Tables of resolve, in the order in which they are written: the ledger last."""

Readings = Mapping[str, pa.Table]
"""Readings of one benchmark by table name: files, items, models, generations, judgments, metric_values, rejections."""


def resolve(readings: Readings, limits: ComputeLimits | None = None) -> dict[str, pa.Table]:
    """The eight raw tables of one benchmark, by key, in RAW_KEYS order.

    Same key, status and score in two files is a repetition; ok beats unscored, error and invalid; different ok scores
    refuse each other unless `on_conflict` says otherwise.
    """
    files = readings["files"].to_pylist()
    facts = benchmark_facts(files)
    with memory_connection(limits or ComputeLimits(n_threads=2)) as connection:
        for name in PART_TABLES:
            connection.register(f"read_{name}", readings[name])
        _rank_files(connection)
        _identify(connection)
        _renumber_generations(connection, facts)
        _judge_cells(connection, facts)
        register_prices(connection, facts)
        items = _items(connection)
        tables = {
            # a name under which nothing could be read makes no benchmark; its refusals are told all the same
            "raw.benchmarks": _benchmarks(files if items.num_rows else [], facts),
            "raw.items": items,
            "raw.models": model_rows(connection),
            "raw.generations": _generations(connection),
            "raw.judgments": _judgments(connection),
            "raw.metric_values": _metric_values(connection),
        }
        _remark(connection, facts)
        tables["raw.rejections"] = _rejections(connection)
        tables["raw.files"] = _files(connection)
    return {key: _with_benchmark(key, tables[key], files) for key in RAW_KEYS}


def _with_benchmark(key: str, table: pa.Table, files: list[dict[str, Any]]) -> pa.Table:
    contract = TABLES[key]
    benchmark_id = files[0]["benchmark_id"] if files else ""
    columns = []
    for column in contract.columns:
        if column.name == "benchmark_id":
            columns.append(pa.repeat(pa.scalar(benchmark_id, column.type), table.num_rows))
        else:
            columns.append(table.column(column.name).cast(column.type))
    return pa.table(columns, schema=pa.schema([pa.field(column.name, column.type) for column in contract.columns]))


# -- what the benchmark declares ----------------------------------------------------------------------------------


def benchmark_facts(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Declarations of a benchmark: of the first file (in rank order) that declares a thing, else the first that says
    it, else the default. Stage blocks and prices likewise, each as a whole."""
    current = [row for row in files if row["status"] == "read" and row["replaced_by_file_id"] is None]
    ranked = sorted(current, key=lambda row: (row["created"] is None, row["created"] or 0, row["file_id"]))
    spoken = [json.loads(row["benchmark_facts"]) for row in ranked]

    def first(name: str, default: Any) -> Any:
        for part in ("declared", "said"):
            for facts in spoken:
                if facts[part].get(name) is not None:
                    return facts[part][name]
        return default

    blocks: dict[str, Any] = {}
    prices: dict[str, Any] = {}
    for facts in spoken:
        for stage, block in facts["stage_blocks"].items():
            blocks.setdefault(stage, block)
        for model, price in facts["prices"].items():
            prices.setdefault(model, price)
    low, high = first("score_range", [0.0, 1.0])
    return {
        "score_low": low,
        "score_high": high,
        "higher_is_better": first("higher_is_better", True),
        "error_policy": first("error_policy", None),
        "has_true_generations": first("has_true_generations", None),
        "zero_cost": first("zero_cost", "unknown"),
        "metric": first("metric", None),
        "on_conflict": first("on_conflict", "reject"),
        "stage_blocks": blocks,
        "prices": prices,
    }


def _benchmarks(files: list[dict[str, Any]], facts: Mapping[str, Any]) -> pa.Table:
    named = json.loads(files[0]["benchmark_facts"]) if files else {"name": "", "version": None}
    row = {name: facts.get(name) for name in TABLES["raw.benchmarks"].column_names if name in facts}
    row |= {"name": named["name"], "version": named["version"]}
    row["settings"] = json.dumps(facts["stage_blocks"], sort_keys=True)
    fields = [pa.field(column.name, column.type) for column in TABLES["raw.benchmarks"].columns[1:]]
    return pa.Table.from_pylist([row] if files else [], pa.schema(fields))


# -- who is who ---------------------------------------------------------------------------------------------------


def _rank_files(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """create table files as
        select
            *,
            row_number() over (order by created nulls last, file_id) as file_rank,
            coalesce(created, modified_at) as written_at
        from read_files
        where status = 'read' and replaced_by_file_id is null"""
    )


def _identify(connection: duckdb.DuckDBPyConnection) -> None:
    """Numbers of files to ids: declared id, or one id a text where the declared one has several; else the content."""
    connection.execute(
        """create table reused_ids as
        select declared_id from read_items where declared_id is not null and content_hash is not null
        group by declared_id having count(distinct content_hash) > 1"""
    )
    connection.execute(
        f"""create table item_names as
        select
            files.file_rank, items.file_id, items.item_number,
            case
                when items.declared_id is null then 'h' || left(items.content_hash, {HASH_DIGITS})
                when items.content_hash is not null and items.declared_id in (from reused_ids)
                    then items.declared_id || '~' || left(items.content_hash, {TEXT_DIGITS})
                else items.declared_id
            end as item_id
        from read_items as items
        inner join files using (file_id)"""
    )
    connection.execute(
        """create table item_codes as
        select file_rank, item_number, item_id, dense_rank() over (order by item_id) as item_code from item_names"""
    )
    connection.execute(
        """create table model_codes as
        select distinct
            files.file_rank, models.model_number, models.model_id,
            dense_rank() over (order by models.model_id) as model_code
        from read_models as models
        inner join files using (file_id)"""
    )


def _renumber_generations(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> None:
    """The rows of answers with codes for keys. With on_conflict: generations, a model's answers to an item from
    several files follow each other in the order of the files."""
    number = "rows.generation_id"
    if facts["on_conflict"] == "generations":
        number = """row_number() over (
            partition by item_code, model_code order by files.file_rank, rows.generation_id
        ) - 1"""
    connection.execute(
        f"""create view answers as
        select
            files.file_rank, item_codes.item_code, model_codes.model_code,
            ({number})::bigint as generation_id, rows.generation_id as own_generation_id,
            {PRICED_ON.format(time="coalesce(rows.answered_at, files.created)")} as priced_on,
            rows.* exclude (benchmark_id, file_id, generation_id, item_number, model_number),
            rows.item_number, rows.model_number, files.file_id
        from read_generations as rows
        inner join files using (file_id)
        inner join item_codes on item_codes.file_rank = files.file_rank and item_codes.item_number = rows.item_number
        inner join model_codes
            on model_codes.file_rank = files.file_rank and model_codes.model_number = rows.model_number"""
    )
    connection.execute(
        """create view values_ as
        select
            files.file_rank, item_codes.item_code, model_codes.model_code,
            rows.* exclude (benchmark_id, file_id, item_number, model_number), rows.item_number, rows.model_number,
            files.file_id
        from read_metric_values as rows
        inner join files using (file_id)
        inner join item_codes on item_codes.file_rank = files.file_rank and item_codes.item_number = rows.item_number
        inner join model_codes
            on model_codes.file_rank = files.file_rank and model_codes.model_number = rows.model_number"""
    )


# -- cells that several rows speak of -------------------------------------------------------------------------------

_PRECEDENCE = "case status when 'ok' then 0 when 'unscored' then 1 when 'error' then 2 else 3 end"


def _judge_cells(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> None:
    """Table `fates`: for each row of a cell with several rows, which one stands (rank 1) and what becomes of it."""
    connection.execute(
        """create table shared_cells as
        select item_code, model_code, generation_id from answers group by all having count(*) > 1"""
    )
    order = f"{_PRECEDENCE}, file_rank, record"
    if facts["on_conflict"] == "newest":
        order = f"{_PRECEDENCE}, written_at desc nulls last, file_rank desc, record"
    connection.execute(
        f"""create table fates as
        select
            answers.*, written.path, written.written_at,
            row_number() over by_cell as rank,
            first(file_rank) over by_cell as winner_rank,
            first(status) over by_cell as winner_status,
            {
            "false"
            if facts["on_conflict"] == "newest"
            else '''
            min(score) filter (where status = 'ok') over cell <> max(score) filter (where status = 'ok') over cell'''
        }
                as has_conflict
        from answers
        inner join (select file_rank, path, written_at from files) as written using (file_rank)
        semi join shared_cells using (item_code, model_code, generation_id)
        window
            by_cell as (partition by item_code, model_code, generation_id order by {order} rows between
                unbounded preceding and unbounded following),
            cell as (partition by item_code, model_code, generation_id)"""
    )
    connection.execute(
        """create table verdicts as
        select
            *,
            coalesce(has_conflict, false) as is_conflict,
            case
                when status = 'invalid' then 'refused before'
                when coalesce(has_conflict, false) and status = 'ok' then 'conflict'
                when rank = 1 then 'kept'
                when winner_status = 'ok' and status <> 'ok' then 'retried'
                else 'duplicate'
            end as fate
        from fates"""
    )


def _generations(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Cells with one row as they are; of the others the row that stands, without a score where files disagree."""
    said = """item_code, model_code, generation_id, status, score, metric, outcome, is_cached, cost_reported_usd,
        judge_cost_usd, latency_s, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
        file_id, priced_on"""
    connection.execute(
        f"""create view cells as
        select {said} from answers anti join shared_cells using (item_code, model_code, generation_id)
        union all by name
        select {said} from (
            select * replace (if(is_conflict, 'invalid', status) as status, if(is_conflict, null, score) as score)
            from verdicts where rank = 1
        )"""
    )
    return connection.sql(
        f"""select
            items.item_id, models.model_id, cells.* exclude (item_code, model_code, priced_on), {COST_COLUMNS}
        from cells
        inner join (select distinct item_code, item_id from item_codes) as items using (item_code)
        inner join (select distinct model_code, model_id from model_codes) as models using (model_code)
        left join prices on {PRICE_JOIN}"""
    ).to_arrow_table()


def _metric_values(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row a metric of a cell: of the file whose answer stands, else of the first file that has a value."""
    connection.execute(
        """create table numbered as
        select answers.file_rank, answers.item_code, answers.model_code, own_generation_id, generation_id
        from answers where generation_id <> own_generation_id"""
    )
    connection.execute(
        """create table winners as
        select item_code, model_code, generation_id, winner_rank, bool_or(is_conflict) as is_conflict
        from verdicts where rank = 1 group by all"""
    )
    connection.execute(
        """create table metric_fates as
        select
            values_.* replace (coalesce(numbered.generation_id, values_.generation_id) as generation_id),
            coalesce(winners.is_conflict, false) and is_main as is_conflict,
            row_number() over by_key as rank,
            count(*) over (partition by values_.item_code, values_.model_code,
                coalesce(numbered.generation_id, values_.generation_id), metric) as n_rows
        from values_
        left join numbered on
            numbered.file_rank = values_.file_rank and numbered.item_code = values_.item_code
            and numbered.model_code = values_.model_code and numbered.own_generation_id = values_.generation_id
        left join winners on
            winners.item_code = values_.item_code and winners.model_code = values_.model_code
            and winners.generation_id = coalesce(numbered.generation_id, values_.generation_id)
        window by_key as (
            partition by values_.item_code, values_.model_code,
                coalesce(numbered.generation_id, values_.generation_id), metric
            order by values_.file_rank <> coalesce(winners.winner_rank, -1), value is null, values_.file_rank, record
        )"""
    )
    return connection.sql(
        """select
            items.item_id, models.model_id, generation_id, metric, if(is_conflict, null, value) as value, is_main,
            file_id
        from metric_fates
        inner join (select distinct item_code, item_id from item_codes) as items using (item_code)
        inner join (select distinct model_code, model_id from model_codes) as models using (model_code)
        where rank = 1"""
    ).to_arrow_table()


def _judgments(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Votes; one that several files tell alike once, one that they tell differently not at all."""
    connection.execute(
        """create table votes as
        select
            files.file_rank, files.path, files.file_id, items.item_id, models_a.model_id as model_a_id,
            models_b.model_id as model_b_id,
            rows.* exclude (benchmark_id, file_id, item_number, model_a_number, model_b_number),
            row_number() over (key order by files.file_rank, record) as rank,
            min(outcome) over key <> max(outcome) over key as is_conflict,
            first(files.path) over (key order by files.file_rank, record) as first_path
        from read_judgments as rows
        inner join files using (file_id)
        inner join item_codes as items on items.file_rank = files.file_rank and items.item_number = rows.item_number
        inner join model_codes as models_a
            on models_a.file_rank = files.file_rank and models_a.model_number = rows.model_a_number
        inner join model_codes as models_b
            on models_b.file_rank = files.file_rank and models_b.model_number = rows.model_b_number
        window key as (
            partition by items.item_id, models_a.model_id, models_b.model_id, judge_id, position, draw
        )"""
    )
    return connection.sql(
        """select item_id, model_a_id, model_b_id, outcome, judge_id, position, draw, margin, category, judge_cost_usd,
            file_id
        from votes where rank = 1 and not is_conflict"""
    ).to_arrow_table()


def _items(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    firsts = ", ".join(
        f"first({name} order by file_rank, item_number) filter ({name} is not null) as {name}"
        for name in ("prompt", "category", "content_hash", "embedding")
    )
    return connection.sql(
        f"""select
            item_id, {firsts},
            coalesce(list_sort(list_distinct(list(declared_id) filter (declared_id is not null))), []) as declared_ids
        from read_items inner join item_names using (file_id, item_number)
        group by item_id"""
    ).to_arrow_table()


# -- what is told ---------------------------------------------------------------------------------------------------


def _remark(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> None:
    """Table `remarks`: what only several files, or all rows of a benchmark, show."""
    connection.execute(
        "create table remarks (file_id varchar, record bigint, severity varchar, location varchar, reason varchar, "
        "message varchar)"
    )
    place = "replace(place_format, '{}', coalesce(place::varchar, ''))"
    connection.execute(
        f"""insert into remarks
        select
            one.file_id, one.record, 'rejected', one.at, 'conflicting_files',
            left(one.path || ': ' || one.at || ': ' || one.name || ' has score ' || one.score || ', but '
                || other.score || ' in ' || other.path || ' (' || other.at
                || '); expected one score. Neither is used; on_conflict in benchmark.yml decides otherwise.', 300)
        from (
            select *, {place} as at, (select any_value(item_id) from item_codes where item_code = verdicts.item_code)
                as name from verdicts where fate = 'conflict'
        ) as one
        inner join lateral (
            select path, score, {place} as at from verdicts as others
            where others.fate = 'conflict' and others.item_code = one.item_code and others.model_code = one.model_code
                and others.generation_id = one.generation_id and others.score <> one.score
            order by others.file_rank, others.record limit 1
        ) as other on true"""
    )
    connection.execute(
        f"""insert into remarks
        select
            verdicts.file_id, verdicts.record, 'duplicate', {place}, if(fate = 'retried', 'retried', 'duplicate'),
            left(verdicts.path || ': ' || {place} || ': '
                || if(fate = 'retried', verdicts.status || ', but ok in ', 'the same as in ') || winner.path
                || '; expected each answer once.', 300)
        from verdicts inner join files as winner on winner.file_rank = verdicts.winner_rank
        where fate in ('duplicate', 'retried')"""
    )
    connection.execute(
        """insert into remarks
        select
            winner.file_id, null, 'warning', 'file', 'retried',
            winner.path || ': file: ' || count(*) || ' answers are error or unscored in ' || min(verdicts.path)
                || '; expected one try. The later ok stands.'
        from verdicts inner join files as winner on winner.file_rank = verdicts.winner_rank
        where fate = 'retried' and winner.file_rank <> verdicts.file_rank
        group by winner.file_id, winner.path"""
    )
    connection.execute(
        f"""insert into remarks
        select
            file_id, record, if(is_conflict, 'rejected', 'duplicate'), {place},
            if(is_conflict, 'conflicting_files', 'duplicate'),
            left(path || ': ' || {place} || ': ' || if(is_conflict, 'another outcome in ', 'the same vote as in ')
                || first_path || '; expected one outcome.', 300)
        from votes where is_conflict or rank > 1"""
    )
    connection.execute(
        """insert into remarks
        select
            files.file_id, null, 'warning', 'key ' || items.declared_id, 'id_reused',
            left(files.path || ': key ' || items.declared_id || ': has ' || count(distinct all_items.content_hash)
                || ' texts in this benchmark; expected one. Each text is an item of its own.', 300)
        from read_items as items
        inner join files using (file_id)
        inner join reused_ids using (declared_id)
        inner join read_items as all_items using (declared_id)
        group by files.file_id, files.path, items.declared_id"""
    )
    for warnings in (cost_warnings(connection, facts), model_warnings(connection)):
        if warnings:
            rows = [dict(zip(("file_id", "location", "reason", "message"), row, strict=True)) for row in warnings]
            connection.register("warned", pa.Table.from_pylist(rows))
            connection.execute(
                "insert into remarks select file_id, null, 'warning', location, reason, message from warned"
            )
            connection.unregister("warned")


def _rejections(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """In-file remarks of files that count, and those between files; one row a place and reason."""
    return connection.sql(
        """with said as (
            select file_id, location, severity, reason, message
            from read_rejections inner join read_files using (file_id) where replaced_by_file_id is null
            union all by name
            select file_id, location, severity, reason, message from remarks
        )
        select
            file_id, location, reason, min(severity) as severity,
            left(min(message), 280) || if(count(*) > 1, ' (and ' || (count(*) - 1) || ' more)', '') as message
        from said group by file_id, location, reason"""
    ).to_arrow_table()


def _files(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The ledger with its final counts: records that other files repeat or contradict are no longer kept."""
    connection.execute(
        """create table lost as
        with told as (
            select file_id, record, bool_or(severity = 'rejected') as is_rejected, count(*) as n_lost
            from remarks where record is not null group by file_id, record
        ),
        -- a record of several rows (a list of grades) is a repetition only if all its rows are
        rows_of_records as (
            select file_id, record, count(*) as n_rows from answers
            where status <> 'invalid' and (file_id, record) in (select (file_id, record) from told) group by all
        )
        select
            told.file_id,
            count(*) filter (told.is_rejected) as n_rejected,
            count(*) filter (not told.is_rejected and n_lost >= coalesce(n_rows, 1)) as n_duplicate
        from told left join rows_of_records using (file_id, record)
        group by told.file_id"""
    )
    connection.execute(
        """create table reasons as
        select file_id, json_group_object(reason, n)::varchar as warnings from (
            select file_id, reason, count(*) as n from (
                select file_id, reason from remarks where severity = 'warning'
                union all by name
                select file_id, reason from read_rejections where severity = 'warning'
            ) group by all order by file_id, reason
        ) group by file_id"""
    )
    return connection.sql(
        """select
            file_id, path, format, n_read,
            n_kept - coalesce(lost.n_rejected, 0) - coalesce(lost.n_duplicate, 0) as n_kept,
            read_files.n_rejected + coalesce(lost.n_rejected, 0) as n_rejected,
            read_files.n_duplicate + coalesce(lost.n_duplicate, 0) as n_duplicate,
            ingested_at, replaced_by_file_id, status, tool_version, created, claimed_items, warnings
        from read_files left join lost using (file_id) left join reasons using (file_id)"""
    ).to_arrow_table()


def check_ledger(table: pa.Table) -> None:
    """Raise AssertionError unless read = kept + rejected + duplicate in every row of raw.files."""
    for row in table.to_pylist():
        if row["n_read"] != row["n_kept"] + row["n_rejected"] + row["n_duplicate"] or row["n_kept"] < 0:
            raise AssertionError(f"raw.files: counts of {row['path']} do not add up: {row}")


def by_file(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table with file_id, grouped by it."""
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        grouped[row["file_id"]].append(row)
    return grouped
