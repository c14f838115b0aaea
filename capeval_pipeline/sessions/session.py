"""A live session: which calls to make next, what can be said now, and when to stop. All state is its journal.

`ask` decides and hands out, `tell` records, `status` says what follows; each reads what other processes added to the
journal, and what it adds is on disk before it answers. What the policy makes of the answers is computed only where it
is needed: `tell` loads no compiled kernel.
"""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval_pipeline.errors import UsageError
from capeval_pipeline.kernel_cache import use_kernel_cache
from capeval_pipeline.sessions.folder import SessionFolder, session_folder
from capeval_pipeline.sessions.journal import Journal
from capeval_pipeline.sessions.ledger import Answer, Ledger
from capeval_pipeline.sessions.records import (
    ArmStatus,
    Ask,
    AskReply,
    SessionChoices,
    SessionConfig,
    SessionExport,
    SessionItem,
    SessionStatus,
    StopReason,
    TellReply,
)
from capeval_pipeline.sessions.sentence import status_sentence
from capeval_pipeline.sessions.tells import LineSorter, ask_id_of

if TYPE_CHECKING:
    from capeval_pipeline.methods.identification.allocation import Allocation
    from capeval_pipeline.sessions.setup import SessionSetup

Opened = tuple[int, list[int]]


class Session:
    """A session on disk. One object may be used by several threads, one session by several processes."""

    def __init__(self, folder: SessionFolder) -> None:
        use_kernel_cache(folder.kernels)
        self._folder = folder
        self.config: SessionConfig = folder.read_config()
        self._items: list[SessionItem] = folder.read_items(self.config)
        self._places = {item.item_id: place for place, item in enumerate(self._items)}
        self._journal = Journal(folder.journal)
        self._ledger = Ledger(self.config)
        # What the policy has to be shown, in order: batches that were opened, answers that came.
        self._events: list[Opened | list[Answer]] = []
        self._n_shown = 0
        self._allocation: Allocation | None = None
        self._mutex = threading.RLock()

    @classmethod
    def open(cls, data: str | Path, name: str) -> Session:
        """A session of the workspace `data`. Raises UsageError where there is none of that name."""
        return cls(session_folder(data, name))

    @classmethod
    def start(cls, data: str | Path, setup: SessionSetup) -> Session:
        """Make a session from a setup. Raises CapevalError where there is one of that name."""
        folder = session_folder(data, setup.config.session)
        folder.make(setup)
        return cls(folder)

    @classmethod
    def create(
        cls,
        data: str | Path,
        name: str,
        *,
        benchmark: str,
        arms: Iterable[str],
        items: Iterable[str] | None = None,
        policy: str = "pulse",
        delta: float = 0.05,
        batch: int | None = None,
        seed: int = 0,
        pull_budget: int | None = None,
        cost_budget: float | None = None,
        prices: Mapping[str, float] | None = None,
    ) -> Session:
        """Make a session on a benchmark of the workspace `data`, which is read right after `capeval ingest`.

        arms : models to choose among, known to the benchmark or not; items : ids, default all of the benchmark
        delta : probability with which certificate and limits may fail; batch : calls per decision
        pull_budget : most cells asked; cost_budget : most dollars, which needs a price for every arm
        prices : arm → USD per call, replaced by the mean of told costs

        The item factors are fitted on the benchmark's other models. Raises UsageError for wrong arguments, CapevalError
        where the session exists or the policy lacks what it needs.
        """
        folder = session_folder(data, name)
        folder.refuse_if_there()
        use_kernel_cache(folder.kernels)
        from capeval_pipeline.sessions.setup import prepare

        setup = prepare(
            data,
            name,
            benchmark,
            SessionChoices(
                arms=list(arms),
                items=None if items is None else list(items),
                policy=policy,
                delta=delta,
                batch=batch,
                seed=seed,
                pull_budget=pull_budget,
                cost_budget=cost_budget,
                prices=prices or {},
            ),
        )
        return cls.start(data, setup)

    @property
    def name(self) -> str:
        """Name of the session, which is also that of its folder."""
        return self.config.session

    def ask(self, max_asks: int | None = None, *, reissue: bool = False) -> AskReply:
        """Hand out calls: at most `max_asks`, by default the rest of a batch or a new one.

        With answers pending further batches come from the next arms; no asks without stop means: tell first. With
        `reissue` the pending ones again, under their ids. Calls that failed are handed out again first.

        Raises UsageError for `max_asks` below 1, JournalError where the journal cannot be read, written or locked.
        """
        if max_asks is not None and max_asks < 1:
            raise UsageError(f"max is {max_asks}; expected at least 1")
        if reissue:
            with self._mutex:
                self._catch_up()
                pending = list(self._ledger.pending)
                return self._reply(pending if max_asks is None else pending[:max_asks])
        with self._mutex, self._journal.locked():
            self._catch_up()
            before = len(self._ledger.asked)
            try:
                record = self._decided(max_asks)
                if record is not None:
                    self._journal.append(record)
            except BaseException:
                # The policy may have decided what was not recorded; it is shown the journal anew when next needed.
                self._allocation = None
                raise
            if record is not None:
                self._take_in(record)
                self._n_shown = len(self._events)  # its batches were opened as they were decided
            return self._reply(list(range(before, len(self._ledger.asked))))

    def tell(self, lines: Iterable[Mapping[str, Any] | str | bytes] | Mapping[str, Any] | str | bytes) -> TellReply:
        """Record answers: objects, or JSON lines, or one text of such lines. Good ones count even beside refused ones.

        All that is accepted is one entry of the journal, on disk before this returns; the same lines again change
        nothing. Raises JournalError where the journal cannot be read, written or locked; then nothing was recorded.
        """
        if isinstance(lines, Mapping):
            lines = [lines]
        elif isinstance(lines, str):
            lines = lines.split("\n")
        elif isinstance(lines, bytes):
            lines = lines.split(b"\n")
        given = list(lines)  # reading them may take long, and nobody should wait for it
        with self._mutex:
            with self._journal.locked():
                self._catch_up()
                found = LineSorter(self.config, self._ledger, self._places).sort(given)
                if found.answers:
                    record = {"kind": "tell", "answers": found.answers}
                    self._journal.append(record)
                    self._take_in(record)
                n_pending = len(self._ledger.pending)
            if self._allocation is not None:
                self._shown()  # what a round of many arms takes is taken here, so that the next ask need not wait
        return TellReply(len(found.answers), found.n_already, tuple(found.rejected), n_pending)

    def status(self) -> SessionStatus:
        """What can be said now; waits for no other process and writes nothing. Raises JournalError on damage."""
        with self._mutex:
            return self._status()

    def _status(self) -> SessionStatus:
        self._catch_up()
        allocation = self._shown()
        estimates, limits = allocation.estimates, allocation.limits()
        candidates = allocation.candidates
        is_certified = allocation.is_certified
        arms = self.config.arms
        leader = allocation.leader
        best = candidates.tolist() if is_certified else [leader] if leader >= 0 else []
        counts = allocation.counts
        reason = self._stop_reason(allocation)
        can_win = set(candidates.tolist())
        rows = tuple(
            ArmStatus(
                model_id=arm,
                n_answers=int(counts[place]),
                estimate=float(estimates[place]),
                lower=float(limits[place, 0]),
                upper=float(limits[place, 1]),
                is_candidate=place in can_win,
            )
            for place, arm in enumerate(arms)
        )
        n_told = len(self._ledger.answers)
        sentence = status_sentence(
            config=self.config,
            n_told=n_told,
            spent_usd=self._ledger.spent_usd if self._ledger.has_costs else math.nan,
            rows=rows,
            best=best,
            is_certified=is_certified,
            reason=reason,
        )
        return SessionStatus(
            session=self.name,
            policy=self.config.policy,
            n_told=n_told,
            n_pending=len(self._ledger.pending),
            n_waiting=n_told - int(counts.sum()),
            spent_usd=self._ledger.spent_usd if self._ledger.has_costs else math.nan,
            certified=is_certified,
            best=tuple(arms[place] for place in best),
            candidates=tuple(arms[place] for place in candidates),
            delta=self.config.delta,
            sentence=sentence,
            arms=rows,
            stop=reason is not None,
            reason=reason,
        )

    def export(self, folder: str | Path) -> SessionExport:
        """Write what was told as a canonical folder, ready for `capeval ingest`.

        Raises CapevalError where the folder holds files of something else.
        """
        from capeval_pipeline.sessions.export import write_export

        with self._mutex:
            self._catch_up()
            return write_export(Path(folder), self.config, self._items, self._ledger.answers)

    def _catch_up(self) -> None:
        records = self._journal.read_on()
        was_collecting = gc.isenabled()
        gc.disable()  # a long journal makes many small records and no garbage: looking for some doubles the time
        try:
            for record in records:
                self._take_in(record)
        finally:
            if was_collecting:
                gc.enable()

    def _take_in(self, record: dict[str, Any]) -> None:
        if record["kind"] == "ask":
            self._events.extend(self._ledger.record_ask(record))
        else:
            self._events.append(self._ledger.record_tell(record))

    def _shown(self) -> Allocation:
        """The policy, shown everything that happened so far."""
        import numpy as np

        if self._allocation is None:
            from capeval_pipeline.sessions.policy import allocation_of

            self._allocation, self._n_shown = allocation_of(self.config, self._folder.read_predictor(self.config)), 0
        allocation = self._allocation
        waiting: list[Answer] = []

        def show_answers() -> None:
            if waiting:
                arms, items, scores, _, _ = zip(*waiting, strict=True)
                allocation.update(np.array(arms), np.array(items), np.array(scores))
                waiting.clear()

        while self._n_shown < len(self._events):
            event = self._events[self._n_shown]
            self._n_shown += 1
            if isinstance(event, tuple):
                show_answers()
                allocation.open(event[0], np.array(event[1], dtype=np.int32))
            else:
                waiting.extend(event)
                if not allocation.is_order_free:
                    show_answers()
        show_answers()
        return allocation

    def _decided(self, max_asks: int | None) -> dict[str, Any] | None:
        """The record of what is handed out now, None where nothing is."""
        allocation = self._shown()
        if allocation.is_certified:
            return None
        ledger = self._ledger
        decided: list[Opened] = []
        given: list[tuple[int, int]] = []
        ready = [*ledger.retries, *ledger.queue]
        expected_cost = 0.0
        n_most = math.inf if max_asks is None else max_asks
        while len(given) < n_most:
            if not ready:
                if max_asks is None and given:
                    break
                arm = allocation.next_arm
                n_left = self._pulls_left() - sum(len(items) for _, items in decided)
                if arm < 0 or n_left <= 0 or not ledger.is_affordable(arm, expected_cost):
                    break
                batch = allocation.select(n_left)
                assert batch is not None
                items = batch.items.tolist()
                decided.append((batch.arm, items))
                ready = [(batch.arm, item) for item in items]
            arm = ready[0][0]
            if not ledger.is_affordable(arm, expected_cost):
                break
            if self.config.cost_budget is not None:
                expected_cost += ledger.price_of(arm)
            given.append(ready.pop(0))
        return {"kind": "ask", "decided": decided, "given": given} if decided or given else None

    def _pulls_left(self) -> int:
        budget = self.config.n_cells if self.config.pull_budget is None else self.config.pull_budget
        return budget - self._ledger.n_decided

    def _stop_reason(self, allocation: Allocation) -> StopReason | None:
        """Why nothing more will be handed out; None while something may be, also once pending answers are told."""
        if allocation.is_certified:
            return "certified"
        ledger = self._ledger
        if ledger.pending:
            return None
        cell = ledger.next_cell
        if cell is not None:
            return None if ledger.is_affordable(cell[0]) else "cost_budget"
        if allocation.is_finished:
            return "pull_budget" if allocation.policy.kind == "successive_rejects" else "exhausted"
        if self._pulls_left() <= 0:
            return "pull_budget"
        return None if ledger.is_affordable(allocation.next_arm) else "cost_budget"

    def _reply(self, numbers: Iterable[int]) -> AskReply:
        asks = []
        for number in numbers:
            arm, place = self._ledger.asked[number]
            item = self._items[place]
            asks.append(Ask(ask_id_of(number), self.config.arms[arm], item.item_id, item.prompt))
        reason = None if asks else self._stop_reason(self._shown())
        return AskReply(self.name, tuple(asks), len(self._ledger.pending), reason is not None, reason)
