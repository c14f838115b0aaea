"""What one machine makes of a small benchmark: the reference for lakes, event logs and executors elsewhere."""

import json
from functools import cache
from pathlib import Path

from tests.e2e.conftest import call_capeval, write_benchmark

MODELS = ("ada", "bob", "cyd")


def small_benchmark(folder: Path) -> Path:
    """The benchmark all of these tests run."""
    return write_benchmark(folder, MODELS, n_items=60)


def data_versions(data: Path) -> dict[str, str]:
    """Data version of every table, as published."""
    query = 'select "schema", "table", data_version from meta.data_versions'
    rows = json.loads(call_capeval("sql", query, "--json", data=data).stdout)
    return {f"{row['schema']}.{row['table']}": row["data_version"] for row in rows}


@cache
def versions_on_one_machine(folder: Path) -> dict[str, str]:
    """Data versions of the small benchmark with everything in one folder and threads; made once in a test process."""
    call_capeval("ingest", str(small_benchmark(folder / "files")), data=folder / "workspace")
    call_capeval("run", data=folder / "workspace")
    return data_versions(folder / "workspace")
