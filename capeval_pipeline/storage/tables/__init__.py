"""Every table that Python writes, by `schema.name`: the write contract of the lake.

A table is declared in the module of its layer, with the words of contract.py. Tables that SQL derives (staging,
intermediate, marts) are declared by their models in dbt_like_sql.
"""

from capeval_pipeline.storage.tables.contract import CLOCK_COLUMNS, Column, Table
from capeval_pipeline.storage.tables.estimates import CAPABILITY_TABLES
from capeval_pipeline.storage.tables.frontier import FRONTIER_TABLES
from capeval_pipeline.storage.tables.meta import META_TABLES
from capeval_pipeline.storage.tables.raw import RAW_TABLES
from capeval_pipeline.storage.tables.readings import READING_TABLES
from capeval_pipeline.storage.tables.simulations import SIMULATION_TABLES
from capeval_pipeline.storage.tables.studies import STUDY_TABLES
from capeval_pipeline.storage.tables.verdicts import VERDICT_TABLES, verdict_table

UNPUBLISHED_LAYERS = frozenset({"readings"})
"""Layers of the lake that nobody queries: what each file said, before the files of a benchmark are put together."""

TABLES: dict[str, Table] = {
    table.key: table
    for table in (
        *RAW_TABLES,
        *READING_TABLES,
        *CAPABILITY_TABLES,
        *FRONTIER_TABLES,
        *SIMULATION_TABLES,
        *STUDY_TABLES,
        *VERDICT_TABLES,
        *META_TABLES,
    )
}

__all__ = ["CLOCK_COLUMNS", "TABLES", "UNPUBLISHED_LAYERS", "Column", "Table", "verdict_table"]
