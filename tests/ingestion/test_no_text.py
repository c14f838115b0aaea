"""--no-text: prompts in no table and no message, wherever in a file they stand; ids and hashes stay."""

import json

import pytest

from capeval_pipeline.formats.json_values import with_choices
from capeval_pipeline.formats.refusals import listed, named, shown, texts_hidden
from capeval_pipeline.ingestion.reading import Request
from capeval_pipeline.storage.stored_rows import as_table
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

SECRET = "Secret river"
WITH_FAULTS = {
    "ragged.csv": f"prompt,item_id,model,score\n{SECRET},q1,elm,1\n{SECRET} 2,q2,elm,1,5\n",
    "score.csv": f"item_id,model,score\nq1,elm,{SECRET}\n",
    "status.csv": f"item_id,model,score,status\nq1,elm,1,{SECRET}\n",
    "generation.csv": f"item_id,model,score,generation\nq1,elm,1,{SECRET}\n",
    "no header.csv": f"{SECRET},elm,1\n",
    "extra.csv": f"item_id,model,score,{SECRET}\nq1,elm,1,x\n",
    "twice.csv": f"prompt,{SECRET},{SECRET}\nx,1,0\n",
    "alike.csv": f"prompt,{SECRET},{SECRET.lower()}\nx,1,0\n",
    "wide.csv": f"prompt,elm,oak\n{SECRET},1,0\n{SECRET},0,1\n",
    "no key.csv": f"{SECRET},elm\n0.5,1\n",
    "unknown.csv": f"{SECRET} and more\n",
    "text.jsonl": f'{{"item_id": "q1", "model": "elm", "score": 1}}\n"{SECRET}"\n',
    "keys.jsonl": f'{{"item_id": "q1", "model": "elm", "score": 1, "{SECRET}": 1, "{SECRET}": 2}}\n',
    "object.jsonl": json.dumps({"item_id": "q1", "model": "elm", "score": {SECRET: SECRET}}),
    "list.jsonl": json.dumps({"item_id": "q1", "model": "elm", "score": [SECRET]}),
    "keys.json": json.dumps({SECRET: [{"x": 1}]}),
    "numbers.json": json.dumps([{SECRET: {"elm": 1, "oak": 0}}]),
    "cut.json": f'{{"a": 1, "b": "{SECRET}',
    "text.json": f'"{SECRET}"',
    "annotations.json": json.dumps([{"instruction": SECRET, "output_1": "a", "generator_1": "oak", "output_2": "b",
                                     "generator_2": "elm", "preference": SECRET}]),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_FAULTS)
def test_a_prompt_is_nowhere_told_whatever_is_at_fault(tmp_path, name):
    """Each of these files names the text in a message where prompts may be told."""
    for keeps_text, wanted in ((True, True), (False, False)):
        data = tmp_path / str(keeps_text)
        write(data / "inbox" / "b" / name, WITH_FAULTS[name])
        workspace = MemoryWorkspace(data)
        batch = workspace.ingest([data / "inbox"], Request(keep_text=keeps_text))
        groups = (*workspace.raw.values(), *workspace.readings.values())
        told = str([as_table(table).to_pylist() for group in groups for table in group.values()])
        told += str([report.as_json() for report in batch.reports])
        assert ("river" in told) == wanted


def test_numbers_places_and_kinds_are_told_where_texts_are_hidden():
    with texts_hidden(True):
        assert [shown(value) for value in (2.5, 7, None, True)] == ["2.5", "7", "None", "True"]
        assert [shown(value) for value in ("x", ["x"], {"x": 1})] == [
            "a text (not shown)", "a list (not shown)", "an object (not shown)",
        ]  # fmt: skip
        assert (listed(["x", "y"], 100), named("x")) == ("2 (not shown)", "…")
    assert (shown("x"), listed(["x", "y"], 100), named("x")) == ("'x'", "x, y", "x")


def test_what_is_hidden_in_messages_does_not_change_what_an_item_is():
    choices = [{"text": "long " * 30 + ending} for ending in ("a", "b")]
    with texts_hidden(True):
        hidden = [with_choices("Which?", [choice, 7, None]) for choice in choices]
    assert hidden == [with_choices("Which?", [choice, 7, None]) for choice in choices]
    assert len(set(hidden)) == 2
