"""The rules between files as SQL: who is who, and what stands where several files speak of one cell.

All of it works on the views read_<table>, the readings of one benchmark. Rows that meet no other row pass through
unheld; only keys that come twice are compared, and those are found first.
"""

from collections.abc import Mapping
from typing import Any

import duckdb

from capeval_pipeline.ingestion.costs import COST_COLUMNS, PRICE_JOIN, PRICED_ON
from capeval_pipeline.ingestion.identity import HASH_DIGITS, TEXT_DIGITS
from capeval_pipeline.storage.stored_rows import find_repeated

CELL = ("item_code", "model_code", "generation_id")
MAX_NAMES, FEW_NAMES, ROWS_A_NAME = 1_000_000, 10_000, 4
VOTE = ("item_code", "model_a_code", "model_b_code", "judge_id", "position", "draw")


def rank_files(connection: duckdb.DuckDBPyConnection) -> None:
    """Table `files`: those that count, by their own time of writing, then by id."""
    connection.execute(
        """create table files as
        select
            *,
            row_number() over (order by created nulls last, file_id) as file_rank,
            coalesce(created, modified_at) as written_at
        from read_files
        where status = 'read' and replaced_by_file_id is null"""
    )
    connection.execute("create table file_keys as select file_rank, file_id as file_key from files order by file_rank")
    _enumerate(connection, "file_keys", "file_key")


