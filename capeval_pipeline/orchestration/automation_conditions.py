"""When an asset asks to be made again: if the content of something it reads has changed, or its code has."""

from functools import cache
from typing import Any

import dagster as dg


@cache
def follow_data_versions(*, tolerates_missing: bool = False) -> Any:
    """Eager, but a new materialization upstream counts only if its data version is new; and where its own code is new.

    A re-run that gave the same bytes, a renamed file or re-ordered rows thus stop where they are.
    tolerates_missing: ask to run although something upstream was never made (long evaluations mostly are not).
    """
    changed = dg.AutomationCondition.data_version_changed()
    missing = dg.AutomationCondition.newly_missing()
    new_code = dg.AutomationCondition.code_version_changed()
    condition: Any = dg.AutomationCondition.eager().replace("newly_updated", changed)
    condition = condition.replace("newly_missing", missing | new_code)
    return condition.without(~dg.AutomationCondition.any_deps_missing()) if tolerates_missing else condition


@cache
def follow_gate(gate: dg.AssetKey) -> Any:
    """Follow one upstream asset alone: a fan-in listening to all would be asked for at the first table that moved."""
    return follow_data_versions(tolerates_missing=True).allow(dg.AssetSelection.assets(gate))
