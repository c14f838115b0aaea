"""What `capeval verify` does: is every table in the lake what its record says, and does making it again give the same?

Nothing is written. Whether the present code, settings and inputs are those of the record is asked first: a table that
is merely stale says nothing about reproducibility.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import dagster as dg

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.orchestration.records import VersionRecord, latest_records, version_of
from capeval_pipeline.orchestration.stages import Part, StageAsset
from capeval_pipeline.orchestration.step_runs import clock_columns, recomputed
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.progress import Progress, nothing_said
from capeval_pipeline.stage_settings import STAGE_SETTINGS
from capeval_pipeline.storage.content_versions import content_version

State = Literal["same", "damaged", "differs", "stale", "kept"]
"""same: stored as recorded, and made again the same. damaged: the stored rows are not those recorded. differs: made
again from the same inputs, code and values, other rows came. stale: inputs, code or settings have changed since.
kept: stored as recorded; made from files, which are not read again."""

BAD: frozenset[str] = frozenset({"damaged", "differs"})


@dataclass(frozen=True)
class Verified:
    """What was found of one table of one benchmark, and a sentence about it."""

    benchmark_id: str
    table: str
    state: State
    sentence: str


def verify(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    steps: Sequence[StageAsset],
    benchmark_id: str,
    progress: Progress = nothing_said,
) -> Iterator[Verified]:
    """Check every table of a benchmark that was made, in the order they are made; tables never made are passed over."""
    keys = {key for step in steps for key in (*step.inputs, *step.outputs)}
    with workspace.benchmark_lock(benchmark_id):
        records = latest_records(instance, sorted(keys), [benchmark_id])
        for place, step in enumerate(steps):
            made = {key: records[key, benchmark_id] for key in step.outputs if (key, benchmark_id) in records}
            if made:
                progress(f"{benchmark_id}: {step.name}", place, len(steps))
                yield from _verified(workspace, step, benchmark_id, made, records)


def _verified(
    workspace: Workspace,
    step: StageAsset,
    benchmark_id: str,
    made: Mapping[str, VersionRecord],
    records: Mapping[tuple[str, str | None], VersionRecord],
) -> Iterator[Verified]:
    damage = {key: _damage(workspace, benchmark_id, key, record) for key, record in made.items()}
    facts = workspace.benchmark(benchmark_id)
    inputs = {key: version_of(records, key, benchmark_id) for key in step.inputs}
    first = next(iter(made.values()))
    why = first.staleness(inputs, step.code_version, step.configured(workspace, facts))
    again: dict[str, str] | str = {}
    if not step.always_runs and not why and not any(damage.values()):
        again = _made_again(workspace, step, benchmark_id, first, inputs)
    for key, record in made.items():
        if damage[key]:
            yield Verified(benchmark_id, key, "damaged", damage[key])
        elif step.always_runs:
            yield Verified(benchmark_id, key, "kept", "as recorded; made from files, which are not read again")
        elif why:
            yield Verified(benchmark_id, key, "stale", f"{why}; `capeval run` makes it again")
        elif isinstance(again, str):
            yield Verified(benchmark_id, key, "differs", f"making it again failed: {again}")
        elif again and again[key] != record.data_version:
            told = f"made again it has data version {again[key]}, recorded is {record.data_version}"
            yield Verified(benchmark_id, key, "differs", told)
        elif again:
            yield Verified(benchmark_id, key, "same", f"made again: the same {counted(record.n_rows, 'row')}")
        else:
            yield Verified(benchmark_id, key, "kept", "as recorded; not made again, since a table beside it is damaged")


def _damage(workspace: Workspace, benchmark_id: str, key: str, record: VersionRecord) -> str:
    """Why the stored rows are not those recorded, "" if they are."""
    try:
        stored = content_version(workspace.lake.read(key, benchmark_id), without=clock_columns(key))
    except CapevalError as error:
        return str(error)
    if stored == record.data_version:
        return ""
    return (
        f"the lake holds data version {stored}, recorded is {record.data_version}; "
        f"`capeval run --rebuild {key}` makes it again"
    )


def _made_again(
    workspace: Workspace, step: StageAsset, benchmark_id: str, record: VersionRecord, inputs: Mapping[str, str]
) -> dict[str, str] | str:
    """Data versions of the outputs made anew with the values of the record; a sentence where that fails."""
    model = STAGE_SETTINGS.get(step.stage)
    settings = model(**record.config) if model else None
    is_full = bool(record.overrides.get("full", False))
    run_config = {"rebuild": True} | dict.fromkeys(step.run_fields)
    part = Part(benchmark_id, workspace, workspace.benchmark(benchmark_id), is_full, run_config, inputs)
    try:
        return recomputed(step, part, settings)
    except Exception as error:  # whatever the body raises is the finding
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
