"""What is told of several files of a benchmark, or of all their rows: conflicts, repetitions, warnings, counts."""

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.formats.refusals import one_line
from capeval_pipeline.ingestion.benchmark_facts import Contradiction
from capeval_pipeline.ingestion.costs import cost_warnings
from capeval_pipeline.ingestion.notes import one_a_place
from capeval_pipeline.ingestion.registry import model_warnings


def remark(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any], refused: list[Contradiction]) -> None:
    """Table `remarks`: what only several files, or all rows of a benchmark, show."""
    connection.execute(
        "create table remarks (file_id varchar, record bigint, severity varchar, location varchar, reason varchar, "
        "message varchar)"
    )
    for each in refused:
        connection.execute(
            "insert into remarks values (?, null, 'rejected', 'benchmark.yml', 'config_invalid', ?)",
            [each.file_id, one_line(each.message, 300)],
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
            select verdicts.*, {place} as at, item_id as name
            from verdicts inner join item_ids using (item_code) where fate = 'conflict'
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


def rejections_sql(connection: duckdb.DuckDBPyConnection) -> str:
    """In-file remarks of files that count, and those between files; one row a place and reason."""
    connection.execute(
        """create view all_remarks as
        select file_id, location, severity, reason, message, severity || message as number
        from read_rejections inner join (
            select file_id from read_files where replaced_by_file_id is null
        ) using (file_id)
        union all by name
        select file_id, location, severity, reason, message, severity || message as number from remarks"""
    )
    grouped = one_a_place(connection, "all_remarks", "file_id, location, reason")
    return f"select * from ({grouped}) order by file_id, location, reason"


def file_rows(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The ledger with its final counts: records that other files repeat or contradict are no longer kept."""
    connection.execute(
        """create table lost as
        with told as (
            select file_id, record, bool_or(severity = 'rejected') as is_rejected, count(*) as n_lost
            from remarks where record is not null group by file_id, record
        ),
        -- a record of several rows (a list of grades) is a repetition only if all its rows are
        rows_of_records as (
            select file_id::varchar as file_id, record, count(*) as n_rows from answers
            where status <> 'invalid' and (file_id::varchar, record) in (select (file_id, record) from told)
            group by all
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
