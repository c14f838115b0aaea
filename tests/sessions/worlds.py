"""Sessions on planted scores, made without a lake: a benchmark in memory, and answers to what is asked."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from capeval_pipeline.sessions import AskReply, Session, SessionChoices, SessionItem
from capeval_pipeline.sessions.setup import SessionSetup, setup_of
from capeval_pipeline.sessions.source import BenchmarkSource
from capeval_pipeline.stage_settings.identification import IdentificationSettings


class World:
    """A rank-1 world: 24 training models known to the benchmark, and arms that are not."""

    def __init__(self, n_arms: int = 4, n_items: int = 60, *, seed: int = 5, n_training: int = 24) -> None:
        rng = np.random.default_rng(seed)
        difficulty = rng.normal(size=n_items)
        skills = np.append(rng.normal(0.5, 1.0, n_training), np.linspace(1.6, -0.4, n_arms))
        chance = 1.0 / (1.0 + np.exp(-(skills[:, None] - difficulty)))
        scores = (rng.random(chance.shape) < chance).astype(float)
        self.items = [f"i{item:03d}" for item in range(n_items)]
        self.arms = [f"arm{arm}" for arm in range(n_arms)]
        self.scores = scores[n_training:]
        self._places = {item: place for place, item in enumerate(self.items)}
        rows = [
            (item, f"train{model:02d}", scores[model, place])
            for model in range(n_training)
            for place, item in enumerate(self.items)
        ]
        self.source = BenchmarkSource(
            benchmark_id="quiz",
            score_low=0.0,
            score_high=1.0,
            higher_is_better=True,
            items=tuple(SessionItem(item, f"prompt of {item}") for item in self.items),
            item_scores=pd.DataFrame(rows, columns=["item_id", "model_id", "quality"]),
            identification=IdentificationSettings(rank=1),
        )

    def setup(self, name: str = "s", **choices) -> SessionSetup:
        return setup_of(self.source, name, SessionChoices(**{"arms": self.arms, **choices}))

    def session(self, data: Path, name: str = "s", **choices) -> Session:
        return Session.start(data, self.setup(name, **choices))

    def score(self, model_id: str, item_id: str) -> float:
        return float(self.scores[self.arms.index(model_id), self._places[item_id]])

    def answers(self, reply: AskReply, **more) -> list[dict]:
        """Right answers to all asks of a reply."""
        return [{"ask_id": ask.ask_id, "score": self.score(ask.model_id, ask.item_id), **more} for ask in reply.asks]

    def play(self, session: Session, n_calls: int = 10**6, max_asks: int | None = None) -> list[tuple[str, str]]:
        """Ask and tell until the session stops or `n_calls` are made; every (model, item) in order."""
        made: list[tuple[str, str]] = []
        while len(made) < n_calls:
            reply = session.ask(max_asks)
            if not reply.asks:
                break
            session.tell(self.answers(reply))
            made += [(ask.model_id, ask.item_id) for ask in reply.asks]
        return made


def lines(answers: Iterable[dict]) -> bytes:
    return "".join(json.dumps(answer) + "\n" for answer in answers).encode()
