"""The stage `studies`: what the frontier's estimators do on planted worlds. No benchmark takes part; made on demand."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from capeval_pipeline.counting import counted
from capeval_pipeline.one_thread import one_thread
from capeval_pipeline.orchestration.asset_pages import first_rows, page_of_asset, page_of_table, said_before
from capeval_pipeline.orchestration.code_versions import code_version
from capeval_pipeline.orchestration.records import VersionRecord, asset_key, latest_records, values_hash
from capeval_pipeline.orchestration.run_processes import mark_run
from capeval_pipeline.orchestration.stages import OWNERS
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd

STUDY_SEED = 20260626
# For a weekly run; benchmarks/frontier_coverage.py is the larger one, whose figures docs/frontier.md shows.
COVERAGE_SIZE: dict[str, Any] = {"generations": (2, 5), "n_seeds": 8}


@dataclass(frozen=True)
class Study:
    """A table of `studies` and the function that makes its rows."""

    table: str
    make: Callable[[], "pd.DataFrame"]


def _bias_decay() -> "pd.DataFrame":
    import pandas as pd

    from capeval_pipeline.methods.debiasing.studies import study_bias_decay

    return pd.DataFrame([vars(row) for row in study_bias_decay(seed=STUDY_SEED)])


def _debiaser_comparison() -> "pd.DataFrame":
    import pandas as pd

    from capeval_pipeline.methods.debiasing.studies import study_debiasers

    return pd.DataFrame([vars(row) for row in study_debiasers(seed=STUDY_SEED, n_seeds=4)])


def _interval_coverage() -> "pd.DataFrame":
    import pandas as pd

    from capeval_pipeline.methods.debiasing.coverage_study import study_interval_coverage

    return pd.DataFrame([vars(row) for row in study_interval_coverage(seed=STUDY_SEED, **COVERAGE_SIZE)])


def _topic_entropy() -> "pd.DataFrame":
    import pandas as pd

    from capeval_pipeline.methods.debiasing.studies import study_topic_entropy

    return pd.DataFrame([vars(row) for row in study_topic_entropy(seed=STUDY_SEED)])


FRONTIER_STUDIES: tuple[Study, ...] = (
    Study("studies.oracle_bias_decay", _bias_decay),
    Study("studies.debiaser_comparison", _debiaser_comparison),
    Study("studies.interval_coverage", _interval_coverage),
    Study("studies.topic_entropy", _topic_entropy),
)


def build_studies(studies: Sequence[Study]) -> list[dg.AssetsDefinition]:
    """An unpartitioned asset for each study; a study is made again only where its code or contract changed."""
    return [_build(study) for study in studies]


def _build(study: Study) -> dg.AssetsDefinition:
    table = TABLES[study.table]
    version = f"{code_version(study.make)}-{values_hash({'contract': table.layout})[:8]}"

    @dg.multi_asset(
        name=study.table.replace(".", "_"),
        specs=[
            dg.AssetSpec(
                asset_key(study.table),
                group_name="studies",
                description=table.description,
                code_version=version,
                owners=OWNERS,
                kinds={"python", "deltalake", "numba"},
                metadata=page_of_asset(
                    study.table, Path(study.make.__code__.co_filename), study.make.__code__.co_firstlineno
                ),
            )
        ],
        required_resource_keys={"workspace"},
        can_subset=False,
    )
    def materialize(context: dg.AssetExecutionContext) -> Any:
        return _materialize(context, study, version)

    return materialize


def _materialize(context: dg.AssetExecutionContext, study: Study, version: str) -> dg.MaterializeResult[Any]:
    from capeval_pipeline.storage.conformity import conform

    workspace: Workspace = context.resources.workspace
    mark_run(context.instance, context.run)
    made = latest_records(context.instance, [study.table]).get((study.table, None))
    if made is not None and made.is_made_of({}, version, "", {}) and workspace.lake.has_table(study.table):
        return _result(workspace, study, made, {**said_before(context.instance, study.table, None), "reused": True})
    started = time.process_time()
    with one_thread():
        frame = study.make()
    rows = conform(TABLES[study.table], frame, None)
    written = workspace.lake.write(study.table, None, rows)
    record = VersionRecord(
        data_version=written.data_version,
        code_version=version,
        inputs={},
        configured="",
        n_rows=written.n_rows,
        delta_version=written.delta_version,
    )
    said = f"{counted(record.n_rows, 'row')} from worlds made up with a known truth; they are of no benchmark."
    page = page_of_table(workspace, study.table, first_rows(rows), [said])
    numbers = {"cpu_seconds": round(time.process_time() - started, 3)}
    return _result(workspace, study, record, {**page, **numbers, "reused": False})


def _result(
    workspace: Workspace, study: Study, record: VersionRecord, extra: Mapping[str, Any]
) -> dg.MaterializeResult[Any]:
    return dg.MaterializeResult(
        asset_key=asset_key(study.table),
        data_version=dg.DataVersion(record.data_version),
        metadata={
            **extra,
            "dagster/row_count": record.n_rows,
            "dagster/uri": workspace.lake.uri(study.table),
            **record.metadata(),
        },
    )
