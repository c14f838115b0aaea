"""The sentences of a benchmark in the order people ask, and which section of the report answers which question."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capeval_pipeline.reporting.queries import Row

QUESTIONS = (
    "strengths",
    "clusters",
    "human_labels",
    "probe",
    "probe_policies",
    "probe_sensitivity",
    "out_of_domain",
    "cold_start",
    "routing",
    "identification",
    "frontier",
    "frontier_saving",
    "frontier_router",
    "frontier_latency",
    "frontier_draws",
    "coverage",
    "order_bias",
    "costs",
    "item_embeddings",
)
"""Order in which sentences are told; questions that are not here come last, by name."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of marts.verdicts; where is_computed is false it is the reason why there is no answer."""

    question: str
    sentence: str
    source_table: str
    is_computed: bool

    @property
    def name(self) -> str:
        """The question in words."""
        return self.question.replace("_", " ")


def in_order(rows: Iterable[Row]) -> list[Sentence]:
    """Sentences of queries.VERDICTS in the order people ask, answers before reasons why there is none."""
    found = [
        Sentence(row["question"], row["sentence"], row["source_table"] or "", bool(row["is_computed"])) for row in rows
    ]
    return sorted(
        found, key=lambda entry: (not entry.is_computed, _place(entry.question), entry.question, entry.sentence)
    )


def about(sentences: Sequence[Sentence], questions: Sequence[str]) -> list[Sentence]:
    """Those that answer one of the questions."""
    return [entry for entry in sentences if entry.question in questions]


def why_nothing(sentences: Sequence[Sentence], questions: Sequence[str], fallback: str) -> str:
    """Why there is no figure or table: the reason of the stage that was skipped, else the fallback."""
    reasons = [entry.sentence for entry in about(sentences, questions) if not entry.is_computed]
    reason = reasons[0] if reasons else fallback
    return reason if reason.endswith(".") else f"{reason}."


def _place(question: str) -> int:
    return QUESTIONS.index(question) if question in QUESTIONS else len(QUESTIONS)
