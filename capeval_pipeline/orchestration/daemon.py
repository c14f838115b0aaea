"""Whether the daemon (sensors, schedules, queued runs) of an instance is alive, for people."""

import dagster as dg


def daemon_state(instance: dg.DagsterInstance) -> tuple[bool, str]:
    """(alive, a sentence). Not alive is no fault: `capeval run` needs no daemon."""
    statuses = instance.get_daemon_statuses()
    required = {name: status for name, status in statuses.items() if status.required}
    beating = sorted(name for name, status in required.items() if status.healthy)
    failing = sorted(
        name
        for name, status in required.items()
        if not status.healthy and status.last_heartbeat and status.last_heartbeat.errors
    )
    if failing:
        return False, f"the daemon has errors in {', '.join(failing)}; `capeval up` shows them"
    if required and len(beating) == len(required):
        return True, "the daemon runs"
    return False, "the daemon does not run, so sensors and schedules wait; `capeval up` starts it"
