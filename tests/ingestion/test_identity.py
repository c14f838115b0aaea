"""Who is who: names, settings, look-alikes, twins."""

import numpy as np
import pytest

from capeval_pipeline.ingestion.identity import look_alikes, model_id_of, same_vectors


@pytest.mark.parametrize(
    ("raw", "settings", "model_id"),
    [
        (" lab/m \t 7b ", {}, "lab/m 7b"),
        ("lab/m", {"dtype": "float16", "batch_size": 8}, "lab/m"),
        ("lab/m", {"load_in_4bit": "True"}, "lab/m[load_in_4bit]"),
        ("lab/m", {"revision": "ab12", "peft": "x/y"}, "lab/m[revision=ab12,peft=x/y]"),
        ("lab/m", {"revision": "main", "load_in_4bit": False}, "lab/m"),
        ("lab/m", {"autogptq": "model.safetensors"}, "lab/m[gptq]"),
        ("Cafe\u0301", {}, "Caf\u00e9"),
    ],
)
def test_settings_that_change_the_weights_are_part_of_the_name(raw, settings, model_id):
    assert model_id_of(raw, settings, {}) == model_id


def test_only_a_declaration_joins_names():
    assert model_id_of("gpt4", {}, {"gpt4": "gpt-4"}) == "gpt-4"
    assert model_id_of("gpt 4", {}, {"gpt4": "gpt-4"}) == "gpt 4"


def test_names_that_differ_in_case_separators_or_path_look_alike():
    assert look_alikes(["lab/Birch-7", "lab__birch_7", "birch-7", "oak"]) == {
        "lab/Birch-7": "birch-7",
        "lab__birch_7": "birch-7",
    }
    assert look_alikes(["lab/m", "other/m"]) == {}
    assert look_alikes(["m-7", "m-70"]) == {}


def plain_same_vectors(scores: np.ndarray) -> set[tuple[int, int]]:
    """The definition, pair by pair."""
    found = set()
    for second in range(len(scores)):
        for first in range(second):
            shared = np.isfinite(scores[first]) & np.isfinite(scores[second])
            a, b = scores[first, shared], scores[second, shared]
            if shared.sum() >= 10 and (a == b).all() and len(set(a)) > 1:
                found.add((first, second))
    return found


def test_twins_are_those_of_the_definition(rng):
    scores = rng.integers(0, 2, (40, 30)).astype(float)
    scores[7] = scores[3]
    scores[7, :5] = np.nan
    scores[20] = scores[11]
    scores[21] = scores[11]
    scores[21, 0] = 1 - scores[21, 0]
    scores[30], scores[31] = 1.0, 1.0
    found = set(same_vectors(scores))
    assert found == {(3, 7), (11, 20)}
    assert found <= plain_same_vectors(scores)


def test_nine_shared_items_are_too_few_for_twins():
    assert same_vectors(np.tile(np.arange(9) % 2.0, (2, 1))) == []
    assert same_vectors(np.tile(np.arange(10) % 2.0, (2, 1))) == [(0, 1)]
