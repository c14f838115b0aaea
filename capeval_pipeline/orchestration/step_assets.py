"""The Dagster asset of a step: its outputs, checks, launchpad fields and when it asks to run.

Loaded with the definitions; what a running step needs is imported when one runs (step_runs.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from capeval_pipeline.orchestration.asset_pages import page_of_asset
from capeval_pipeline.orchestration.automation_conditions import follow_data_versions
from capeval_pipeline.orchestration.launchpad import config_fields
from capeval_pipeline.orchestration.partitions import BENCHMARKS
from capeval_pipeline.orchestration.records import asset_key
from capeval_pipeline.orchestration.run_processes import mark_run
from capeval_pipeline.orchestration.stages import CLAIMS_CHECK, CONTRACT_CHECK, FIT_CHECK, OWNERS, StageAsset
from capeval_pipeline.stage_settings import STAGE_SETTINGS

CHECKS_SAY = {
    CONTRACT_CHECK: "Columns, types, keys and grain are as the table's contract declares them.",
    CLAIMS_CHECK: "No row breaks a claim that stands beside the SQL model; its keys are unique.",
    FIT_CHECK: "Every fit settled; one that does not gives no rows.",
}


def build_asset(step: StageAsset) -> dg.AssetsDefinition:
    """The Dagster multi-asset of a step, one partition a benchmark."""

    @dg.multi_asset(
        name=step.name,
        specs=[_spec(step, key) for key in step.outputs],
        check_specs=[
            dg.AssetCheckSpec(
                name, asset=asset_key(key), blocking=step.is_blocking(name), description=CHECKS_SAY.get(name)
            )
            for key in step.outputs
            for name in step.checks_of(key)
        ],
        partitions_def=BENCHMARKS,
        config_schema=config_fields(STAGE_SETTINGS.get(step.stage), step.run_fields),
        required_resource_keys={"workspace"},
        can_subset=False,
    )
    def materialize(context: dg.AssetExecutionContext) -> Iterator[Any]:
        from capeval_pipeline.orchestration.step_runs import run_step

        mark_run(context.instance, context.run)
        yield from run_step(context, step)

    return materialize


def _spec(step: StageAsset, key: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key(key),
        deps=[asset_key(read) for read in step.inputs],
        group_name=step.stage,
        description="\n\n".join(filter(None, (step.table_descriptions.get(key), step.description))),
        code_version=step.code_version,
        automation_condition=_condition(step),
        owners=OWNERS,
        kinds=set(step.kinds),
        metadata=page_of_asset(key, *_source(step), step.sql_model),
    )


def _condition(step: StageAsset) -> dg.AutomationCondition[Any] | None:
    if step.is_long or step.always_runs:
        return None
    return follow_data_versions(tolerates_missing=step.tolerates_missing)


def _source(step: StageAsset) -> tuple[Path, int]:
    """File and line of what makes a step's tables: the SQL, else the body."""
    if step.sql_model is not None:
        return step.sql_model.path, 1
    return Path(step.body.__code__.co_filename), step.body.__code__.co_firstlineno
