"""Files of nested formats with any value put in any place: read or refused, and every record accounted for."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import READERS
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write

PAIR = {"question_id": 1, "model_1": "a", "model_2": "b", "g1_winner": "tie", "g2_winner": "model_1", "judge": ["j"],
        "turn": 1}  # fmt: skip
GRADE = {"question_id": 1, "model": "a", "judge": ["j", "s"], "score": 5, "turn": 2}
GAMES = {"uid": "u", "judge": "j", "model": "a", "baseline": "b", "games": [{"score": "A>B"}, {"score": "B>>A"}]}
ANNOTATION = {"instruction": "Q", "generator_1": "b", "generator_2": "a", "annotator": "j", "preference": 1.5}
VOTE = {"question_id": 1, "model_a": "a", "model_b": "b", "winner": "model_a", "judge": "j"}
REPORT = {"total_instances": 2, "submitted_instances": 2, "completed_ids": ["i"], "resolved_ids": ["i"],
          "unresolved_ids": ["k"], "schema_version": 2}  # fmt: skip
QUESTION = {"question_id": "q", "question_content": "Q", "difficulty": "easy", "graded_list": [True, False]}
SOLUTION = {"task_id": "T/1", "solution": "x", "base_status": "pass", "plus_status": "fail"}
NESTED = {"task": {"id": "q", "text": "Q"}, "runs": [{"model": "a", "score": 1}]}
DOCUMENTS = {
    "mt_bench pairs": ("mt_bench", True, [PAIR, PAIR]),
    "mt_bench grades": ("mt_bench", True, [GRADE, GRADE]),
    "arena_hard": ("arena_hard", True, [GAMES, GAMES]),
    "alpaca_eval": ("alpaca_eval", False, [ANNOTATION, ANNOTATION]),
    "arena": ("arena", True, [VOTE, VOTE]),
    "swebench report": ("swebench", False, REPORT),
    "swebench details": ("swebench", False, {"i": {"cost": 1, "api_calls": 1, "resolved": True}}),
    "livecodebench": ("livecodebench", False, [QUESTION, QUESTION]),
    "evalplus": ("evalplus", False, {"date": "2026-01-01", "eval": {"T/1": [SOLUTION]}}),
    "evalplus old": (
        "evalplus",
        False,
        {"eval": {"T/1": {"nfiles": 1, "base": [["pass", []]], "plus": [["fail", 0]]}}},
    ),
    "bigcodebench": ("bigcodebench", False, {"eval": {"T/1": [{"task_id": "T/1", "solution": "x", "status": "pass"}]}}),
    "mapping": ("mapping", False, [NESTED, NESTED]),
}
MAPPING = "item_id: task.id\nprompt: task.text\nmodel: runs.0.model\nscore: runs.0.score\n"
VALUES = [None, "", "x", "\ud800", 0, 1, -1, 10**400, 1e308, float("nan"), float("inf"), True, [], [None], [[1]], {},
          {"a": {"b": [1]}}]  # fmt: skip


def places(value: object, at: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, member in inner for place in [(*at, key), *places(member, (*at, key))]]


def replaced(document: object, at: tuple, value: object) -> object:
    changed = copy.deepcopy(document)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return changed


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused(tmp_path, name, data):
    reader, is_lines, document = DOCUMENTS[name]
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(places(document)))
        document = replaced(document, at, data.draw(st.sampled_from(VALUES)))
    if reader == "mapping":
        write(tmp_path / "mapping.yml", MAPPING)
    text = "\n".join(map(json.dumps, document)) if is_lines else json.dumps(document)
    path = write(tmp_path / ("a.jsonl" if is_lines else "a.json"), text)
    try:
        found = read_whole(READERS[reader], path, model="elm")
    except FileRefused as fault:
        assert str(fault).startswith(path.name)
        return
    assert found.accounted() == set(range(found.n_read))
    assert all(row["score"] is None for row in found.generations if row["status"] != "ok")
