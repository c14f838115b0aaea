"""Frames to votes and back to what the words of the specification say about judgments and splits."""

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.arrays.comparisons import encode_judgments, encode_splits, encode_votes
from capeval_pipeline.arrays.score_matrix import encode_score_matrix


def comparisons(*rows):
    return pd.DataFrame(rows, columns=["item_id", "model_a_id", "model_b_id", "outcome", "sample_rank"])


def test_votes_name_winner_and_loser_in_order_of_item_and_rank():
    frame = comparisons(("q2", "a", "b", 0.0, 0), ("q1", "a", "c", 1.0, 1), ("q1", "b", "c", 0.0, 0))
    votes = encode_votes(frame, ["q0", "q1", "q2"], ["a", "b", "c"])
    assert votes.item.tolist() == [1, 1, 2]
    assert votes.winner.tolist() == [2, 0, 1]
    assert votes.loser.tolist() == [1, 2, 0]
    assert votes.weight_of_item.tolist() == [0.0, 0.5, 1.0]


def test_row_order_does_not_matter(rng):
    frame = comparisons(*((f"q{i % 7}", "a", "b" if i % 2 else "c", float(i % 3 == 0), i) for i in range(40)))
    first = encode_votes(frame, [f"q{i}" for i in range(7)], ["a", "b", "c"])
    second = encode_votes(frame.sample(frac=1, random_state=1), [f"q{i}" for i in range(7)], ["a", "b", "c"])
    assert first.winner.tolist() == second.winner.tolist()
    assert first.item.tolist() == second.item.tolist()


def test_swapping_the_models_of_a_pair_with_its_outcome_changes_nothing():
    plain = encode_votes(comparisons(("q", "a", "b", 1.0, 0)), ["q"], ["a", "b"])
    swapped = encode_votes(comparisons(("q", "b", "a", 0.0, 0)), ["q"], ["a", "b"])
    assert (plain.winner[0], plain.loser[0]) == (swapped.winner[0], swapped.loser[0])


def test_a_tie_among_comparisons_is_refused():
    with pytest.raises(ValueError, match="decided"):
        encode_votes(comparisons(("q", "a", "b", 0.5, 0)), ["q"], ["a", "b"])


def test_an_unknown_model_is_named():
    with pytest.raises(ValueError, match="'z'"):
        encode_votes(comparisons(("q", "a", "z", 1.0, 0)), ["q"], ["a", "b"])


def test_folds_come_from_later_digits_of_the_key_than_the_split():
    keys = ["0" * 16 + f"{i:016x}" for i in range(10)]
    frame = pd.DataFrame({"item_id": [f"q{i}" for i in range(10)], "split": ["train"] * 10, "split_key": keys})
    splits = encode_splits(frame, frame["item_id"].tolist())
    assert splits.fold.tolist() == [0, 1, 2, 3, 4] * 2
    assert splits.key_order.tolist() == list(range(10))


def judgments(*rows):
    names = ["item_id", "model_a_id", "model_b_id", "judge_id", "draw", "outcome"]
    return pd.DataFrame(rows, columns=names)


def test_both_positions_agree_or_tie():
    frame = judgments(
        ("q1", "a", "b", "j", 0, 1.0), ("q1", "b", "a", "j", 0, 0.0),  # a won in both positions
        ("q2", "a", "b", "j", 0, 1.0), ("q2", "b", "a", "j", 0, 1.0),  # whoever came first won
    )  # fmt: skip
    votes = encode_judgments(frame, ["q1", "q2"], ["a", "b"])
    assert votes.item.tolist() == [0]
    assert (votes.winner[0], votes.loser[0]) == (0, 1)
    assert votes.mean_outcome.tolist() == [0.75, 0.25]
    assert votes.n_shared.tolist() == [[0, 2], [2, 0]]


def test_judges_that_contradict_each_other_are_separate_draws_and_show_in_the_agreement():
    frame = judgments(("q", "a", "b", "j1", 0, 1.0), ("q", "a", "b", "j2", 0, 0.0), ("q", "a", "b", "j3", 0, 1.0))
    votes = encode_judgments(frame, ["q"], ["a", "b"])
    assert len(votes.item) == 3
    # Of three couples of judges one agrees.
    assert votes.agreement == pytest.approx(1 / 3)


def test_scores_are_spread_by_label_and_doubles_are_refused():
    frame = pd.DataFrame({"item_id": ["q2", "q1"], "model_id": ["m", "n"], "quality": [0.5, None]})
    matrix = encode_score_matrix(frame)
    assert (matrix.items, matrix.models) == (["q1", "q2"], ["m", "n"])
    assert np.isnan(matrix.values[[0, 0, 1], [0, 1, 1]]).all()
    assert matrix.values[1, 0] == 0.5
    with pytest.raises(ValueError, match="2 rows for item_id='q1'"):
        encode_score_matrix(pd.concat([frame, frame.tail(1)]))
