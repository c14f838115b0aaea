"""Layer `verdicts`: the sentences an asset comes with; marts.verdicts puts them together."""

from capeval_pipeline.storage.tables.contract import Table, flag, partitioned, text

SCHEMA = "verdicts"

VERDICT_ASSETS = (
    "strengths",
    "item_embeddings",
    "ecc",
    "routing",
    "cold_start",
    "out_of_domain",
    "probe_policies",
    "probe_sensitivity",
    "identification",
    "frontier",
)
"""Assets that say something about a benchmark in sentences."""


def verdict_table(name: str) -> Table:
    """Contract of the sentences of the asset `name`: one row per benchmark and question."""
    return partitioned(
        SCHEMA,
        name,
        ["question"],
        [
            text("question", "what is asked: strengths, clusters, probe, routing, …", nullable=False),
            text("sentence", "the answer in one sentence, or the reason why there is none", nullable=False),
            text("source_table", "table with the figures, as schema.table"),
            flag("is_skipped", "whether the stage did not apply; the sentence is then the reason", nullable=False),
        ],
        f"Sentences of the asset {name}; one row per benchmark and question.",
    )


VERDICT_TABLES: tuple[Table, ...] = tuple(verdict_table(name) for name in VERDICT_ASSETS)
