"""A table for people: the columns of a query that are shown, under which heading, written how."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capeval_pipeline.reporting.numbers import UNKNOWN, Writer, between, score, words
from capeval_pipeline.reporting.queries import Query, Row


@dataclass(frozen=True)
class Column:
    """A column of a table for people: its heading, a row's cell as text, whether cells are numbers.

    is_wide: long texts, which a terminal has no room for; the page shows them.
    """

    heading: str
    cell: Callable[[Row], str]
    is_number: bool = True
    is_wide: bool = False


@dataclass(frozen=True)
class View:
    """A table for people: its name (also the key in --json), caption, the query and the columns shown of it.

    instead: a sentence to show in place of rows that would say nothing, "" to show them.
    """

    name: str
    caption: str
    query: Query
    columns: Sequence[Column]
    instead: Callable[[Sequence[Row]], str] = lambda _: ""


def plain(heading: str, column: str, writer: Writer = words) -> Column:
    """The column as its writer writes it; texts (writer `words`) stand left, numbers right."""
    return Column(heading, lambda row: writer(row[column]), writer is not words)


def interval(heading: str, lower: str, upper: str, writer: Writer = score) -> Column:
    """Two columns as "a to b"."""
    return Column(heading, lambda row: between(row[lower], row[upper], writer))


def with_interval(heading: str, column: str, lower: str, upper: str, writer: Writer) -> Column:
    """A number and its interval in one cell, as "x (a to b)"."""

    def cell(row: Row) -> str:
        told = between(row[lower], row[upper], writer)
        return writer(row[column]) + (f" ({told})" if told != UNKNOWN else "")

    return Column(heading, cell)
