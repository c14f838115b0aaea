"""What one machine makes of the sample: the reference for lakes, event logs and executors elsewhere."""

import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.e2e.conftest import call_capeval

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
BENCHMARKS = ("circuit_quiz", "everyday_units@1.0", "support_desk")
SMALL = """
identification: {n_seeds: 4, policies: [uniform, ucb_e]}
capabilities: {n_clusters: 4, cluster_counts: [1, 2], ridges: [1.0], n_resamples: 50, n_profile_resamples: 20}
"""
"""The whole sample with small studies: these tests are about where it runs, not about the figures."""


@dataclass(frozen=True)
class Reference:
    """The sample's files, and the data version of every table on one machine: everything in a folder, threads."""

    files: Path
    data_versions: dict[str, str]


def data_versions(data: Path) -> dict[str, str]:
    """Data version of every table of every benchmark of the sample, as published."""
    names = ", ".join(f"'{name}'" for name in BENCHMARKS)
    query = f"""select benchmark_id, "schema", "table", data_version from meta.data_versions
        where benchmark_id in ({names})"""
    rows = json.loads(call_capeval("sql", query, "--json", data=data).stdout)
    return {f"{row['benchmark_id']} {row['schema']}.{row['table']}": row["data_version"] for row in rows}


@cache
def on_one_machine(folder: Path) -> Reference:
    """Made once in a test process; `folder` is that of the whole session."""
    files = folder / "one_machine" / "sample"
    shutil.copytree(SAMPLE, files, ignore=shutil.ignore_patterns("*.py", "*.md", "__pycache__"))
    for declared in files.rglob("benchmark.yml"):
        text = re.sub(r"identification:.*\n(  .*\n?)*", "", declared.read_text(encoding="utf-8"))
        declared.write_text(text + SMALL, encoding="utf-8")
    workspace = folder / "one_machine" / "workspace"
    call_capeval("ingest", str(files), data=workspace)
    call_capeval("run", data=workspace)
    found = data_versions(workspace)
    assert {key.split()[0] for key in found} == set(BENCHMARKS)
    return Reference(files, found)
