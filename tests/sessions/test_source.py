"""What a session reads is of one moment: never half of a change. A step that still computes is not waited for."""

import threading
from pathlib import Path

import pandas as pd
import pytest

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.sessions.source import read_benchmark
from capeval_pipeline.settings import Settings
from capeval_pipeline.storage import unfinished
from capeval_pipeline.storage.conformity import conform
from capeval_pipeline.storage.lake import lake_of
from capeval_pipeline.storage.locks import benchmark_lock, unfinished_note
from capeval_pipeline.storage.tables import TABLES
from tests.patience import ended

KEYS = ("raw.items", "raw.models", "raw.generations", "raw.benchmarks")


class Quiz:
    """A benchmark of some items in a lake, changed a table at a time."""

    def __init__(self, data: Path) -> None:
        self.settings = Settings(data=data)
        self.lake = lake_of(self.settings)
        self.note = unfinished_note(self.settings.root, "quiz")
        self.note.parent.mkdir(parents=True)

    def write(self, items: list[str], keys=KEYS) -> None:
        given = {
            "raw.items": {"item_id": items},
            "raw.models": {"model_id": ["alder"]},
            "raw.generations": {
                "item_id": items, "model_id": "alder", "generation_id": 0, "score": 1.0, "status": "ok",
                "cost_source": "unknown", "file_id": "f",
            },
            "raw.benchmarks": {"name": ["quiz"], "score_low": 0.0, "score_high": 1.0, "higher_is_better": True},
        }  # fmt: skip
        for key in keys:
            frame = pd.DataFrame(given[key])
            for column in set(TABLES[key].column_names) - {*frame, "benchmark_id"}:
                frame[column] = None
            self.lake.write(key, "quiz", conform(TABLES[key], frame, "quiz"))

    def begin(self, items: list[str]) -> None:
        """Note a change and make half of it."""
        unfinished.note_before(self.note, self.lake, "quiz", KEYS)
        self.write(items, KEYS[:2])

    def end(self, items: list[str]) -> None:
        self.write(items, KEYS[2:])
        self.note.unlink()

    def read(self) -> tuple[list[str], list[str]]:
        """Items as declared, and as the scores name them."""
        found = read_benchmark(self.settings, "quiz")
        return [item.item_id for item in found.items], sorted(found.item_scores["item_id"])


@pytest.fixture
def quiz(tmp_path) -> Quiz:
    return Quiz(tmp_path)


def test_a_change_that_was_cut_short_is_put_back_and_its_note_stays_for_the_next_run(quiz):
    quiz.write(["old"])
    quiz.begin(["new"])
    assert quiz.read() == (["old"], ["old"])
    assert quiz.note.exists()


def test_a_first_ingest_that_was_cut_short_is_told_as_such(quiz):
    unfinished.note_before(quiz.note, quiz.lake, "quiz", KEYS)
    quiz.write(["new"])
    with pytest.raises(CapevalError, match="the first ingest of benchmark 'quiz' was cut short"):
        quiz.read()


def test_a_change_under_way_is_waited_for(quiz):
    quiz.write(["old"])
    begun, may_end = threading.Event(), threading.Event()

    def change() -> None:
        with benchmark_lock(quiz.settings.root, "quiz"):
            quiz.begin(["new"])
            begun.set()
            may_end.wait()
            quiz.end(["new"])

    other = threading.Thread(target=change, daemon=True)
    other.start()
    begun.wait()
    threading.Timer(0.3, may_end.set).start()
    assert ended(quiz.read) == (["new"], ["new"])


def test_a_change_between_the_looks_at_two_tables_is_seen_whole(quiz, monkeypatch):
    quiz.write(["old"])
    versions_at, looked = unfinished.versions_at, []

    def meanwhile(lake, keys):
        found = versions_at(lake, ["raw.items"])
        if not looked:
            looked.append(keys)
            quiz.begin(["new"])
            quiz.end(["new"])
        return found | versions_at(lake, [key for key in keys if key != "raw.items"])

    monkeypatch.setattr(unfinished, "versions_at", meanwhile)
    assert quiz.read() == (["new"], ["new"])


def test_a_step_that_computes_is_not_waited_for(quiz):
    quiz.write(["old"])
    with benchmark_lock(quiz.settings.root, "quiz"):
        assert ended(quiz.read) == (["old"], ["old"])
