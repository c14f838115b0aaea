"""The report's pages as one asset: made again where published tables changed, else left as they are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from capeval_pipeline.counting import counted
from capeval_pipeline.orchestration.asset_pages import code_reference, first_rows, page_of_table, sql_line
from capeval_pipeline.orchestration.assets.marts import mart_keys, marts_code
from capeval_pipeline.orchestration.automation_conditions import follow_data_versions
from capeval_pipeline.orchestration.records import VersionRecord, asset_key, latest_records, values_hash
from capeval_pipeline.orchestration.run_processes import mark_run
from capeval_pipeline.orchestration.stages import OWNERS
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.locks import file_lock
from capeval_pipeline.storage.sql_models import SqlProject

PAGES = "report.pages"
CURRENT_CHECK = "pages_are_current"
ON_PAGES = sql_line("marts.verdicts")


def build_report(project: SqlProject) -> dg.AssetsDefinition:
    """The asset that writes one HTML file a benchmark and an index, after the database is published."""

    @dg.asset(
        key=asset_key(PAGES),
        deps=[asset_key(key) for key in mart_keys(project)],
        group_name="report",
        automation_condition=follow_data_versions(tolerates_missing=True),
        owners=OWNERS,
        kinds={"html"},
        metadata={"sql": ON_PAGES, **code_reference(Path(__file__), _write.__code__.co_firstlineno)},
        required_resource_keys={"workspace"},
    )
    def report_pages(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        """One self-contained HTML file a benchmark and an index, under `<data>/reports/`; no network is needed.

        Only pages of benchmarks whose published tables changed are written; the others stay, byte for byte.
        """
        workspace: Workspace = context.resources.workspace
        mark_run(context.instance, context.run)
        with file_lock(workspace.settings.root / "locks" / "report.lock"):
            return _write(context, workspace, project)

    return report_pages


def build_report_check(project: SqlProject) -> dg.AssetChecksDefinition:
    """The check that runs after every publish and every writing of pages: are they of what is published now?"""

    @dg.asset_check(
        asset=asset_key(PAGES),
        name=CURRENT_CHECK,
        additional_deps=[asset_key(key) for key in mart_keys(project)],
        required_resource_keys={"workspace"},
    )
    def pages_are_current(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Every page is of what is published now; `capeval run` and the daemon write the others again."""
        workspace: Workspace = context.resources.workspace
        made = latest_records(context.instance, [PAGES]).get((PAGES, None))
        versions = page_versions(workspace, project) if workspace.settings.database.exists() else {}
        stale = stale_pages(workspace, versions, made)
        first = f", the first that of {stale[0]}" if stale else ""
        told = f"Not of what is published: {len(stale)} of {counted(len(versions), 'page')}{first}"
        return dg.AssetCheckResult(
            passed=not stale,
            severity=dg.AssetCheckSeverity.WARN,
            description=told if stale else f"Made from what is published: {counted(len(versions), 'page')}.",
        )

    return pages_are_current


def page_versions(workspace: Workspace, project: SqlProject) -> dict[str, str]:
    """Of each published benchmark the version of everything its page depends on: tables, marts' code, report's code."""
    from capeval_pipeline.reporting import queries
    from capeval_pipeline.reporting.queries import ask
    from capeval_pipeline.reporting.writing import report_code
    from capeval_pipeline.storage.warehouse import open_published

    with open_published(workspace.settings.database) as connection:
        states = {row["benchmark_id"]: row["data_version"] for row in ask(connection, queries.FIRST_SENTENCES).rows}
        studies = ask(connection, queries.STUDY_VERSIONS).rows
    # The index links to the studies' page, which is written with the others.
    code = [marts_code(project), report_code(), [list(row.values()) for row in studies]]
    return {benchmark_id: values_hash({"state": state, "code": code}) for benchmark_id, state in states.items()}


def stale_pages(workspace: Workspace, versions: Mapping[str, str], made: VersionRecord | None) -> list[str]:
    """Benchmarks whose page is missing or made from something else."""
    from capeval_pipeline.reporting.index import page_name

    before = made.inputs if made else {}
    folder = workspace.settings.reports
    return [
        benchmark_id
        for benchmark_id, version in sorted(versions.items())
        if before.get(benchmark_id) != version or not (folder / page_name(benchmark_id)).exists()
    ]


def are_written(workspace: Workspace, instance: dg.DagsterInstance, project: SqlProject) -> bool:
    """True if every page and the index are there and made from what is published now."""
    from capeval_pipeline.reporting.writing import INDEX

    versions = page_versions(workspace, project)
    made = latest_records(instance, [PAGES]).get((PAGES, None))
    is_complete = made is not None and dict(made.inputs) == versions
    return is_complete and not stale_pages(workspace, versions, made) and (workspace.settings.reports / INDEX).exists()


def _write(context: dg.AssetExecutionContext, workspace: Workspace, project: SqlProject) -> dg.MaterializeResult[Any]:
    from capeval_pipeline.reporting.writing import INDEX, write_pages
    from capeval_pipeline.storage.warehouse import open_published

    versions = page_versions(workspace, project)
    made = latest_records(context.instance, [PAGES]).get((PAGES, None))
    stale = stale_pages(workspace, versions, made)
    folder = workspace.settings.reports
    is_reused = not stale and made is not None and dict(made.inputs) == versions and (folder / INDEX).exists()
    if not is_reused:
        with open_published(workspace.settings.database) as connection:
            write_pages(connection, folder, stale)
    record = VersionRecord(
        data_version=values_hash(versions), code_version="", inputs=versions, configured="", n_rows=len(versions)
    )
    return dg.MaterializeResult(
        data_version=dg.DataVersion(record.data_version),
        metadata={
            **page_of_table(workspace, PAGES, _listed(versions), [_said(versions, stale, is_reused)], ON_PAGES),
            "dagster/row_count": len(versions),
            "n_pages": len(versions),
            "n_written": len(stale),
            "reused": is_reused,
            **record.metadata(),
        },
    )


def _said(versions: Mapping[str, str], stale: Sequence[str], is_reused: bool) -> str:
    told = f"{counted(len(versions), 'benchmark')} with a page"
    return f"{told}; all were up to date." if is_reused else f"{told}, {len(stale)} written now."


def _listed(versions: Mapping[str, str]) -> str:
    """The pages as a Markdown table."""
    import pyarrow as pa

    from capeval_pipeline.reporting.index import page_name

    pages = {"benchmark": list(versions), "page": [page_name(name) for name in versions]}
    return first_rows(pa.table(pages, schema=pa.schema({"benchmark": pa.string(), "page": pa.string()})))