def _enumerate(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> None:
    """Make a text column of a table an enumeration: rows that carry the text then carry a number, so sorting them
    moves a fraction of the bytes. Of more than MAX_NAMES texts it would take more memory than it saves, and of many
    that few rows carry each more time (5 µs a text)."""
    n_names = connection.execute(f"select count(*) from {table}").fetchall()[0][0]
    n_rows = connection.execute("select count(*) from read_generations").fetchall()[0][0]
    if 0 < n_names <= min(MAX_NAMES, max(FEW_NAMES, n_rows // ROWS_A_NAME)):
        connection.execute(f"create type {column}_name as enum (select {column} from {table})")
        connection.execute(f"alter table {table} alter {column} type {column}_name")


def identify(connection: duckdb.DuckDBPyConnection) -> None:
    """Numbers of files to ids: declared id, or one id a text where the declared one has several; else the content.

    Codes are ranks of ids, so rows in the order of codes are in the order of ids. Table `reused_ids`: declared ids with
    several texts. `item_codes`, `model_codes`: file and number → code; `item_ids`, `model_ids`: code → id.
    """
    find_repeated(
        connection,
        "(select declared_id from read_items where declared_id is not null and content_hash is not null)",
        ["declared_id"],
        "declared_often",
    )
    connection.execute(
        """create table reused_ids as
        select declared_id from read_items where declared_id in (from declared_often)
        group by declared_id having count(distinct content_hash) > 1"""
    )
    connection.execute(
        f"""create table item_names as
        select
            files.file_rank, items.item_number,
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
        """create table item_ids as
        select row_number() over (order by item_id) as item_code, item_id
        from (select distinct item_id from item_names)"""
    )
    connection.execute(
        """create table item_codes as
        select file_rank, item_number, item_code from item_names inner join item_ids using (item_id)"""
    )
    connection.execute("drop table item_names")
    _enumerate(connection, "item_ids", "item_id")
    connection.execute(
        """create table model_codes as
        select distinct
            files.file_rank, models.model_number, models.model_id,
            dense_rank() over (order by models.model_id) as model_code
        from read_models as models
        inner join files using (file_id)"""
    )
    connection.execute("create table model_ids as select distinct model_code, model_id from model_codes")
    _enumerate(connection, "model_ids", "model_id")


def do_files_meet(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether rows of different keys in the files may speak of one cell: a model is in two files, or one file has two
    items of one id. Else each file's rows are all there is to say, and no key can come twice."""
    found = connection.execute(
        """select
            exists (select 1 from model_codes group by model_code having count(distinct file_rank) > 1)
            or exists (select 1 from model_codes group by file_rank, model_code having count(distinct model_number) > 1)
            or (select count(*) from item_codes)
                <> (select count(*) from (select distinct file_rank, item_code from item_codes))"""
    ).fetchall()[0][0]
    return bool(found)


def number_answers(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> None:
    """Views `answers` and `values_`: rows with codes for keys. With on_conflict: generations, a model's answers to an
    item from several files follow each other in the order of the files."""
    number = "rows.generation_id"
    if facts["on_conflict"] == "generations":
        number = """row_number() over (
            partition by item_code, model_code order by files.file_rank, rows.generation_id
        ) - 1"""
    codes = """
        inner join files using (file_id)
        inner join item_codes on item_codes.file_rank = files.file_rank and item_codes.item_number = rows.item_number
        inner join model_codes
            on model_codes.file_rank = files.file_rank and model_codes.model_number = rows.model_number
        inner join file_keys on file_keys.file_rank = files.file_rank"""
    connection.execute(
        f"""create view answers as
        select
            files.file_rank, item_codes.item_code, model_codes.model_code,
            ({number})::bigint as generation_id, rows.generation_id as own_generation_id,
            {PRICED_ON.format(time="coalesce(rows.answered_at, files.created)")} as priced_on,
            rows.* exclude (benchmark_id, file_id, generation_id, item_number, model_number),
            rows.item_number, rows.model_number, file_keys.file_key as file_id
        from read_generations as rows {codes}"""
    )
    connection.execute(
        f"""create view values_ as
        select
            files.file_rank, item_codes.item_code, model_codes.model_code,
            rows.* exclude (benchmark_id, file_id, item_number, model_number), rows.item_number, rows.model_number,
            file_keys.file_key as file_id
        from read_metric_values as rows {codes}"""
    )
    connection.execute(
        """create view ballots as
        select
            files.file_rank, files.path, files.file_id, item_codes.item_code,
            models_a.model_code as model_a_code, models_b.model_code as model_b_code,
            rows.* exclude (benchmark_id, file_id, item_number, model_a_number, model_b_number)
        from read_judgments as rows
        inner join files using (file_id)
        inner join item_codes on item_codes.file_rank = files.file_rank and item_codes.item_number = rows.item_number
        inner join model_codes as models_a
            on models_a.file_rank = files.file_rank and models_a.model_number = rows.model_a_number
        inner join model_codes as models_b
            on models_b.file_rank = files.file_rank and models_b.model_number = rows.model_b_number"""
    )


def _find_shared(
    connection: duckdb.DuckDBPyConnection, view: str, key: tuple[str, ...], name: str, *, may_meet: bool
) -> None:
    """Table `name` of keys that several rows of a view have; empty without a look where files cannot meet."""
    if may_meet:
        find_repeated(connection, view, key, name)
    else:
        connection.execute(f"create table {name} as select {', '.join(key)} from {view} limit 0")


# -- cells that several rows speak of -------------------------------------------------------------------------------

_PRECEDENCE = "case status when 'ok' then 0 when 'unscored' then 1 when 'error' then 2 else 3 end"


def judge_cells(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any], *, may_meet: bool) -> None:
    """Table `verdicts`: for each row of a cell with several rows, which one stands (rank 1) and what becomes of it."""
    _find_shared(connection, "answers", CELL, "shared_cells", may_meet=may_meet)
    is_newest = facts["on_conflict"] == "newest"
    order = f"{_PRECEDENCE}, file_rank, record"
    if is_newest:
        order = f"{_PRECEDENCE}, written_at desc nulls last, file_rank desc, record"
    oks = "(score) filter (where status = 'ok') over cell"
    connection.execute(
        f"""create table fates as
        select
            answers.*, written.path, written.written_at,
            row_number() over by_cell as rank,
            first(file_rank) over by_cell as winner_rank,
            first(status) over by_cell as winner_status,
            {"false" if is_newest else f"min{oks} <> max{oks}"} as has_conflict
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


def generations_sql(connection: duckdb.DuckDBPyConnection) -> str:
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
    return f"""select
            items.item_id, models.model_id, cells.* exclude (item_code, model_code, priced_on), {COST_COLUMNS}
        from cells
        inner join item_ids as items using (item_code)
        inner join model_ids as models using (model_code)
        left join prices on {PRICE_JOIN}
        order by item_code, model_code, generation_id"""


def metric_values_sql(connection: duckdb.DuckDBPyConnection, *, may_meet: bool) -> str:
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
        """create view metrics as
        select values_.* replace (coalesce(numbered.generation_id, values_.generation_id) as generation_id)
        from values_
        left join numbered on
            numbered.file_rank = values_.file_rank and numbered.item_code = values_.item_code
            and numbered.model_code = values_.model_code and numbered.own_generation_id = values_.generation_id"""
    )
    _find_shared(connection, "metrics", (*CELL, "metric"), "shared_metrics", may_meet=may_meet)
    same = " and ".join(f"metrics.{name} = shared_metrics.{name}" for name in (*CELL, "metric"))
    connection.execute(
        f"""create table metric_fates as
        select
            metrics.*,
            row_number() over (
                partition by metrics.item_code, metrics.model_code, metrics.generation_id, metrics.metric
                order by
                    metrics.file_rank <> coalesce(winners.winner_rank, -1), value is null, metrics.file_rank, record
            ) as rank
        from metrics
        semi join shared_metrics on {same}
        left join winners using (item_code, model_code, generation_id)"""
    )
    said = "file_id, item_code, model_code, generation_id, metric, value, is_main"
    return f"""select
            items.item_id, models.model_id, standing.generation_id, metric,
            if(coalesce(winners.is_conflict, false) and is_main, null, value) as value, is_main, file_id
        from (
            select {said} from metrics anti join shared_metrics on {same}
            union all by name
            select {said} from metric_fates where rank = 1
        ) as standing
        left join winners using (item_code, model_code, generation_id)
        inner join item_ids as items using (item_code)
        inner join model_ids as models using (model_code)
        order by item_code, model_code, generation_id, metric"""


def judgments_sql(connection: duckdb.DuckDBPyConnection, *, may_meet: bool) -> str:
    """Votes; one that several files tell alike once, one that they tell differently not at all. Table `votes`: those
    that several rows tell."""
    _find_shared(connection, "ballots", VOTE, "shared_votes", may_meet=may_meet)
    same = " and ".join(f"ballots.{name} is not distinct from shared_votes.{name}" for name in VOTE)
    connection.execute(
        f"""create table votes as
        select
            ballots.*,
            row_number() over (key order by file_rank, record) as rank,
            min(outcome) over key <> max(outcome) over key as is_conflict,
            first(path) over (key order by file_rank, record) as first_path
        from ballots semi join shared_votes on {same}
        window key as (partition by {", ".join(VOTE)})"""
    )
    said = f"{', '.join(VOTE)}, outcome, margin, category, judge_cost_usd, file_id"
    return f"""select
            items.item_id, models_a.model_id as model_a_id, models_b.model_id as model_b_id,
            standing.* exclude (item_code, model_a_code, model_b_code)
        from (
            select {said} from ballots anti join shared_votes on {same}
            union all by name
            select {said} from votes where rank = 1 and not is_conflict
        ) as standing
        inner join item_ids as items using (item_code)
        inner join model_ids as models_a on models_a.model_code = model_a_code
        inner join model_ids as models_b on models_b.model_code = model_b_code
        order by {", ".join(VOTE)}"""


def items_sql(connection: duckdb.DuckDBPyConnection) -> str:
    """What the files say of each item; of an item of several rows the first that is known."""
    find_repeated(connection, "item_codes", ["item_code"], "items_often")
    connection.execute(
        """create view items_said as
        select file_rank, item_number, item_code, declared_id, prompt, category, content_hash, embedding
        from read_items as items
        inner join files using (file_id)
        inner join item_codes using (file_rank, item_number)"""
    )
    firsts = ", ".join(
        f"first({name} order by file_rank, item_number) filter ({name} is not null) as {name}"
        for name in ("prompt", "category", "content_hash", "embedding")
    )
    return f"""select item_id, said.* exclude (item_code)
        from (
            select
                item_code, prompt, category, content_hash, embedding,
                if(declared_id is null, []::varchar[], [declared_id]) as declared_ids
            from items_said where item_code not in (from items_often)
            union all by name
            select
                item_code, {firsts},
                coalesce(list_sort(list_distinct(list(declared_id) filter (declared_id is not null))), [])
                    as declared_ids
            from items_said where item_code in (from items_often) group by item_code
        ) as said
        inner join item_ids using (item_code)
        order by item_code"""
