"""Hundreds of benchmarks in one file: all come in, all are published, and a second run finds nothing to do.

CAPEVAL_BENCHMARKS says how many are computed: the suite takes what it has time for, as each costs a run of Dagster's
and a page. Three hundred are read always.
"""

import json
import os
from pathlib import Path

import dagster as dg
import pytest

from capeval_pipeline.storage.lake import Lake
from tests.e2e.conftest import call_capeval, query_of, versions_of
from tests.e2e.test_faults_at_work import write_scores

N_BENCHMARKS = int(os.environ.get("CAPEVAL_BENCHMARKS", "12"))
N_READ = 300
N_MODELS, N_ITEMS = 3, 4
PATIENCE = 60 + 20 * N_BENCHMARKS
COUNTS = """
    select
        (select count(distinct benchmark_id) from raw.benchmarks) as benchmarks,
        (select count(*) from raw.generations) as answers,
        (select sum(n_kept)::int from marts.ingest_report) as reported_answers,
        (select max(len(benchmark_ids)) from marts.ingest_report) as reported_benchmarks,
        (select count(distinct benchmark_id) from marts.coverage) as covered,
        (select count(*) from marts.coverage) as models,
        (select count(distinct benchmark_id) from meta.data_versions where "table" = 'comparisons') as compared,
        (select count(*) from meta.held_back) as held_back
"""


def n_runs(data: Path) -> int:
    with dg.DagsterInstance.from_config(str(data / "dagster")) as instance:
        return instance.get_runs_count()


@pytest.mark.slow
def test_any_number_of_benchmarks_is_read_published_and_then_left_alone(tmp_path):
    data, names = tmp_path / "workspace", [f"bench-{number:03}" for number in range(N_BENCHMARKS)]
    path = write_scores(tmp_path / "many.csv", names, n_models=N_MODELS, n_items=N_ITEMS)
    call_capeval("ingest", str(path), data=data, timeout=PATIENCE)
    call_capeval("run", "--only", "derive", data=data, timeout=PATIENCE)
    assert query_of(COUNTS, data) == [
        {
            "benchmarks": N_BENCHMARKS,
            "answers": N_BENCHMARKS * N_MODELS * N_ITEMS,
            "reported_answers": N_BENCHMARKS * N_MODELS * N_ITEMS,
            "reported_benchmarks": N_BENCHMARKS,
            "covered": N_BENCHMARKS,
            "models": N_BENCHMARKS * N_MODELS,
            "compared": N_BENCHMARKS,
            "held_back": 0,
        }
    ]
    before, n_before = versions_of(data), n_runs(data)
    again = call_capeval("run", "--only", "derive", data=data)
    assert again.stdout.startswith(f"skipped {', '.join(names[:5])} and {N_BENCHMARKS - 5} more: nothing asked for is")
    assert "nothing to publish" in again.stdout
    assert (versions_of(data), n_runs(data)) == (before, n_before)


@pytest.mark.slow
def test_three_hundred_benchmarks_are_read_in_one_run_and_known_again(tmp_path):
    data, names = tmp_path / "workspace", [f"bench-{number:03}" for number in range(N_READ)]
    path = write_scores(tmp_path / "many.csv", names, n_models=N_MODELS, n_items=N_ITEMS)
    call_capeval("ingest", str(path), data=data, timeout=60 + N_READ)
    assert n_runs(data) == 1
    lake = Lake(data / "lake")
    assert sorted(lake.read("raw.benchmarks").column("benchmark_id").to_pylist()) == names
    assert lake.read("raw.generations").num_rows == N_READ * N_MODELS * N_ITEMS
    (report,) = json.loads(call_capeval("ingest", str(path), "--json", data=data).stdout)
    assert (report["status"], report["benchmark_ids"]) == ("unchanged", names)
    assert n_runs(data) == 1
