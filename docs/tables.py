"""Writes docs/tables.md from the contracts of the tables and SQL models: python docs/tables.py"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.tables import TABLES

PAGE = Path(__file__).resolve().parent / "tables.md"
HEAD = """# Tables

Every table of the published database, by layer: one row per what, and what its columns mean. Written by
`python docs/tables.py`. Unknown is NULL, never 0; costs are in US dollars, latency in seconds, strengths on the logit
scale, shares and probabilities from 0 to 1, gains in percent of the reference loss. Intervals are 95 % unless a column
`level` says otherwise. A column that is not named here is none to rely on.
"""
LAYERS = {
    "raw": "what the files said",
    "staging": "the same with range, direction and error policy applied",
    "intermediate": "item scores, splits, sampled comparisons",
    "estimates": "what the methods found",
    "simulations": "replays of adaptive evaluation",
    "studies": "planted worlds, of no benchmark",
    "marts": "what people read",
    "verdicts": "sentences by the step that says them; marts.verdicts holds all",
    "meta": "versions",
}


def page() -> str:
    """The whole page."""
    return "".join(f"{part}\n" for part in _parts())


def _parts() -> Iterator[str]:
    yield HEAD
    models = load_project().models
    for layer, about in LAYERS.items():
        yield f"## {layer}: {about}\n"
        for key, table in TABLES.items():
            if table.schema == layer:
                described = [(column.name, column.meaning, column.unit) for column in table.columns]
                yield _table(key, table.description, described)
        for key, model in sorted(models.items()):
            if model.schema == layer:
                described = [(column.name, column.description, column.unit) for column in model.columns]
                yield _table(key, model.description, described)


def _table(key: str, description: str, columns: Sequence[tuple[str, str, str]]) -> str:
    rows = "\n".join(f"| `{name}` | {meaning}{f' [{unit}]' if unit else ''} |" for name, meaning, unit in columns)
    return f"### {key}\n\n{description}\n\n| column | meaning |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
