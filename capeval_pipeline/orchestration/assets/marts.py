"""Marts and the published database: one build, one new file, one swap of the link; each mart is an asset of its own."""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from capeval_pipeline.errors import BrokenClaims
from capeval_pipeline.orchestration.asset_pages import page_of_asset, pages_of_published, said_before
from capeval_pipeline.orchestration.assets.partition_state import GATE
from capeval_pipeline.orchestration.automation_conditions import follow_gate
from capeval_pipeline.orchestration.records import VersionRecord, asset_key, latest_records, values_hash
from capeval_pipeline.orchestration.run_processes import mark_run
from capeval_pipeline.orchestration.stages import OWNERS, StageAsset
from capeval_pipeline.orchestration.whole_changes import read_at_rest
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.locks import file_lock
from capeval_pipeline.storage.sql_models import SqlModel, SqlProject
from capeval_pipeline.storage.tables import TABLES, UNPUBLISHED_LAYERS

if TYPE_CHECKING:
    import pyarrow as pa

CLAIMS_CHECK = "claims_hold"
DATA_VERSIONS = "meta.data_versions"
PIPELINE_VERSION = "meta.pipeline_version"
PREVIOUS_LEADERBOARD = "meta.previous_leaderboard"
HELD_BACK = "meta.held_back"
META_KEYS = (DATA_VERSIONS, PIPELINE_VERSION, PREVIOUS_LEADERBOARD, HELD_BACK)
BUILT_HERE = ("marts.", *META_KEYS)
STRENGTHS = "estimates.strengths"


def mart_keys(project: SqlProject) -> list[str]:
    """Tables that one build of the warehouse makes."""
    return [*(model.key for model in project.by_layer["marts"]), *META_KEYS]


def build_marts(
    project: SqlProject, steps: Sequence[StageAsset], freshness: dg.FreshnessPolicy | None = None
) -> dg.AssetsDefinition:
    """The multi-asset that builds and publishes the warehouse from what the benchmarks' steps left in the lake."""
    marts = project.by_layer["marts"]

    @dg.multi_asset(
        name="publish",
        specs=[
            *(_mart_spec(model, freshness) for model in marts),
            *(
                dg.AssetSpec(
                    asset_key(key),
                    deps=[asset_key(GATE)],
                    group_name="marts",
                    description=TABLES[key].description,
                    automation_condition=follow_gate(asset_key(GATE)),
                    owners=OWNERS,
                    kinds={"duckdb"},
                    metadata=page_of_asset(key, Path(__file__), publish_in_turn.__code__.co_firstlineno),
                )
                for key in META_KEYS
            ),
        ],
        check_specs=[dg.AssetCheckSpec(CLAIMS_CHECK, asset=asset_key(model.key), blocking=True) for model in marts],
        config_schema={"rebuild": dg.Field(bool, default_value=False, description="Publish though nothing changed.")},
        required_resource_keys={"workspace"},
    )
    def publish(context: dg.AssetExecutionContext) -> Iterator[Any]:
        mark_run(context.instance, context.run)
        yield from publish_in_turn(context, project, steps)

    return publish


def publish_in_turn(
    context: dg.AssetExecutionContext, project: SqlProject, steps: Sequence[StageAsset]
) -> Iterator[Any]:
    """Build and publish once nobody else does; the lake is read after that, so that the later one has newer rows."""
    workspace: Workspace = context.resources.workspace
    is_forced = bool(context.op_execution_context.op_config["rebuild"])
    with file_lock(workspace.settings.root / "locks" / "publish.lock"):
        yield from _publish(context, workspace, project, published_keys(steps), is_forced=is_forced)


def published_keys(steps: Sequence[StageAsset]) -> list[str]:
    """Tables in the lake that the marts are made from: those of the steps and the studies."""
    return sorted({key for step in steps for key in step.outputs} | {k for k in TABLES if k.startswith("studies.")})


def inputs_hash(records: Mapping[tuple[str, str | None], VersionRecord]) -> dict[str, str]:
    """All parts' data versions as one input, so that a record of a hundred benchmarks stays small."""
    versions = {f"{key}|{partition or ''}": record.data_version for (key, partition), record in records.items()}
    return {"lake": values_hash(versions)}


def marts_code(project: SqlProject) -> str:
    """Code version of the whole build: every mart, every assertion, the tables there are."""
    versions = {model.key: model.code_version for model in project.by_layer["marts"]}
    assertions = {claim.name: claim.sql for claim in project.assertions}
    return values_hash(versions | assertions | {"tables": sorted(TABLES)})


