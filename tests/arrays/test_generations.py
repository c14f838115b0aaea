"""Answers to arrays of draws: which models take part, and that labels, not row order, decide."""

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.arrays.generations import encode_generations, encode_responsibilities


def answers(cells, *, n_draws=2, cost=0.1):
    """A row a draw of each (model, item); quality 1, costs as given."""
    return pd.DataFrame(
        [
            {
                "item_id": item,
                "model_id": model,
                "generation_id": g,
                "quality": 1.0,
                "cost_usd": cost,
                "latency_s": 2.0,
            }
            for model, item in cells
            for g in range(n_draws)
        ]
    )


CELLS = [(model, item) for model in ("a", "b") for item in ("q1", "q2", "q3")]


def test_draws_stand_at_their_item_model_and_generation():
    frame = answers(CELLS)
    frame.loc[(frame.item_id == "q2") & (frame.model_id == "b") & (frame.generation_id == 1), "quality"] = 0.25
    encoded = encode_generations(frame.sample(frac=1.0, random_state=1))
    assert (encoded.items, encoded.models) == (["q1", "q2", "q3"], ["a", "b"])
    assert encoded.scores[1, 1].tolist() == [1.0, 0.25]
    assert encoded.cost_usd is not None and encoded.cost_usd[0, 0].tolist() == [0.1, 0.1]
    assert encoded.left_out == []


def test_gaps_in_generation_numbers_keep_draws_of_equal_number_together():
    frame = answers([("a", "q1"), ("b", "q1")])
    frame["generation_id"] = frame["generation_id"].replace({1: 7})
    assert encode_generations(frame).scores.shape == (1, 2, 2)


def test_answers_without_a_quality_count_nowhere():
    frame = answers(CELLS)
    frame.loc[frame.item_id == "q3", "quality"] = np.nan
    assert encode_generations(frame).items == ["q1", "q2"]


def test_a_model_without_cost_is_left_out_by_name():
    frame = answers([*CELLS, *(("c", item) for item in ("q1", "q2", "q3"))])
    frame.loc[frame.model_id == "c", "cost_usd"] = np.nan
    encoded = encode_generations(frame)
    assert encoded.models == ["a", "b"]
    assert encoded.left_out == ["c: no cost on 100 % of its items"]


def test_a_model_with_single_draws_is_left_out_by_name():
    frame = answers([*CELLS, *(("c", item) for item in ("q1", "q2", "q3"))])
    frame = frame[~((frame.model_id == "c") & (frame.generation_id == 1))]
    encoded = encode_generations(frame)
    assert encoded.models == ["a", "b"]
    assert encoded.left_out == ["c: fewer than 2 draws on 100 % of its items"]


def test_without_any_cost_nobody_is_left_out():
    encoded = encode_generations(answers(CELLS, cost=np.nan))
    assert encoded.cost_usd is None
    assert encoded.models == ["a", "b"]
    assert encoded.latency_s is not None


def test_costs_of_one_model_alone_make_no_frontier():
    frame = answers(CELLS)
    frame.loc[frame.model_id == "b", "cost_usd"] = np.nan
    encoded = encode_generations(frame)
    assert encoded.cost_usd is None
    assert encoded.models == ["a", "b"]


def test_one_draw_a_cell_is_one_generation():
    encoded = encode_generations(answers(CELLS, n_draws=1))
    assert encoded.scores.shape == (3, 2, 1)
    assert encoded.left_out == []


def test_an_item_with_single_draws_only_is_left_out_and_counted():
    cells = [(model, f"q{index:02d}") for model in ("a", "b") for index in range(30)]
    frame = answers(cells)
    frame = frame[~((frame.item_id == "q03") & (frame.generation_id == 1))]
    encoded = encode_generations(frame)
    assert "q03" not in encoded.items
    assert encoded.n_items_left_out == 1


def test_no_score_at_all_is_refused():
    frame = answers(CELLS)
    frame["quality"] = np.nan
    with pytest.raises(ValueError, match="no answer has a score"):
        encode_generations(frame)


def test_categories_follow_their_items():
    items = pd.DataFrame({"item_id": ["q3", "q1", "q2"], "category": ["law", "art", None]})
    assert encode_generations(answers(CELLS), items).categories.tolist() == ["art", None, "law"]


def test_responsibilities_follow_their_items():
    responsibilities = pd.DataFrame(
        {"item_id": ["q2", "q2", "q1"], "cluster_id": [0, 1, 1], "responsibility": [0.25, 0.75, 1.0]}
    )
    splits = pd.DataFrame({"item_id": ["q1", "q2", "q3"], "split": ["train", "test", "test"]})
    table, is_test, known = encode_responsibilities(responsibilities, splits, ["q1", "q2", "q3"])
    assert table.tolist() == [[0.0, 1.0], [0.25, 0.75]]
    assert is_test.tolist() == [False, True, True]
    assert known.tolist() == [True, True, False]
