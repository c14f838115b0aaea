"""What a session can say in one sentence; numbers on 0…1 with two decimals, as in "m1 leads at .86 (.81 to .90)"."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.numbers import dollars
from capeval_pipeline.sessions.records import ArmStatus, SessionConfig, StopReason

MAX_NAMES = 6


def status_sentence(
    *,
    config: SessionConfig,
    n_told: int,
    spent_usd: float,
    rows: Sequence[ArmStatus],
    best: Sequence[int],
    is_certified: bool,
    reason: StopReason | None,
) -> str:
    """How many calls were made, who leads with what interval, and who cannot be told from the leader yet."""
    made = f"After {n_told:,} of {counted(config.n_cells, 'call')} ({_spent(n_told / config.n_cells, spent_usd)})"
    if not best:
        return f"{made}: no answer counts yet."
    if is_certified and len(best) > 1:
        names = _listed([rows[place].model_id for place in best])
        return f"{made}: {names} are equally good at {_score(rows[best[0]].estimate)}, each asked everything."
    leader = rows[best[0]]
    at = f"at {_score(leader.estimate)} ({_score(leader.lower)} to {_score(leader.upper)})"
    if is_certified:
        certain = f"{leader.model_id} is the best {at}"
        return f"{made}: {certain}; this is wrong with probability at most {config.delta:g}."
    others = [row.model_id for row in rows if row.is_candidate]
    cannot = f"{_listed(others)} cannot be told apart"
    ends: dict[StopReason | None, str] = {
        "pull_budget": f"the budget of calls is spent, and {cannot}.",
        "cost_budget": f"the next call would exceed the budget in dollars, and {cannot}.",
        "exhausted": f"there is nothing left to ask, and {cannot}.",
    }
    return f"{made}: {leader.model_id} leads {at}; " + ends.get(reason, f"{cannot} yet.")


def _spent(share: float, spent_usd: float) -> str:
    percent = 100 * share
    digits = 0 if percent >= 1 or percent == 0 else 1
    told = f"{percent:.{digits}f} %" if percent == 0 or percent >= 0.05 else "under 0.1 %"
    return told if math.isnan(spent_usd) else f"{told}, {dollars(spent_usd)}"


def _score(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _listed(names: Sequence[str]) -> str:
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[: MAX_NAMES - 1])} and {len(names) - MAX_NAMES + 1} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
