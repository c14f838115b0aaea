"""Runs the claims of SQL models and of the assertions across tables: each is a query for the rows that break it."""

from collections.abc import Iterable

import duckdb

from capeval_pipeline.storage.sql_models import Claim


def claims_found(connection: duckdb.DuckDBPyConnection, claims: Iterable[Claim]) -> tuple[bool, str]:
    """Whether all claims hold, and a sentence: how many held, or which did not, with the number of rows at fault."""
    broken, n_claims = [], 0
    for claim in claims:
        n_claims += 1
        row = connection.execute(f"select count(*) from ({claim.sql})").fetchone()
        if row and row[0]:
            broken.append(f"{claim.sentence}: {row[0]} rows break it")
    return (False, "; ".join(broken)) if broken else (True, f"All {n_claims} claims hold.")
