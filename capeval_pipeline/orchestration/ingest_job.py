"""The job behind `capeval ingest`: one run that commits what was read, for all benchmarks it touches.

A run over many partitions of an asset tells Dagster one data version for all of them, and 30 runs cost 30 times what
one costs. So this is a job with one op, which tells of every table and benchmark by itself.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.orchestration.workspace import Workspace

INGEST_JOB = "ingest_files"


def ingest_job() -> dg.JobDefinition:
    """The job `ingest_files`."""

    @dg.op(
        name="commit_readings",
        required_resource_keys={"workspace"},
        config_schema={"staged": str, "benchmarks": [str]},
        out=dg.Out(dg.Nothing),
        description="Commits readings that were staged in a folder, one commit a table.",
    )
    def commit_readings(context: dg.OpExecutionContext) -> Iterator[Any]:
        from capeval_pipeline.orchestration.committing import commit_staged

        staged, names = context.op_config["staged"], context.op_config["benchmarks"]
        workspace: Workspace = context.resources.workspace
        failures: dict[str, str] = {}
        yield from commit_staged(workspace, Path(staged), names, failures)
        if failures:
            raise CapevalError("; ".join(f"{name}: {reason}" for name, reason in failures.items()))
        yield dg.Output(None)

    @dg.job(name=INGEST_JOB, description="Raw tables of the benchmarks whose files were read, in one run.")
    def ingest_files() -> None:
        commit_readings()

    return ingest_files
