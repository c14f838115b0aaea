"""Runs the claims of SQL models and of the assertions across tables: each is a query for the rows that break it."""

from collections.abc import Iterable

import duckdb

from capeval_pipeline.storage.sql_models import Claim

N_SHOWN_COLUMNS = 4


def claims_found(connection: duckdb.DuckDBPyConnection, claims: Iterable[Claim]) -> tuple[bool, str]:
    """Whether all claims hold, and a sentence: how many held, or which did not, by how many rows, and one of them."""
    broken, n_claims = [], 0
    for claim in claims:
        n_claims += 1
        [(n_broken,)] = connection.execute(f"select count(*) from ({claim.sql})").fetchall()
        if n_broken:
            broken.append(
                f"{claim.sentence.rstrip('.')}: {n_broken} rows break it, one is {_one_row(connection, claim)}"
            )
    return (False, "; ".join(broken)) if broken else (True, f"All {n_claims} claims hold.")


def _one_row(connection: duckdb.DuckDBPyConnection, claim: Claim) -> str:
    """A row at fault by its first columns, which are its key."""
    row = connection.sql(f"select * from ({claim.sql}) limit 1").to_arrow_table().to_pylist()[0]
    return ", ".join(f"{name}={value!r}" for name, value in list(row.items())[:N_SHOWN_COLUMNS])
