"""JSON that can be used, and why other JSON cannot."""

import json

import pytest

from capeval_pipeline.formats.json_text import JsonFault, parse_json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "bad_json"),
        ('{"a": ', "bad_json"),
        ("[" * 101 + "]" * 101, "nesting_too_deep"),
        ("[" * 100_000, "nesting_too_deep"),
        ("1" * 5000, "bad_json"),
    ],
)
def test_json_that_cannot_be_used_has_a_reason(text, reason):
    with pytest.raises(JsonFault) as caught:
        parse_json(text)
    assert caught.value.reason == reason


def test_brackets_inside_texts_are_no_depth():
    assert parse_json(json.dumps({"a": "[" * 500})) == {"a": "[" * 500}
