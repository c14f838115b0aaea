"""What a published database is made of, in a connection: layers over the lake's files, marts, what claims find."""

from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa

from capeval_pipeline.errors import CapevalError, LakeError, is_disk_full
from capeval_pipeline.storage.claims import Findings, findings
from capeval_pipeline.storage.connections import quoted
from capeval_pipeline.storage.content_versions import content_version
from capeval_pipeline.storage.held_back import quoted_key
from capeval_pipeline.storage.lake import parquet_scan
from capeval_pipeline.storage.sql_models import SqlModel, SqlProject

VIEW_LAYERS = frozenset({"raw", "staging", "intermediate"})
"""Layers published as views over the lake's files: copying them would double the largest tables.

Of a lake in an object store they are copied: those who query the database shall not need its keys.
"""

VIEW_TABLES = frozenset({"estimates.cluster_responsibilities", "estimates.item_embeddings"})

FilesOf = Callable[[str], Sequence[str]]
"""Key of a table → its files."""


def create_layers(
    connection: duckdb.DuckDBPyConnection,
    files_of: FilesOf,
    schemas: Mapping[str, pa.Schema],
    handed: Mapping[str, pa.Table],
    *,
    with_views: bool,
    kept: Mapping[str, pa.Table] | None = None,
) -> None:
    """Create every table: those handed over, else from its files and the rows `kept` beside them; else empty.

    Raises LakeError naming a table whose file cannot be read.
    """
    for layer in sorted({key.split(".")[0] for key in (*schemas, *handed)}):
        connection.execute(f"create schema if not exists {quoted(layer)}")
    for key in sorted({*schemas, *handed}):
        paths = () if key in handed else files_of(key)
        rows = handed[key] if key in handed else (kept or {}).get(key)
        if paths:
            is_view = with_views and (key.split(".")[0] in VIEW_LAYERS or key in VIEW_TABLES)
            _from_files(connection, key, paths, None if is_view else rows, "view" if is_view else "table")
        else:
            connection.register("handed", schemas[key].empty_table() if rows is None else rows)
            connection.execute(f"create table {quoted_key(key)} as select * from handed")
            connection.unregister("handed")


def _from_files(
    connection: duckdb.DuckDBPyConnection, key: str, paths: Sequence[str], rows: pa.Table | None, kind: str
) -> None:
    sql = parquet_scan(paths)
    if rows is not None and rows.num_rows:
        connection.register("kept", rows)
        sql += " union all by name select * from kept"
    try:
        connection.execute(f"create {kind} {quoted_key(key)} as {sql}")
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        if is_disk_full(error):  # the disk's trouble, not the file's
            raise
        raise LakeError(
            f"{key}: a file of it cannot be read ({str(error).splitlines()[0]}); "
            f"`capeval run --rebuild {key}` makes it again"
        ) from error


def create_marts(
    connection: duckdb.DuckDBPyConnection, marts: Sequence[SqlModel]
) -> tuple[dict[str, str], dict[str, int]]:
    """Run the marts in order; of each the version of its content and its number of rows."""
    connection.execute("create schema if not exists marts")
    versions: dict[str, str] = {}
    n_rows: dict[str, int] = {}
    for model in marts:
        try:
            connection.execute(f"create table {model.key} as {model.sql}")
        except duckdb.Error as error:
            raise CapevalError(f"{model.key}: its SQL failed: {str(error).splitlines()[0]}") from error
        table = connection.sql(f"select * from {model.key}").to_arrow_table()
        versions[model.key], n_rows[model.key] = content_version(table), table.num_rows
    return versions, n_rows


def check_claims(connection: duckdb.DuckDBPyConnection, project: SqlProject) -> dict[str, Findings]:
    """Claims of each mart; the assertions across tables are told with the first mart, which stands for the build."""
    marts = project.by_layer["marts"]
    found = {model.key: findings(connection, model.claims) for model in marts}
    if marts:
        found[marts[0].key].add("Across tables", findings(connection, project.assertions))
    return found
