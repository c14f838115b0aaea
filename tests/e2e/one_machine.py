"""What one machine makes of a small benchmark: the reference for lakes, event logs and executors elsewhere."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.e2e.conftest import call_capeval, write_benchmark


@dataclass(frozen=True)
class Reference:
    """The benchmark's files, and the data version of every table on one machine: everything in a folder, threads."""

    files: Path
    data_versions: dict[str, str]


def data_versions(data: Path, benchmark_id: str = "desk") -> dict[str, str]:
    """Data version of every table of a benchmark, as published."""
    query = f"""select "schema", "table", data_version from meta.data_versions where benchmark_id = '{benchmark_id}'"""
    rows = json.loads(call_capeval("sql", query, "--json", data=data).stdout)
    return {f"{row['schema']}.{row['table']}": row["data_version"] for row in rows}


@cache
def on_one_machine(folder: Path) -> Reference:
    """Made once in a test process; `folder` is that of the whole session."""
    files = write_benchmark(folder / "one_machine" / "desk", ("ada", "bob", "cyd"), n_items=60)
    workspace = folder / "one_machine" / "workspace"
    call_capeval("ingest", str(files), data=workspace)
    call_capeval("run", data=workspace)
    return Reference(files, data_versions(workspace))
