"""A small benchmark and the command as a user calls it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

COMMAND = str(Path(sys.executable).parent / "capeval")
TOPICS = {"refunds": "refund of an order", "routes": "fastest route by train", "sums": "sum of two fractions"}
SETTINGS = """
name: desk
score_range: [0, 1]
has_true_generations: true
identification: {n_seeds: 8, policies: [uniform, ucb_e]}
capabilities: {n_clusters: 4, cluster_counts: [1, 2], ridges: [1.0], n_resamples: 100, n_profile_resamples: 20}
"""
"""Small sizes: these tests are about what runs when, not about the figures."""

Capeval = Callable[..., "subprocess.CompletedProcess[str]"]


def write_benchmark(folder: Path, models: Sequence[str], *, n_items: int = 120, settings: str = SETTINGS) -> Path:
    """A canonical folder: prompts of three topics, two generations a cell, costs. A model's rows are its own seed's."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(TOPICS)
    items = [
        {
            "item_id": f"q{i:03}",
            "category": names[i % 3],
            "prompt": f"Case {i}: explain the {TOPICS[names[i % 3]]} no {i // 3}",
        }
        for i in range(n_items)
    ]
    pd.DataFrame(items).to_csv(folder / "items.csv", index=False)
    rows = []
    for model in models:
        own = np.random.default_rng([ord(letter) for letter in model])
        skill = own.normal(0.6, 0.8, size=3)
        for i in range(n_items):
            for generation in range(2):
                right = own.random() < 1 / (1 + np.exp(-skill[i % 3]))
                cost = round(float(0.001 * np.exp(skill.mean() + own.normal(0, 0.2))), 8)
                rows.append((model, f"q{i:03}", generation, int(right), cost))
    frame = pd.DataFrame(rows, columns=["model", "item_id", "generation", "score", "cost_usd"])
    frame.to_csv(folder / "results.csv", index=False)
    (folder / "benchmark.yml").write_text(settings)
    return folder


VERSIONS = """
    select "schema" || '.' || "table" as key, benchmark_id, data_version
    from meta.data_versions
    where "table" <> 'partition_state'
    order by all
"""
HISTORY = {"raw.files", "readings.files"}
"""Tables that keep when and from where something came, which two workspaces need not share."""


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of(data: Path) -> dict[str, str]:
    """The environment of a command on the workspace `data`."""
    return {**os.environ, "CAPEVAL_DATA": str(data), "COLUMNS": "200"}


def query_of(sql: str, data: Path) -> list[dict]:
    """Rows of a query over the published database of a workspace, without a process of its own."""
    from capeval_pipeline.storage.warehouse import open_published

    with open_published(data / "capeval.duckdb") as connection:
        return connection.sql(sql).to_arrow_table().to_pylist()


def versions_of(data: Path) -> dict[tuple[str, str], str]:
    """(Table, benchmark) → data version of what is published, tables of history apart."""
    rows = query_of(VERSIONS, data)
    return {(row["key"], row["benchmark_id"]): row["data_version"] for row in rows if row["key"] not in HISTORY}


def call_capeval(
    *words: str, data: Path, timeout: float = 300, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    """The command on the workspace `data`, in a process of its own; with check an exit other than 0 fails the test."""
    done = subprocess.run(
        [COMMAND, *words],
        env=environment_of(data),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=data.parent,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"capeval {' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


@pytest.fixture
def capeval(tmp_path: Path) -> Capeval:
    """Call the command on a workspace of its own: capeval("run", "--full"); data= names another workspace."""

    def call(*words: str, data: Path | None = None, timeout: float = 300, check: bool = True):
        return call_capeval(*words, data=data or tmp_path / "workspace", timeout=timeout, check=check)

    return call


@pytest.fixture
def query(capeval: Capeval):
    """Rows of a query over the published database, as dicts."""

    def ask(sql: str, data: Path | None = None) -> list[dict]:
        return json.loads(capeval("sql", sql, "--json", data=data).stdout)

    return ask
