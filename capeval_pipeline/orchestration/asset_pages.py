"""What an asset's page in the UI says of one materialization, so that the page is useful without another one.

A verdict, the first rows as a small table, SQL to paste, where the report lies; row counts and numbers, which the UI
plots over time, come from the step itself. Texts of the data are escaped: the UI renders Markdown.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from capeval_pipeline.counting import counted
from capeval_pipeline.orchestration.records import RECORD_KEY, asset_key
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.reporting.numbers import UNKNOWN, is_unknown, number, shortened, words
from capeval_pipeline.storage.connections import text_literal
from capeval_pipeline.storage.sql_models import SqlColumn, SqlModel
from capeval_pipeline.storage.tables import TABLES, UNPUBLISHED_LAYERS, Column

if TYPE_CHECKING:
    import pyarrow as pa

    from capeval_pipeline.storage.stored_rows import StoredRows

N_ROWS = 8
N_SENTENCES = 4
N_COLUMNS = 8
N_SIGNS = 60
BENCHMARK_COLUMN = "benchmark_id"
MARKUP = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>#|~&"})
SENTENCES_FROM = """
    select benchmark_id, sentence from marts.verdicts where source_table = ? and is_computed order by benchmark_id
"""
COLUMN_SCHEMA = "dagster/column_schema"
TYPE_NOT_KNOWN = "known once made"
VERDICT, FIRST_ROWS, SQL, REPORT = "verdict", "first rows", "SQL", "report"


def page_of_asset(key: str, source: Path, line: int = 1, model: SqlModel | None = None) -> dict[str, Any]:
    """What the page of a table says before anything was made: grain, columns, SQL, where the code is.

    source, line: file that makes it. model: where that is SQL; of its columns the types are known once it ran.
    """
    metadata: dict[str, Any] = {"table": key, "sql": sql_line(key), **code_reference(source, line)}
    if model is not None:
        metadata |= {"grain": ", ".join(model.grain), COLUMN_SCHEMA: column_schema(model)}
    elif key in TABLES:
        table = TABLES[key]
        columns = [dg.TableColumn(each.name, each.type_name, _described(each)) for each in table.columns]
        metadata |= {"grain": ", ".join(table.grain), COLUMN_SCHEMA: dg.TableSchema(columns)}
    return metadata


def code_reference(source: Path, line: int) -> dict[str, Any]:
    """Where the code is that makes an asset: the UI shows file and line."""
    label = f"{source.name}, line {line}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=str(source), line_number=line, label=label)
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference])}


def column_schema(model: SqlModel, made: pa.Schema | None = None) -> dg.TableSchema:
    """The columns of a SQL model with their meanings; made: schema of its rows, once there are any."""
    types = {} if made is None else {column.name: str(column.type) for column in made}
    return dg.TableSchema(
        [dg.TableColumn(each.name, types.get(each.name, TYPE_NOT_KNOWN), _described(each)) for each in model.columns]
    )


def _described(column: Column | SqlColumn) -> str:
    """A column's meaning, its unit in brackets."""
    meaning = column.meaning if isinstance(column, Column) else column.description
    return f"{meaning} [{column.unit}]" if column.unit else meaning


def page_of_part(
    workspace: Workspace, key: str, benchmark_id: str, shown: str, sentences: Sequence[str]
) -> dict[str, Any]:
    """What the page of a table says of one benchmark's part.

    shown: its `first_rows`, read before the lake takes the rows over. sentences: what the step found out, else its
    checks.
    """
    from capeval_pipeline.reporting.index import page_name

    return {
        VERDICT: dg.MetadataValue.text(" ".join(sentences)),
        FIRST_ROWS: dg.MetadataValue.md(shown),
        SQL: dg.MetadataValue.text(sql_line(key, benchmark_id)),
        REPORT: report_link(workspace, page_name(benchmark_id)),
    }


def page_of_table(
    workspace: Workspace, key: str, shown: str, sentences: Sequence[str], sql: str = ""
) -> dict[str, Any]:
    """The same of a table of all benchmarks; its report is the index. sql: where it is not the table itself."""
    from capeval_pipeline.reporting.writing import INDEX

    return {
        VERDICT: dg.MetadataValue.text(" ".join(sentences)),
        FIRST_ROWS: dg.MetadataValue.md(shown),
        SQL: dg.MetadataValue.text(sql or sql_line(key)),
        REPORT: report_link(workspace, INDEX),
    }