def _publish(
    context: dg.AssetExecutionContext,
    workspace: Workspace,
    project: SqlProject,
    lake_keys: Sequence[str],
    *,
    is_forced: bool = False,
) -> Iterator[Any]:
    from capeval_pipeline.storage.warehouse import Warehouse, previous_leaderboard, table_schemas

    parts, versions = read_at_rest(workspace, context.instance, lake_keys)
    inputs, code, keys = inputs_hash(parts), marts_code(project), mart_keys(project)
    made = latest_records(context.instance, keys)
    settings = workspace.settings
    if not is_forced and are_published(workspace, project, made, inputs):
        for key in keys:
            yield _materialized(key, made[key, None], {**said_before(context.instance, key, None), "reused": True})
        return
    strengths = {name or "": record.data_version for (key, name), record in parts.items() if key == STRENGTHS}
    tables = {
        DATA_VERSIONS: _data_versions(parts),
        PIPELINE_VERSION: _pipeline_version(),
        PREVIOUS_LEADERBOARD: previous_leaderboard(settings.database, strengths),
    }
    schemas = {
        key: schema
        for key, schema in table_schemas(project).items()
        if key.split(".")[0] not in UNPUBLISHED_LAYERS and not key.startswith("marts.")
    }
    warehouse = Warehouse(
        settings.database, settings.warehouse_folder, workspace.limits(), n_old=settings.n_old_warehouses
    )
    try:
        published = warehouse.publish(workspace.lake.pinned(versions), schemas, project, tables)
    except BrokenClaims as refused:
        for key, (held, sentence) in refused.found.items():
            if not held:
                yield dg.AssetCheckResult(
                    passed=False, asset_key=asset_key(key), check_name=CLAIMS_CHECK, description=sentence
                )
        raise
    pages = pages_of_published(workspace, keys, published.claims, project.models)
    for key in keys:
        record = VersionRecord(
            data_version=published.data_versions.get(key) or inputs["lake"],
            code_version=code,
            inputs=inputs,
            configured="",
            n_rows=published.n_rows[key],
            checks={CLAIMS_CHECK: published.claims[key]} if key in published.claims else {},
        )
        extra = {**pages[key], "reused": False, "database": str(settings.database)}
        yield _materialized(key, record, extra)


def are_published(
    workspace: Workspace,
    project: SqlProject,
    made: Mapping[tuple[str, str | None], VersionRecord],
    inputs: Mapping[str, str],
) -> bool:
    """True if the published file is there and made of the present parts by the present code."""
    code = marts_code(project)
    return workspace.settings.database.exists() and all(
        (key, None) in made and made[key, None].is_made_of(inputs, code, "", {}) for key in mart_keys(project)
    )


def _mart_spec(model: SqlModel, freshness: dg.FreshnessPolicy | None) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key(model.key),
        # marts that read marts are built in the same step, so only what lies in the lake is a dependency
        deps=[asset_key(key) for key in sorted({GATE, *(k for k in model.references if not k.startswith(BUILT_HERE))})],
        group_name="marts",
        description=f"{model.description}\n\n```sql\n{model.sql}\n```",
        code_version=model.code_version,
        automation_condition=follow_gate(asset_key(GATE)),
        owners=OWNERS,
        kinds={"duckdb", "sql"},
        metadata=page_of_asset(model.key, model.path, model=model),
        freshness_policy=freshness,
    )


def _materialized(key: str, record: VersionRecord, extra: Mapping[str, Any]) -> dg.MaterializeResult[Any]:
    return dg.MaterializeResult(
        asset_key=asset_key(key),
        data_version=dg.DataVersion(record.data_version),
        metadata={**extra, "dagster/row_count": record.n_rows, **record.metadata()},
        check_results=[
            dg.AssetCheckResult(
                passed=bool(passed),
                asset_key=asset_key(key),
                check_name=name,
                description=str(description),
                severity=dg.AssetCheckSeverity.WARN,  # what breaks a claim is held back, so nothing here does
            )
            for name, (passed, description) in record.checks.items()
        ],
    )


def _data_versions(parts: Mapping[tuple[str, str | None], VersionRecord]) -> "pa.Table":
    import pyarrow as pa

    from capeval_pipeline.storage.conformity import conform

    rows = [
        {
            "schema": key.split(".", 1)[0],
            "table": key.split(".", 1)[1],
            "benchmark_id": partition or "",
            "data_version": record.data_version,
            "delta_version": record.delta_version,
            "code_version": record.code_version,
            "inputs": json.dumps(dict(record.inputs), sort_keys=True),
            "config": json.dumps(dict(record.config), sort_keys=True),
            "seed": record.config.get("seed"),
            "run_id": record.run_id,
            "materialized_at": datetime.fromtimestamp(record.materialized_at, UTC),
        }
        for (key, partition), record in sorted(parts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    return conform(TABLES[DATA_VERSIONS], pa.Table.from_pylist(rows, TABLES[DATA_VERSIONS].arrow_schema), None)


def _pipeline_version() -> "pa.Table":
    import pyarrow as pa

    row = {
        "version": version("capeval-pipeline"),
        "duckdb_version": version("duckdb"),
        "python_version": platform.python_version(),
        "materialized_at": datetime.now(UTC),
    }
    return pa.Table.from_pylist([row], TABLES[PIPELINE_VERSION].arrow_schema)
