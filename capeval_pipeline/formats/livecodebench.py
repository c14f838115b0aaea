"""`livecodebench`: *_eval_all.json of LiveCodeBench, a list of questions with the grade of every answer.

An answer's place in the list is its generation. True is solved; false and the negative codes of the checker are not.
The file does not name its model: the folder does, or --model.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.json_text import read_json_document
from capeval_pipeline.formats.json_values import storable
from capeval_pipeline.formats.opening import head_of
from capeval_pipeline.formats.protocol import Chunk, FileFacts, Reading, ReadOptions
from capeval_pipeline.formats.refusals import refusal, shown
from capeval_pipeline.formats.rows import MEMBER, RowCollector, as_key, model_named

KEYS = frozenset({"question_id", "question_content", "difficulty", "graded_list", "code_list", "output_list"})

NAMES_MODEL_BY_PATH = True


def matches(path: Path) -> float:
    """1 for a list of questions with lists of answers or grades, else 0."""
    if path.is_dir() or not (text := head_of(path).text.lstrip()).startswith("["):
        return 0.0
    has_answers = any(key in text for key in ('"graded_list"', '"code_list"', '"output_list"'))
    return 1.0 if '"question_id"' in text and '"question_content"' in text and has_answers else 0.0


def read(path: Path, options: ReadOptions) -> Reading:
    """Read the questions of one model. Raises FileRefused: model_unknown, no_scores, truncated, bad_json …"""
    model = model_named(path, options)
    document = read_json_document(path, options.limits)
    if not isinstance(document, list):
        raise refusal(path, "bad_json", f"is {shown(document)}", "a list of questions")
    if not any(isinstance(question, dict) and "graded_list" in question for question in document):
        advice = "Take the file that ends in _eval_all.json."
        raise refusal(path, "no_scores", f"{counted(len(document), 'question')} without graded_list", "grades", advice)
    return Reading(FileFacts(format="livecodebench"), _chunks(path, options, document, model))


def _chunks(path: Path, options: ReadOptions, document: list[Any], model: str) -> Iterator[Chunk]:
    rows = RowCollector(path, options, MEMBER)
    grades: dict[str, list[tuple[bool, ...]]] = {}
    for question in document:
        name = as_key(question.get("question_id")) if isinstance(question, dict) else None
        if name is not None:
            grades.setdefault(name, []).append(_grades(question))
    conflicts = {name for name, lists in grades.items() if len(set(lists)) > 1}
    told: set[str] = set()
    for place, question in enumerate(document):
        _question(rows, place, question, model, conflicts, told)
        if rows.is_full:
            yield rows.chunk()
    yield rows.chunk()


def _grades(question: dict[str, Any]) -> tuple[bool, ...]:
    graded = question.get("graded_list")
    return tuple(grade == 1 for grade in graded) if isinstance(graded, list) else ()


def _question(rows: RowCollector, place: int, question: Any, model: str, conflicts: set[str], told: set[str]) -> None:
    """One question: a row an answer; without a usable list of grades one row that says so, as generation 0."""
    if not isinstance(question, dict):
        rows.refuse(place, "bad_row", f"is {shown(question)}", "an object")
        return
    name = as_key(question.get("question_id"))
    if name is None:
        rows.refuse(place, "key_missing", "question_id is empty", "a name")
        return
    given = question.get("question_content")
    text = storable(given) if isinstance(given, str) else None
    content = None if text is None else text_hash(text)
    rows.add_item(name, content, text, as_key(question.get("difficulty")))
    cell = {"item": name, "content_hash": content, "model": model}
    graded = _grades(question)
    if name in conflicts or not graded:
        if name not in told:  # the cell of an item is one, however many records speak of it
            told.add(name)
            rows.add_generation(place, status="invalid", generation_id=0, **cell)
        if name in conflicts:
            rows.note(place, "conflicting_duplicate", f"{name} is there again with other grades", "one list of grades")
        else:
            found = f"graded_list is {shown(question.get('graded_list'))}"
            rows.note(place, "no_answers", found, "a grade an answer")
    else:
        for generation, is_solved in enumerate(graded):
            score = 1.0 if is_solved else 0.0
            rows.add_generation(place, status="ok", score=score, generation_id=generation, **cell)
    rows.end_record()
