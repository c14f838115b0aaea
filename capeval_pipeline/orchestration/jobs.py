"""Jobs: one refreshes a benchmark, one publishes, one writes the report. Driver and sensors run selections of them."""

from typing import Any

import dagster as dg

from capeval_pipeline.orchestration.assets.partition_state import GATE
from capeval_pipeline.orchestration.assets.report import CURRENT_CHECK, PAGES
from capeval_pipeline.orchestration.records import asset_key

REFRESH_JOB = "refresh_benchmark"
PUBLISH_JOB = "publish_warehouse"
REPORT_JOB = "write_report"
STUDIES_JOB = "make_studies"


def jobs() -> list[Any]:
    """All of them; unresolved, as definitions want them."""
    published = dg.AssetSelection.groups("marts") - dg.AssetSelection.assets(asset_key(GATE))
    # a publish makes pages old, so it says so; writing them looks again
    current = dg.AssetSelection.checks(dg.AssetCheckKey(asset_key(PAGES), CURRENT_CHECK))
    refreshed = dg.AssetSelection.groups("ingest", "derive", "capabilities", "identification", "frontier")
    return [
        dg.define_asset_job(
            REFRESH_JOB,
            selection=refreshed | dg.AssetSelection.assets(asset_key(GATE)),
            description="Everything of one benchmark, from its files to its estimates.",
        ),
        dg.define_asset_job(
            PUBLISH_JOB,
            selection=published | current,
            description="Marts of all benchmarks and the published database.",
        ),
        dg.define_asset_job(
            REPORT_JOB,
            selection=dg.AssetSelection.groups("report"),
            description="HTML pages of the benchmarks whose published tables changed.",
        ),
        dg.define_asset_job(
            STUDIES_JOB, selection=dg.AssetSelection.groups("studies"), description="Studies on synthetic worlds."
        ),
    ]
