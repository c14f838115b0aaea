"""What was told, as a canonical folder: items, results, benchmark.yml; ready for `capeval ingest`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.sessions.ledger import Answer
from capeval_pipeline.sessions.records import SessionConfig, SessionExport, SessionItem

FILES = ("items.parquet", "results.parquet", "benchmark.yml")
MARK = "# written by `capeval identify export`"


def write_export(
    folder: Path, config: SessionConfig, items: Sequence[SessionItem], answers: Sequence[Answer]
) -> SessionExport:
    """Write the folder, or write an earlier export again.

    The benchmark is called after the one of the session and the session, so that half-asked models do not turn up in
    the leaderboard of the whole one; `--benchmark` of ingest says otherwise. Scores are as told; a call that failed to
    the last is an error, which the folder declares to count as wrong, as it does in the session.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _refuse_others(folder)
    name = f"{config.benchmark_id.rsplit('@', 1)[0]}_{config.session}"
    item_table = pa.table(
        {
            "item_id": pa.array([item.item_id for item in items], pa.string()),
            "prompt": pa.array([item.prompt for item in items], pa.string()),
            "category": pa.array([item.category for item in items], pa.string()),
        }
    )
    rows = sorted(answers, key=lambda answer: (answer.arm, answer.item))
    results = pa.table(
        {
            "model": pa.array([config.arms[row.arm] for row in rows], pa.string()),
            "item_id": pa.array([items[row.item].item_id for row in rows], pa.string()),
            "generation": pa.array([0] * len(rows), pa.int64()),
            "score": pa.array([row.score for row in rows], pa.float64()),
            "cost_usd": pa.array([row.cost for row in rows], pa.float64()),
            "status": pa.array(["error" if row.score is None else "ok" for row in rows], pa.string()),
        }
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, file in ((item_table, FILES[0]), (results, FILES[1])):
            aside = folder / f".{file}.part"
            pq.write_table(table, aside)
            os.replace(aside, folder / file)
        aside = folder / f".{FILES[2]}.part"
        aside.write_text(_declarations(config, name), encoding="utf-8")
        os.replace(aside, folder / FILES[2])
    except OSError as error:
        raise CapevalError(f"{folder}: cannot be written ({error.strerror})") from error
    return SessionExport(config.session, folder, name, len(rows))


def _declarations(config: SessionConfig, name: str) -> str:
    # JSON texts are YAML texts, whatever is in the name.
    return "\n".join(
        [
            MARK,
            f"name: {json.dumps(name)}",
            f"score_range: [{config.score_low!r}, {config.score_high!r}]",
            f"higher_is_better: {str(config.higher_is_better).lower()}",
            "error_policy: wrong",
            "zero_cost: real",
            "",
        ]
    )


def _refuse_others(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CapevalError(f"{folder}: is a file; expected a folder to write to")
    there = [name for name in FILES if (folder / name).exists()]
    declared = folder / FILES[2]
    is_ours = declared.is_file() and declared.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    if there and not is_ours:
        raise CapevalError(f"{folder}: holds a {there[0]} that no export wrote; name another folder")
