"""The steps of a benchmark in the order they run, and what must run when something changed. Plain records, no runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.orchestration.records import VersionRecord, version_of
from capeval_pipeline.orchestration.stages import StageAsset
from capeval_pipeline.orchestration.workspace import Workspace

STAGES = ("ingest", "derive", "capabilities", "identification", "frontier", "marts", "report", "studies")


@dataclass(frozen=True)
class StaleStep:
    """A step to run, and why, as a clause."""

    step: StageAsset
    reason: str


@dataclass(frozen=True)
class Request:
    """What one run was asked for, besides "whatever is stale".

    only: a stage, with what it needs upstream, or "" for all. overrides: stage → field → value. with_studies: also
    the studies on synthetic worlds, which no benchmark needs.
    """

    only: str = ""
    is_full: bool = False
    overrides: Mapping[str, Mapping[str, object]] | None = None
    rebuild: str = ""
    with_studies: bool = False

    def overrides_of(self, step: StageAsset) -> dict[str, object]:
        """Values set for this run on top of the configured ones, as a record stores them."""
        chosen = dict((self.overrides or {}).get(step.stage, {}))
        if step.uses_full and self.is_full:
            chosen["full"] = True
        return chosen


def in_order(steps: Iterable[StageAsset]) -> list[StageAsset]:
    """Steps sorted so that each comes after those whose outputs it reads. Raises CapevalError on a cycle."""
    waiting = sorted(steps, key=lambda step: step.name)
    producers = {key: step.name for step in waiting for key in step.outputs}
    done: set[str] = set()
    ordered: list[StageAsset] = []
    while waiting:
        ready = [
            step
            for step in waiting
            if all(producers[key] in {*done, step.name} for key in step.inputs if key in producers)
        ]
        if not ready:
            raise CapevalError(f"steps depend on each other in a circle: {', '.join(step.name for step in waiting)}")
        ordered.extend(ready)
        done.update(step.name for step in ready)
        waiting = [step for step in waiting if step.name not in done]
    return ordered


def needed_for(steps: Sequence[StageAsset], stage: str) -> list[StageAsset]:
    """Steps of a stage and everything upstream of them, in order."""
    producers = {key: step for step in steps for key in step.outputs}
    wanted: set[str] = set()
    pending = [step for step in steps if step.stage == stage]
    while pending:
        step = pending.pop()
        if step.name not in wanted:
            wanted.add(step.name)
            pending.extend(producers[key] for key in step.inputs if key in producers)
    return [step for step in steps if step.name in wanted]


def wanted_of(steps: Sequence[StageAsset], only: str) -> list[StageAsset]:
    """Steps a request for one stage is about, in order, all with ""; with any stage also the gate, the one step of
    stage marts: without it neither pages nor automation would hear of what ran."""
    if not only:
        return list(steps)
    # marts and pages are made from what there is
    needed = set() if only in ("marts", "report") else {step.name for step in needed_for(steps, only)}
    return [step for step in steps if step.name in needed or step.stage == "marts"]


def stale_steps(
    steps: Sequence[StageAsset],
    benchmark_id: str,
    records: Mapping[tuple[str, str | None], VersionRecord],
    workspace: Workspace,
    facts: Mapping[str, object] | None,
    request: Request,
) -> list[StaleStep]:
    """Which steps of a benchmark must run, in order: not made yet, made from something else, or downstream of one.

    Long evaluations count only if the request is full; new files are read by ingest alone, never here. A table asked
    to be built again is, whatever step makes it: raw tables from what was read, not from the files.
    """
    candidates = wanted_of(steps, request.only)
    stale: list[StaleStep] = []
    moving: set[str] = set()
    for step in candidates:
        if request.rebuild not in step.outputs and (step.always_runs or (step.is_long and not request.is_full)):
            continue
        reason = _reason(step, benchmark_id, records, workspace, facts, request, moving)
        if reason:
            stale.append(StaleStep(step, reason))
            moving.update(step.outputs)
    return stale


def _reason(
    step: StageAsset,
    benchmark_id: str,
    records: Mapping[tuple[str, str | None], VersionRecord],
    workspace: Workspace,
    facts: Mapping[str, object] | None,
    request: Request,
    moving: set[str],
) -> str:
    made = [records.get((key, benchmark_id)) for key in step.outputs]
    if request.rebuild in step.outputs:
        return "asked to be built again"
    if any(record is None for record in made):
        return "not made yet"
    upstream = sorted(set(step.inputs) & moving)
    if upstream:
        return f"{upstream[0]} is made again"
    inputs = {key: version_of(records, key, benchmark_id) for key in step.inputs}
    configured = step.configured(workspace, facts)
    overrides = request.overrides_of(step)
    for record in made:
        assert record is not None
        if not record.is_made_of(inputs, step.code_version, configured, overrides):
            return record.staleness(inputs, step.code_version, configured) or "other values are asked for"
    return ""
