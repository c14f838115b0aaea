"""Benchmarks of judgments, of judgments beside scores, and of refusals alone: what each of them leads to."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.storage.warehouse import open_published
from tests.e2e.conftest import SETTINGS, write_benchmark

MODELS = ["alder", "birch", "cedar", "elm"]
N_ITEMS = 64
SMALL = SETTINGS.replace("n_seeds: 8", "n_seeds: 2").replace("n_resamples: 100", "n_resamples: 50")


def write_votes(folder: Path, n_items: int = N_ITEMS) -> None:
    """Each pair of models judged in both orders on each item; the judge prefers later letters, and the first."""
    rng = np.random.default_rng(5)
    rows = []
    for i in range(n_items):
        for a, first in enumerate(MODELS):
            for second in MODELS[a + 1 :]:
                gap = 0.8 * (MODELS.index(first) - MODELS.index(second))
                for position, lean in ((0, 0.6), (1, -0.6)):
                    won = "a" if rng.random() < 1 / (1 + np.exp(-gap - lean)) else "b"
                    rows.append((f"q{i:03}", first, second, won, "judge", position))
    columns = ["item_id", "model_a", "model_b", "winner", "judge", "position"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "pairs.csv", index=False)


@pytest.mark.slow
def test_judgments_lead_to_strengths_clusters_and_a_leaderboard_and_stand_beside_scores(capeval, tmp_path):
    votes = write_benchmark(
        tmp_path / "votes", MODELS, n_items=N_ITEMS, settings=SMALL.replace("name: desk", "name: votes")
    )

    def query(sql: str) -> list[dict]:
        with open_published(tmp_path / "workspace" / "capeval.duckdb") as connection:
            return connection.sql(sql).to_arrow_table().to_pylist()

    (votes / "results.csv").unlink()
    write_votes(votes)
    both = write_benchmark(
        tmp_path / "both", MODELS, n_items=N_ITEMS, settings=SMALL.replace("name: desk", "name: both")
    )
    write_votes(both)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.csv").write_text("")
    done = capeval("ingest", str(votes), str(both), str(tmp_path / "broken"), check=False)
    assert done.returncode == 1
    capeval("run", timeout=900)

    counts = {
        row["benchmark_id"]: (row["n_scores"], row["n_votes"])
        for row in query(
            """select benchmark_id, (select count(*) from raw.generations as g where g.benchmark_id = b.benchmark_id)
            as n_scores, (select count(*) from raw.judgments as j where j.benchmark_id = b.benchmark_id) as n_votes
            from raw.benchmarks as b"""
        )
    }
    assert counts == {"votes": (0, N_ITEMS * 6 * 2), "both": (N_ITEMS * 4 * 2, N_ITEMS * 6 * 2)}
    for name in ("votes", "both"):
        told = json.loads(capeval("leaderboard", name, "--json").stdout)
        ranked = [row["model_id"] for row in told["leaderboard"]]
        # where there are scores, they rank
        assert (ranked if name == "votes" else sorted(ranked)) == (MODELS[::-1] if name == "votes" else MODELS)
        bias = query(f"select * from marts.order_bias where benchmark_id = '{name}'")[0]
        assert (bias["n_pairs"], bias["is_biased"]) == (N_ITEMS * 6, True)
        assert "the order has an effect" in json.dumps(told)
        clusters = query(
            f"select is_computed, sentence from marts.verdicts where question = 'clusters' and benchmark_id = '{name}'"
        )
        assert clusters[0]["is_computed"], clusters
        clustered = f"select count(*) as n from estimates.cluster_responsibilities where benchmark_id = '{name}'"
        assert query(clustered)[0]["n"] > 0
        assert {
            row["source"] for row in query(f"select source from intermediate.comparisons where benchmark_id = '{name}'")
        } == {"judgment"}

    # the name of what was refused is no benchmark, and what was refused is told
    status = json.loads(capeval("status", "--json").stdout)
    assert sorted(entry["benchmark_id"] for entry in status["benchmarks"]) == ["both", "votes"]
    assert {row["benchmark_id"] for row in query("select distinct benchmark_id from marts.verdicts")} == {
        "both",
        "votes",
    }
    refused = query("select benchmark_ids, n_kept, first_rejection from marts.ingest_report where status = 'refused'")
    assert [(row["benchmark_ids"], row["n_kept"]) for row in refused] == [(["broken"], 0)]

    # what was taken out leaves nothing behind
    capeval("ingest", "--forget", str(votes))
    capeval("run", timeout=900)
    assert [row["benchmark_id"] for row in query("select benchmark_id from raw.benchmarks")] == ["both"]
    assert {row["benchmark_id"] for row in query("select benchmark_id from marts.leaderboard")} == {"both"}
    assert {row["benchmark_id"] for row in query("select distinct benchmark_id from marts.verdicts")} == {"both"}
