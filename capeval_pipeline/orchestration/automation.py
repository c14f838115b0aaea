"""What runs by itself: the automation sensor, the inbox sensor, the nightly and weekly schedules."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from capeval_pipeline.settings import Settings


def sensors(settings: Settings) -> Sequence[Any]:
    """The automation sensor, running from the start: it follows changed data versions to what they feed."""
    return [
        dg.AutomationConditionSensorDefinition(
            "follow_changes",
            target=dg.AssetSelection.all(),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
        )
    ]


def schedules(settings: Settings) -> Sequence[Any]:
    return []
