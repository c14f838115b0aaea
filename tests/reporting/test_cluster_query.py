"""Which pairs a cluster is said to reverse: told apart overall, and the other way round there beyond the intervals."""

import duckdb
import pytest

from capeval_pipeline.reporting import queries
from tests.reporting.published import QUIZ, publish


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    return str(publish(tmp_path_factory.mktemp("published") / "capeval.duckdb"))


@pytest.fixture
def connection(database):
    with duckdb.connect(database) as found:
        found.begin()
        yield found
        found.rollback()


def reversed_in(connection: duckdb.DuckDBPyConnection, cluster_id: int) -> tuple[int, str | None, str | None]:
    (row,) = [row for row in queries.ask(connection, queries.CLUSTERS, QUIZ).rows if row["cluster_id"] == cluster_id]
    return row["n_reversed"], row["reversed_above"], row["reversed_below"]


def lift(connection: duckdb.DuckDBPyConnection, model: str, cluster_id: int, lower: float) -> None:
    connection.execute(
        "update marts.cluster_leaderboard set lower = ?, upper = ? where model_id = ? and cluster_id = ?",
        [lower, lower + 0.5, model, cluster_id],
    )


def test_no_pair_is_reversed_where_all_stand_as_overall(connection):
    assert reversed_in(connection, 0) == (0, None, None)


def test_a_pair_told_apart_overall_that_stands_the_other_way_round_is_named(connection):
    lift(connection, "tern-mini", 1, 1.21)  # above acme/rook-8b, which ends at 1.2 and is the better one overall
    # also above <b>bold</b>, from which it cannot be told overall
    assert reversed_in(connection, 1) == (2, "tern-mini", "quote\"&'s model")
    assert reversed_in(connection, 0) == (0, None, None)


def test_a_pair_that_cannot_be_told_apart_overall_is_never_reversed(connection):
    connection.execute("update marts.model_pairs_verdicts set better_model_id = null where model_b_id = 'tern-mini'")
    lift(connection, "tern-mini", 1, 1.21)
    assert reversed_in(connection, 1) == (0, None, None)


def test_overlapping_intervals_reverse_nothing(connection):
    lift(connection, "tern-mini", 1, 0.69)  # quote"&'s model ends at 0.7
    assert reversed_in(connection, 1) == (0, None, None)
