"""What a table contract is: columns with type, meaning and unit, a grain, and the Arrow schema that follows.

Here are the words in which raw.py, estimates.py, simulations.py, studies.py, verdicts.py and meta.py declare their
tables. No table is declared in this module, and nothing here reads or writes one. Types are named as Arrow names them,
so that the definitions, which only show them, load without Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CLOCK_COLUMNS = frozenset({"ingested_at", "materialized_at", "fit_seconds", "seconds_per_run"})
"""Columns that tell when or how fast something ran, not what came out; the content hash leaves them out."""

STRING, INTEGER, REAL, FLAG, UTC_TIME = "string", "int64", "double", "bool", "timestamp[us, tz=UTC]"
STRINGS, REALS = "list<item: string>", "list<item: double>"


@cache
def arrow_types() -> dict[str, pa.DataType]:
    """The types a column may have, by Arrow's name of them."""
    import pyarrow as pa

    plain = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us", "UTC"))
    return {str(type_): type_ for type_ in (*plain, pa.list_(pa.string()), pa.list_(pa.float64()))}


@dataclass(frozen=True)
class Column:
    """A column: Arrow's name of its type, meaning in words, unit ("" where there is none), may it be unknown."""

    name: str
    type_name: str
    meaning: str
    unit: str = ""
    nullable: bool = True

    @property
    def type(self) -> pa.DataType:
        """The type itself; raises KeyError for one that no table here may have."""
        return arrow_types()[self.type_name]


@dataclass(frozen=True)
class Table:
    """A table that Python writes; `columns` are all columns in order, `benchmark_id` first where it is partitioned.

    `grain` names the columns of which no two rows have the same values (two NULLs count as the same value).
    """

    schema: str
    name: str
    grain: tuple[str, ...]
    columns: tuple[Column, ...]
    description: str
    is_partitioned: bool = True

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{self.key}: column {repeated[0]!r} is declared twice; expected once")
        missing = [name for name in self.grain if name not in names]
        if missing:
            raise ValueError(f"{self.key}: grain column {missing[0]!r} is not among the columns {names}")
        if self.is_partitioned and (not names or names[0] != "benchmark_id"):
            raise ValueError(f"{self.key}: first column is {names[:1]}; expected 'benchmark_id' in a partitioned table")

    @property
    def key(self) -> str:
        """Name in SQL and, split at the dot, the asset's key: `schema.name`."""
        return f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def clock_columns(self) -> tuple[str, ...]:
        """Columns of this table that its content hash leaves out."""
        return tuple(name for name in self.column_names if name in CLOCK_COLUMNS)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the whole table; a column that is never unknown is a field that is not nullable."""
        import pyarrow as pa

        return pa.schema([pa.field(column.name, column.type, nullable=column.nullable) for column in self.columns])

    @property
    def layout(self) -> str:
        """Names and types of the columns as text: what makes rows written under another contract out of date."""
        return "\n".join(f"{c.name}: {c.type_name}{'' if c.nullable else ' not null'}" for c in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; raises KeyError naming the columns there are."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.key} has no column {name!r}; it has {list(self.column_names)}")


BENCHMARK_ID = Column("benchmark_id", STRING, "benchmark: its name, or name@version", nullable=False)


def text(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """A text column: ids, labels, JSON."""
    return Column(name, STRING, meaning, "", nullable)


def texts(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """A column of lists of texts."""
    return Column(name, STRINGS, meaning, "", nullable)


def integer(name: str, meaning: str, unit: str = "", *, nullable: bool = True) -> Column:
    """A column of whole numbers: counts, ranks, seeds, running numbers."""
    return Column(name, INTEGER, meaning, unit, nullable)


def real(name: str, meaning: str, unit: str = "", *, nullable: bool = True) -> Column:
    """A column of float64 numbers."""
    return Column(name, REAL, meaning, unit, nullable)


def vector(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """A column of lists of float64 numbers."""
    return Column(name, REALS, meaning, "", nullable)


def flag(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """A column of true and false."""
    return Column(name, FLAG, meaning, "", nullable)


def moment(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """A column of points in time, UTC, to the microsecond."""
    return Column(name, UTC_TIME, meaning, "", nullable)


def partitioned(schema: str, name: str, grain: Iterable[str], columns: Iterable[Column], description: str) -> Table:
    """A table with one part a benchmark: `benchmark_id` leads the columns and the grain."""
    return Table(schema, name, ("benchmark_id", *grain), (BENCHMARK_ID, *columns), description)


def unpartitioned(schema: str, name: str, grain: Iterable[str], columns: Iterable[Column], description: str) -> Table:
    """A table that is written whole."""
    return Table(schema, name, tuple(grain), tuple(columns), description, is_partitioned=False)


def required(*columns: Column) -> tuple[Column, ...]:
    """The same columns, none of which can be unknown."""
    return tuple(
        Column(column.name, column.type_name, column.meaning, column.unit, nullable=False) for column in columns
    )


ITEM_ID = text("item_id", "item (one question)", nullable=False)
MODEL_ID = text("model_id", "model, canonical spelling", nullable=False)
MODEL_A_ID = text("model_a_id", "first model of the pair, before model_b_id as text", nullable=False)
MODEL_B_ID = text("model_b_id", "second model of the pair", nullable=False)
CLUSTER_ID = integer("cluster_id", "cluster of items, 0 = heaviest", nullable=False)