def report_link(workspace: Workspace, page: str) -> dg.MetadataValue[Any]:
    """A page of the report as the URI that a browser opens.

    A path and not a link, because of a page served over HTTP a browser follows no link to a file; beside a path the UI
    has a button that copies it.
    """
    return dg.MetadataValue.path((workspace.settings.reports / page).resolve().as_uri())


def pages_of_published(
    workspace: Workspace,
    keys: Sequence[str],
    claims: Mapping[str, tuple[bool, str]],
    models: Mapping[str, SqlModel],
) -> dict[str, dict[str, Any]]:
    """The pages of tables that were just published, each with what its claims found and the sentences told from it."""
    from capeval_pipeline.storage.warehouse import open_published

    pages = {}
    with open_published(workspace.settings.database) as connection:
        n_benchmarks = connection.execute("select count(*) from raw.benchmarks").fetchall()[0][0]
        for key in keys:
            n_rows = connection.execute(f"select count(*) from {key}").fetchall()[0][0]
            head = connection.sql(f"select * from {key} limit {N_ROWS}").to_arrow_table()
            told = connection.execute(SENTENCES_FROM, [key]).fetchall()
            sentences = [f"{counted(n_rows, 'row')} published.", *([claims[key][1]] if key in claims else [])]
            sentences += [f"{benchmark_id}: {sentence}" for benchmark_id, sentence in told[:N_SENTENCES]]
            if len(told) > N_SENTENCES:
                sentences.append(f"In marts.verdicts: {counted(len(told) - N_SENTENCES, 'more sentence')}.")
            pages[key] = {
                **page_of_table(workspace, key, first_rows(head, n_rows), sentences),
                **({COLUMN_SCHEMA: column_schema(models[key], head.schema)} if key in models else {}),
                "n_benchmarks": n_benchmarks,
            }
    return pages


def said_before(instance: dg.DagsterInstance, key: str, benchmark_id: str | None) -> dict[str, Any]:
    """What was said when the output was last made or reused, its record apart: a page says it again, and its plots go
    on; {} where nothing was."""
    partitions = None if benchmark_id is None else [benchmark_id]
    asked = dg.AssetRecordsFilter(asset_key=asset_key(key), asset_partitions=partitions)
    found = instance.fetch_materializations(asked, limit=1).records
    if not found or found[0].asset_materialization is None:
        return {}
    metadata: Mapping[str, Any] = found[0].asset_materialization.metadata
    return {
        name: value
        for name, value in metadata.items()
        if name == COLUMN_SCHEMA or (name != RECORD_KEY and not name.startswith("dagster/"))
    }


def sql_line(key: str, benchmark_id: str | None = None) -> str:
    """A query that can be pasted: of a layer that is not published, the raw table that its readings make together."""
    layer, name = key.split(".", 1)
    shown = f"raw.{name}" if layer in UNPUBLISHED_LAYERS else key
    where = "" if benchmark_id is None else f" where {BENCHMARK_COLUMN} = {text_literal(benchmark_id)}"
    return f"select * from {shown}{where} limit 100"


def first_rows(rows: pa.Table | StoredRows, n_rows: int | None = None) -> str:
    """The first rows as a Markdown table, columns that would not fit left out and counted.

    n_rows : how many there are, where `rows` are the first of them only
    """
    head = _head(rows)
    columns = [name for name in head.column_names if name != BENCHMARK_COLUMN or head.num_columns == 1]
    if not head.num_rows:
        return f"No rows. Columns: {', '.join(_cell(name) for name in columns)}"
    shown = columns[:N_COLUMNS]
    lines = [_line([_cell(name) for name in shown]), _line(["---"] * len(shown))]
    lines += [_line([_cell(row[name]) for name in shown]) for row in head.select(shown).to_pylist()]
    n_more = len(columns) - len(shown)
    left_out = f", {counted(n_more, 'more column')}" if n_more else ""
    n_in_all = rows.num_rows if n_rows is None else n_rows
    return "\n".join(lines) + f"\n\n{counted(n_in_all, 'row')}{left_out}"


def _head(rows: pa.Table | StoredRows) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(rows, pa.Table):
        return rows.slice(0, N_ROWS)
    # the first file alone: what is stored may be millions of rows, of which a page shows a few
    batches = pq.ParquetFile(rows.paths[0]).iter_batches(N_ROWS) if rows.paths else iter(())
    batch = next(batches, None)
    return rows.schema.empty_table() if batch is None else pa.Table.from_batches([batch])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    if is_unknown(value):
        return UNKNOWN
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list) and value and isinstance(value[0], float):
        return counted(len(value), "number")
    return shortened(" ".join(words(value).split()), N_SIGNS).translate(MARKUP)
