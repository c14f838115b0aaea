"""From item scores to a complete block and its split, and from a study back to labelled tables."""

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.arrays.score_block import (
    curves_frame,
    encode_score_block,
    intervals_frame,
    look_alike_pairs,
    runs_frame,
    split_block,
    summary_frame,
)
from capeval_pipeline.methods.identification.records import ReplaySettings
from capeval_pipeline.methods.identification.results import summarise
from capeval_pipeline.methods.identification.study import StudyWorld, run_study
from capeval_pipeline.storage.tables import TABLES


def item_scores(quality: dict[str, list[float | None]]) -> pd.DataFrame:
    """Rows of intermediate.item_scores; None is a cell that is not there."""
    rows = [
        (f"i{item}", model, value)
        for model, values in quality.items()
        for item, value in enumerate(values)
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["item_id", "model_id", "quality"])


def random_block(n_models: int = 30, n_items: int = 60, seed: int = 0):
    rng = np.random.default_rng(seed)
    return encode_score_block(
        item_scores({f"m{i:02}": (rng.random(n_items) < 0.5).astype(float).tolist() for i in range(n_models)})
    )


def test_a_complete_benchmark_is_taken_whole_in_label_order():
    block = encode_score_block(item_scores({"b": [1.0, 0.0], "a": [0.5, 1.0]}))
    assert (block.models, block.items) == (["a", "b"], ["i0", "i1"])
    assert block.scores.tolist() == [[0.5, 1.0], [1.0, 0.0]]
    assert (block.n_models_dropped, block.n_items_dropped) == (0, 0)


def test_models_with_many_holes_go_first_and_items_with_a_hole_after_them():
    holes = [None, *[1.0] * 99]  # 1 % missing: the model stays, the item goes
    sparse = [*[None] * 3, *[1.0] * 97]  # 3 % missing: the model goes
    block = encode_score_block(item_scores({"a": [1.0] * 100, "holes": holes, "sparse": sparse}))
    assert block.models == ["a", "holes"]
    assert (block.n_models_dropped, block.n_items_dropped) == (1, 1)
    assert block.scores.shape == (2, 99)


def test_a_null_quality_is_a_missing_cell():
    frame = item_scores({"a": [1.0] * 60, "b": [1.0] * 60})
    frame.loc[0, "quality"] = None
    assert encode_score_block(frame).n_items_dropped == 1


def test_no_rows_make_an_empty_block():
    block = encode_score_block(item_scores({}))
    assert block.scores.size == 0
    assert (block.models, block.items) == ([], [])


def test_quality_outside_its_range_is_refused_with_the_cell():
    with pytest.raises(ValueError, match=r"quality 1\.5 for item_id='i1', model_id='a'"):
        encode_score_block(item_scores({"a": [1.0, 1.5]}))


def test_named_sides_are_taken_as_named():
    block = random_block()
    split = split_block(block, training_models=["m03", "m01"], arms=["m10", "m02"])
    assert split.training.tolist() == [1, 3]
    assert split.arms.tolist() == [2, 10]


def test_with_one_side_named_its_families_stay_off_the_other():
    block = random_block()
    arms = split_block(block, training_models=["m01"], arms=None, look_alikes=[("m01", "m05")]).arms
    assert arms.tolist() == [i for i in range(30) if i not in (1, 5)]
    training = split_block(block, training_models=None, arms=["m01"], look_alikes=[("m01", "m05")]).training
    assert training.tolist() == [i for i in range(30) if i not in (1, 5)]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ({"training_models": ["zz"], "arms": None}, "training_models: 'zz'"),
        ({"training_models": None, "arms": ["zz"]}, "arms: 'zz'"),
        ({"training_models": ["m01"], "arms": ["m01", "m02"]}, "'m01' is named as training model and as arm"),
    ],
)
def test_impossible_sides_are_refused_by_name(sides, message):
    with pytest.raises(ValueError, match=message):
        split_block(random_block(), **sides)


def test_look_alikes_come_from_their_column():
    models = pd.DataFrame({"model_id": ["a", "b"], "look_alike_of": [None, "a"]})
    assert look_alike_pairs(models) == [("b", "a")]
    assert look_alike_pairs(pd.DataFrame({"model_id": ["a"]})) == []


def test_frames_have_the_columns_of_their_contracts_and_nulls_for_the_unknown():
    block = random_block(n_models=6, n_items=40)
    settings = ReplaySettings(batch=5, pull_budgets=np.array([30, 60, 120, 240]))
    world = StudyWorld(block.scores, settings, n_arms=6)
    runs = run_study(world, ["uniform", "ucb_e", "successive_rejects_shared", "race"], 4)
    frames = {
        "identification_runs": runs_frame(runs, world, block.models),
        "identification_curves": curves_frame(runs, world),
        "identification_intervals": intervals_frame(runs, world),
        "identification_summary": summary_frame(
            summarise(runs, world),
            target_accuracy=0.95,
            n_training_models=0,
            rank=None,
            residual_variance_ratio=float("nan"),
            pairing_ratio=0.4,
        ),
    }
    for name, frame in frames.items():
        columns = {column.name for column in TABLES[f"simulations.{name}"].columns} - {"benchmark_id"}
        assert set(frame.columns) == columns, name
        grain = [column for column in TABLES[f"simulations.{name}"].grain if column != "benchmark_id"]
        assert not frame.duplicated(grain).any()
    summary = frames["identification_summary"].set_index("policy")
    assert summary["rank"].isna().all()
    assert summary["residual_variance_ratio"].isna().all()
    assert summary.loc["ucb_e", ["saving_vs_ucb_e", "bias_z"]].isna().all()
    rejects = frames["identification_runs"].query("policy == 'successive_rejects_shared'")
    assert rejects["pulls_to_certificate"].isna().all()
    assert set(frames["identification_runs"]["recommended_model_id"]) <= set(block.models)


def test_frames_of_policies_without_intervals_are_empty_but_typed():
    block = random_block(n_models=3, n_items=10)
    world = StudyWorld(block.scores, ReplaySettings(batch=5, pull_budgets=np.array([30])), n_arms=3)
    frame = intervals_frame(run_study(world, ["race"], 2), world)
    assert frame.empty
    assert "mean_width" in frame.columns
