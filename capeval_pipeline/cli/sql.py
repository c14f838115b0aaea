"""`capeval sql`: a read-only query over the published database."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from capeval_pipeline.cli.invocation import Invocation, invocation, print_table
from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError

if TYPE_CHECKING:
    import duckdb


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="One SQL statement, DuckDB's dialect.")],
    as_of: Annotated[
        str, typer.Option("--as-of", metavar="TIME", help="As it was published at a time: 2026-01-31, or with T18:00.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Rows as a JSON list.")] = False,
) -> None:
    """Query the published database; nothing can be changed through it.

    With --as-of the lake's tables of that time stand under today's SQL models; meta tables are empty then. A date
    means its end, times are UTC.

    Example: `capeval sql "select model_id, tie_group from marts.leaderboard where benchmark_id = 'support_desk'"`
    """
    call = invocation(context)
    call.check_workspace()
    import duckdb

    from capeval_pipeline.storage.lake import lake_of
    from capeval_pipeline.storage.warehouse import open_published

    with _as_it_was(call, as_of) if as_of else open_published(call.settings.database) as connection:
        try:
            cursor = connection.execute(query)
        except duckdb.Error as error:
            lake = lake_of(call.settings)
            damaged = lake.table_in(str(error))
            if damaged:
                raise CapevalError(f"{damaged}: a file of it is gone or damaged; {lake.repair(damaged)}") from error
            raise CapevalError(f"the query failed: {' '.join(str(error).split())[:300]}") from error
        columns = [entry[0] for entry in cursor.description or []]
        rows = cursor.fetchall()
    if as_json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False))
        return
    print_table("", columns, rows)
    typer.echo(counted(len(rows), "row"))


def _as_it_was(call: Invocation, text: str) -> "duckdb.DuckDBPyConnection":
    from capeval_pipeline.storage.connections import ComputeLimits
    from capeval_pipeline.storage.lake import lake_of
    from capeval_pipeline.storage.publications import as_of, moment
    from capeval_pipeline.storage.sql_models import load_project
    from capeval_pipeline.storage.tables import UNPUBLISHED_LAYERS
    from capeval_pipeline.storage.warehouse import open_as_of, table_schemas

    settings, project = call.settings, load_project()
    publication = as_of(settings.warehouse_folder, moment(text))
    lake = lake_of(settings)
    schemas = {
        key: schema
        for key, schema in table_schemas(project).items()
        if key.split(".")[0] not in UNPUBLISHED_LAYERS and not key.startswith("marts.")
    }
    return open_as_of(lake, publication, schemas, project, ComputeLimits(settings.memory_limit, 2))
