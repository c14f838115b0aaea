"""A named SQL text for one benchmark, and how it is asked of the published database.

What runs is what is shown: `$benchmark` becomes the benchmark's id as a SQL text, and the result can be pasted into
any DuckDB shell that has the published file open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

PLACEHOLDER = "$benchmark"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Query:
    """A named SQL text; `$benchmark` stands for the benchmark."""

    name: str
    sql: str

    def text(self, benchmark_id: str) -> str:
        """The SQL for one benchmark, ready to paste."""
        # loads duckdb, which commands that ask nothing of the database should not wait for
        from capeval_pipeline.storage.connections import text_literal

        return self.sql.strip().replace(PLACEHOLDER, text_literal(benchmark_id))


@dataclass(frozen=True)
class Answer:
    """Rows of a query, as column → value, and the SQL that gave them."""

    sql: str
    rows: list[dict[str, Any]]


def ask(connection: "duckdb.DuckDBPyConnection", query: Query, benchmark_id: str = "") -> Answer:
    """Run a query on the published database."""
    sql = query.text(benchmark_id)
    return Answer(sql, connection.sql(sql).to_arrow_table().to_pylist())
