"""Speed and memory of `capeval ingest` beside a bare copy of the same file by DuckDB, in one run. Never a test.

Rows: CAPEVAL_INGEST_ROWS, 200,000 unless set; the figures of the design are for 10,000,000. `pytest benchmarks/
test_ingest_speed.py -s` prints rows a CPU second, the ratio to the copy, and the peak of the whole command in MB.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N_ROWS = int(os.environ.get("CAPEVAL_INGEST_ROWS", "200000"))
N_MODELS = 100
MAX_PEAK_MB = 1_000
COMMAND = """
import sys, time
from pathlib import Path
from capeval_pipeline.cli import main
import capeval_pipeline.definitions
started, began = time.process_time(), time.monotonic()
sys.argv = ["capeval", "--data", sys.argv[1], "ingest", *sys.argv[2:], "--json"]
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(time.process_time() - started, time.monotonic() - began, peak, file=sys.stderr)
"""
"""The start of the process, imports included, is not counted. The peak is this process's alone: ru_maxrss would begin
with the highest of the parent, which wrote the files."""


def ingested(data: Path, *paths: Path) -> tuple[float, float, int, list[dict]]:
    """CPU seconds, wall seconds and peak MB of one ingest, and its reports."""
    words = [sys.executable, "-c", COMMAND, str(data), *map(str, paths)]
    environment = {**os.environ, "CAPEVAL_DATA": str(data)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    seconds, wall, peak = done.stderr.strip().splitlines()[-1].split()
    return float(seconds), float(wall), int(peak), json.loads(done.stdout)


def table(rng: np.random.Generator) -> pa.Table:
    """N_ROWS answers of 100 models, a model after the other."""
    n_items = N_ROWS // N_MODELS
    number = np.arange(n_items * N_MODELS)
    tokens = rng.integers(10, 900, len(number))
    return pa.table(
        {
            "item_id": pa.array(np.char.add("item-", (number % n_items).astype(str))),
            "model": pa.array(np.char.add("lab/model-", (number // n_items).astype(str))),
            "score": rng.integers(0, 2, len(number)).astype(float),
            "input_tokens": tokens,
            "cost_usd": tokens * 1e-6,
        }
    )


def lm_eval_samples(folder: Path, n_rows: int) -> None:
    question = "The quick brown fox jumps over the lazy dog and some more words follow to make this a question"
    stamp = "2024-05-01T10-00-00.000000"
    with (folder / f"samples_arc_{stamp}.jsonl").open("w") as file:
        for i in range(n_rows):
            sent = {"arg_0": f"Question: {question} {i}?\nAnswer:", "arg_1": " a"}
            line = {"doc_id": i, "doc": {"question": f"{question} {i}?", "choices": ["a", "b"]}, "target": "1"}
            line |= {"arguments": {"gen_args_0": sent}, "resps": [[["-1.5", "False"]]], "filter": "none"}
            line |= {"filtered_resps": [["-1.5", "False"]], "metrics": ["acc", "acc_norm"], "doc_hash": "ab" * 32}
            file.write(json.dumps(line | {"acc": i % 2, "acc_norm": 1.0}) + "\n")
    (folder / f"results_{stamp}.json").write_text(
        json.dumps({"results": {"arc": {"acc,none": 0.5, "acc_norm,none": 1}}, "configs": {}, "model_name": "lab/m"})
    )


def write(kind: str, folder: Path) -> tuple[Path, int]:
    """The path to ingest and its number of records."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    if kind == "lm_eval samples":
        lm_eval_samples(folder, N_ROWS // 10)
        return folder, N_ROWS // 10
    rows = table(rng)
    name = {"canonical Parquet": "results.parquet", "long Parquet": "scores.parquet"}.get(kind)
    if name:
        pq.write_table(rows, folder / name)
        if name == "results.parquet":
            items = rows.column("item_id").slice(0, N_ROWS // N_MODELS)
            pq.write_table(pa.table({"item_id": items}), folder / "items.parquet")
    else:
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            path = folder / ("scores.csv" if kind == "long CSV" else "scores.jsonl")
            form = "format csv, header" if kind == "long CSV" else "format json"
            source = "(from rows union all from rows)" if kind == "JSON lines, all twice" else "rows"
            connection.execute(f"copy (from {source}) to '{path}' ({form})")
    return folder, rows.num_rows * (2 if kind == "JSON lines, all twice" else 1)


def bare_copy(folder: Path) -> float:
    """CPU seconds of copying the largest file of a folder into Parquet."""
    path = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    reader = {"parquet": "read_parquet", "csv": "read_csv"}.get(path.suffix[1:], "read_json")
    started = time.process_time()
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute(f"copy (from {reader}('{path}')) to '{folder / 'copy.tmp'}' (format parquet)")
    (folder / "copy.tmp").unlink()
    return time.process_time() - started


KINDS = ["canonical Parquet", "long Parquet", "long CSV", "JSON lines", "JSON lines, all twice", "lm_eval samples"]


@pytest.mark.parametrize("kind", KINDS)
def test_ingest_beside_a_bare_copy(tmp_path, kind):
    folder, n_records = write(kind, tmp_path / "runs")
    copying = bare_copy(folder)
    first, wall, peak, reports = ingested(tmp_path / "data", folder)
    again, _, _, repeated = ingested(tmp_path / "data", folder)
    read = [report for report in reports if report["status"] == "read"]
    assert sum(report["n_read"] for report in read) == n_records
    assert {report["status"] for report in repeated} <= {"unchanged", "companion"}
    print(
        f"\n{kind}: {n_records:,} records, {n_records / wall:,.0f} a second and {n_records / first:,.0f} a CPU second, "
        f"{1e6 * first / n_records:.1f} µs each, {first / copying:.0f} times a bare copy; "
        f"peak {peak} MB; again {again / first:.1%}"
    )
    assert peak < MAX_PEAK_MB


def test_thirty_small_folders(tmp_path):
    folders = []
    for number in range(30):
        folders.append(tmp_path / f"bench{number}")
        folders[-1].mkdir()
        rows = "".join(f"q{i},m{m},{(i * 7 + m + number) % 2}\n" for m in range(3) for i in range(20))
        (folders[-1] / "scores.csv").write_text(f"item_id,model,score\n{rows}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    seconds, _, peak, reports = ingested(tmp_path / "data", *folders)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert [report["n_kept"] for report in reports] == [60] * 30
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"\n30 folders: {cpu:.1f} CPU s with the start, {seconds:.1f} without, {wall:.1f} s of wall; peak {peak} MB")
