"""Runs the claims of SQL models and of the assertions across tables: each is a query for the rows that break it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import duckdb

from capeval_pipeline.storage.connections import text_literal
from capeval_pipeline.storage.sql_models import Claim

N_SHOWN_COLUMNS = 4
BENCHMARK, FILE = "benchmark_id", "file_id"


@dataclass
class Findings:
    """What a number of claims found.

    good, bad : sentences of what held and of what did not: by how many rows it is broken, and one of them.
    at_fault : benchmark → its first broken claim, likewise with its own rows.
    is_known_whose : false if a row at fault names no benchmark.
    """

    good: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    at_fault: dict[str, str] = field(default_factory=dict)
    is_known_whose: bool = True

    @property
    def told(self) -> tuple[bool, str]:
        """Whether all claims hold, and a sentence about it."""
        return not self.bad, "; ".join(self.bad) or " ".join(self.good)

    def add(self, title: str, other: "Findings") -> None:
        """Take in what other claims found, under a title."""
        self.good += [f"{title}: {sentence}" for sentence in other.good]
        self.bad += [f"{title}: {sentence}" for sentence in other.bad]
        self.at_fault = other.at_fault | self.at_fault
        self.is_known_whose = self.is_known_whose and other.is_known_whose


def findings(connection: duckdb.DuckDBPyConnection, claims: Iterable[Claim]) -> Findings:
    """Run claims; their tables are in the connection."""
    found, n_claims = Findings(), 0
    for claim in claims:
        n_claims += 1
        [(n_broken,)] = connection.execute(f"select count(*) from ({claim.sql})").fetchall()
        if n_broken:
            found.bad.append(_sentence(connection, claim, claim.sql, n_broken))
            _find_whose(connection, claim, found)
    if not found.bad:
        found.good.append(f"All {n_claims} claims hold.")
    return found


def claims_found(connection: duckdb.DuckDBPyConnection, claims: Iterable[Claim]) -> tuple[bool, str]:
    """Whether all claims hold, and a sentence: how many held, or which did not, by how many rows, and one of them."""
    return findings(connection, claims).told


def _find_whose(connection: duckdb.DuckDBPyConnection, claim: Claim, found: Findings) -> None:
    """Add the benchmarks whose rows break a claim; a row about a file is every benchmark's that the file holds."""
    names = connection.sql(f"select * from ({claim.sql}) limit 0").columns
    broken = f"({claim.sql})"
    if BENCHMARK not in names:
        if FILE not in names:
            found.is_known_whose = False
            return
        joined = f"{broken} as broken left join raw.files as files on broken.{FILE} = files.{FILE}"
        broken = f"(select broken.*, files.{BENCHMARK} from {joined})"
    counts = f"select {BENCHMARK}, count(*) from {broken} group by all order by all"
    for benchmark_id, n_broken in connection.execute(counts).fetchall():
        if benchmark_id is None:
            found.is_known_whose = False
        elif benchmark_id not in found.at_fault:
            own = f"select * from {broken} where {BENCHMARK} = {text_literal(benchmark_id)}"
            found.at_fault[benchmark_id] = _sentence(connection, claim, own, n_broken)


def _sentence(connection: duckdb.DuckDBPyConnection, claim: Claim, sql: str, n_broken: int) -> str:
    """The claim and a row at fault by its first columns, which are its key."""
    row = connection.sql(f"select * from ({sql}) limit 1").to_arrow_table().to_pylist()[0]
    shown = ", ".join(f"{name}={value!r}" for name, value in list(row.items())[:N_SHOWN_COLUMNS])
    rows = "1 row breaks" if n_broken == 1 else f"{n_broken} rows break"
    return f"{claim.sentence.rstrip('.')}: {rows} it, one is {shown}"
