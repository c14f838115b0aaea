"""How far a run in this process is: each step as it starts, and what share of the work lies before it.

Steps differ a thousandfold in length, so they count by the stage they belong to; the weights are of the sample, and an
estimate made with them is one to go and get coffee by, not more.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster import DagsterEventType

from capeval_pipeline.orchestration.graph import StaleStep
from capeval_pipeline.progress import Progress

WEIGHTS = {"identification": 20.0, "ecc": 8.0, "frontier": 6.0}
"""CPU time of a step against that of a short one."""


class StepCount:
    """Counts the steps of several runs against all there will be."""

    def __init__(self, say: Progress, steps: Sequence[StaleStep]) -> None:
        self._say = say
        self._n_steps, self._work = len(steps), sum(_weight(entry.step.name) for entry in steps)
        self._n_started, self._done, self._running = 0, 0.0, 0.0

    @contextmanager
    def of_run(self, instance: dg.DagsterInstance, run_id: str, benchmark_id: str) -> Iterator[None]:
        """Tell of each step of a run as it starts; the run must go on in this process.

        Dagster takes no listener away again, but calls it for its one run alone, which is over afterwards.
        """

        def hear(event: Any) -> None:
            happened = event.dagster_event
            if happened is not None and happened.event_type is DagsterEventType.STEP_START:
                self._starts(benchmark_id, happened.step_key or "")

        instance.add_event_listener(run_id, hear)
        yield
        self._done, self._running = self._done + self._running, 0.0

    def _starts(self, benchmark_id: str, name: str) -> None:
        self._done, self._running = self._done + self._running, _weight(name)
        self._n_started += 1
        self._say(f"{benchmark_id}: {name} (step {self._n_started} of {self._n_steps})", self._done, self._work)


def _weight(name: str) -> float:
    return WEIGHTS.get(name, 1.0)
