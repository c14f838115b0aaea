"""The same key twice in one file: a repetition if the values agree, a conflict if not; never a mean, never the last."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from capeval_pipeline.formats.refusals import message
from capeval_pipeline.ingestion.notes import Notes
from capeval_pipeline.ingestion.numbering import HAS_VERDICT, REJECTED, Records
from capeval_pipeline.storage.connections import text_literal
from capeval_pipeline.storage.stored_rows import find_repeated
from capeval_pipeline.storage.tables.contract import Table

KEYS = {
    "generations": ("item_number", "model_number", "generation_id"),
    "metric_values": ("item_number", "model_number", "generation_id", "metric"),
    "judgments": ("item_number", "model_a_number", "model_b_number", "judge_id", "position", "draw"),
}
_VALUES = {
    "generations": "status || ' ' || coalesce(score::varchar, '')",
    "metric_values": "coalesce(value::varchar, '')",
    "judgments": "outcome::varchar",
}
_PLACE, _FIRST, _ONE, _OTHER = "⟦place⟧", "⟦first⟧", "⟦one⟧", "⟦other⟧"


@dataclass(frozen=True)
class RowsOfFile:
    """Rows of one table that a file gave, in a Parquet file; the file's name for messages."""

    name: str
    path: Path
    contract: Table
    file: str

    @property
    def relation(self) -> str:
        """Rows with their running number `row`."""
        listed = text_literal(str(self.path))
        return f"(select * rename (file_row_number as row) from read_parquet({listed}, file_row_number = true))"


def number_draws(connection: duckdb.DuckDBPyConnection, rows: RowsOfFile) -> None:
    """Draws that the format leaves open: the vote's running number among equal item, models, judge and position."""
    target = rows.path.with_name("numbered.parquet")
    key = "item_number, model_a_number, model_b_number, judge_id, position"
    connection.execute(
        f"""copy (
            select * replace (
                coalesce(draw, row_number() over (partition by {key} order by record) - 1)::bigint as draw
            )
            from read_parquet({text_literal(str(rows.path))})
            order by record
        ) to {text_literal(str(target))} (format parquet, compression zstd)"""
    )
    target.replace(rows.path)


def settle_rows(connection: duckdb.DuckDBPyConnection, rows: RowsOfFile, records: Records, notes: Notes) -> bool:
    """Keep one row a key, refuse contradictions; tells of both and marks what is rejected. True if a row went.

    Table gone_<name> then has the records of repeated rows, one entry a row.
    """
    key = ", ".join(KEYS[rows.name])
    if not find_repeated(connection, rows.relation, KEYS[rows.name], "repeated"):
        return False
    same = " and ".join(f"rows.{column} is not distinct from repeated.{column}" for column in KEYS[rows.name])
    connection.execute(
        f"""create or replace table fates as
        with again as (
            select row, record, place, place_format, {key}, {_VALUES[rows.name]} as said
            from {rows.relation} as rows semi join repeated on {same}
        )
        select
            row, record, replace(place_format, '{{}}', coalesce(place::varchar, '')) as location,
            row_number() over by_key as rank,
            first(place) over by_key as first_place,
            first(place_format) over by_key as first_place_format,
            min(said) over (partition by {key}) as one_value,
            max(said) over (partition by {key}) as other_value,
            one_value <> other_value as is_conflict
        from again
        window by_key as (partition by {key} order by record, row rows unbounded preceding)"""
    )
    _tell(connection, rows, records, notes)
    _rewrite(connection, rows)
    return True


def _tell(connection: duckdb.DuckDBPyConnection, rows: RowsOfFile, records: Records, notes: Notes) -> None:
    """Notes of conflicts and repetitions; a metric speaks for a record only if that has no verdict of its own."""
    if rows.name == "metric_values":
        _register(connection, "with_verdict", records.having(HAS_VERDICT))
        refuses = "is_conflict and record not in (from with_verdict)"
    else:
        refuses = "is_conflict"
    first = "replace(first_place_format, '{}', coalesce(first_place::varchar, ''))"
    found = f"the same key has {_ONE} and {_OTHER} (first at {_FIRST})"
    template = message(rows.file, _PLACE, found, "one value", "Neither is used.")
    values = {_PLACE: "location", _FIRST: first, _ONE: "trim(one_value)", _OTHER: "trim(other_value)"}
    _register(connection, "refused_before", records.having(REJECTED))
    conflicting = notes.add_query(
        connection,
        f"""select record, 'rejected' as severity, location, 'conflicting_duplicate' as reason,
            {_filled(template, values)} as message
        from fates where {refuses} and record not in (from refused_before)
        qualify row_number() over (partition by record order by row) = 1""",
    )
    records.mark(conflicting, REJECTED)
    connection.execute(
        f"create or replace table gone_{rows.name} as select record from fates where rank > 1 and not ({refuses})"
    )
    if rows.name == "metric_values":
        return
    _register(connection, "refused_before", records.having(REJECTED))
    template = message(rows.file, _PLACE, f"repeats {_FIRST}", "each key once")
    notes.add_query(
        connection,
        f"""select record, 'duplicate' as severity, location, 'duplicate' as reason,
            {_filled(template, {_PLACE: "location", _FIRST: first})} as message
        from fates
        where rank > 1 and not is_conflict and record not in (from refused_before)
            and record not in (select record from fates where is_conflict)
        order by row""",
    )


def _filled(template: str, values: Mapping[str, str]) -> str:
    """SQL of a message whose marks are replaced by the values of a row."""
    filled = text_literal(template)
    for mark, value in values.items():
        filled = f"replace({filled}, {text_literal(mark)}, {value})"
    return f"left({filled}, 300)"


def _register(connection: duckdb.DuckDBPyConnection, name: str, records: np.ndarray) -> None:
    connection.register("numbers_given", pa.table({"record": pa.array(records, pa.int64())}))
    connection.execute(f"create or replace table {name} as from numbers_given")
    connection.unregister("numbers_given")


def _rewrite(connection: duckdb.DuckDBPyConnection, rows: RowsOfFile) -> None:
    """One row a key again: the first, without a verdict where the rows contradict each other."""
    target = rows.path.with_name("settled.parquet")
    columns = ", ".join(rows.contract.column_names)
    connection.execute("create or replace table conflicts as select row from fates where is_conflict")
    going = "rank > 1 or is_conflict" if rows.name == "judgments" else "rank > 1"
    connection.execute(f"create or replace table going as select row from fates where {going}")
    replaced = {
        "generations": """replace (
            if(row in (from conflicts), 'invalid', status) as status, if(row in (from conflicts), null, score) as score
        )""",
        "metric_values": "replace (if(row in (from conflicts), null, value) as value)",
        "judgments": "",
    }[rows.name]
    connection.execute(
        f"""copy (
            select {columns} from (select * {replaced} from {rows.relation}) where row not in (from going)
        ) to {text_literal(str(target))} (format parquet, compression zstd)"""
    )
    target.replace(rows.path)


def repeated_records(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Path], gone: list[str]) -> np.ndarray:
    """Records all of whose rows in `tables` (after repetitions went) are repetitions; `gone`: tables that lost rows."""
    lost = " union all ".join(f"select record from gone_{name}" for name in gone)
    left = " union all ".join(f"select record from read_parquet({text_literal(str(path))})" for path in tables.values())
    found = connection.sql(
        f"select distinct record from ({lost}) where record not in (select record from ({left}))"
    ).fetchnumpy()
    return np.asarray(found["record"], np.int64)
