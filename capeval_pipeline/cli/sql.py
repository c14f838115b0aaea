"""`capeval sql`: a read-only query over the published database."""

import json
from typing import Annotated

import typer

from capeval_pipeline.cli.invocation import invocation, print_table
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.reporting.numbers import counted


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="One SQL statement, DuckDB's dialect.")],
    as_json: Annotated[bool, typer.Option("--json", help="Rows as a JSON list.")] = False,
) -> None:
    """Query the published database; nothing can be changed through it.

    Example: `capeval sql "select model_id, mean_score, tie_group from marts.leaderboard order by rank"`
    """
    call = invocation(context)
    import duckdb

    from capeval_pipeline.storage.warehouse import open_published

    with open_published(call.settings.database) as connection:
        try:
            cursor = connection.execute(query)
        except duckdb.Error as error:
            raise CapevalError(f"the query failed: {' '.join(str(error).split())[:300]}") from error
        columns = [entry[0] for entry in cursor.description or []]
        rows = cursor.fetchall()
    if as_json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False))
        return
    print_table("", columns, rows)
    typer.echo(counted(len(rows), "row"))
