"""When an asset asks to be made again: only if the content of something it reads has changed."""

import dagster as dg


def follow_data_versions() -> dg.AutomationCondition:
    """Eager, but a new materialization upstream counts only if its data version is new.

    A re-run that gave the same bytes, a renamed file or re-ordered rows thus stop where they are.
    """
    return dg.AutomationCondition.eager().replace("newly_updated", dg.AutomationCondition.data_version_changed())
