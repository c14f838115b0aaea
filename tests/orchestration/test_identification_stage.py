"""The identification stage as a body: what it refuses and why, what it leaves out, and that it repeats itself."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.executors import open_executor
from capeval_pipeline.methods.synthetic.low_rank_world import make_low_rank_world
from capeval_pipeline.orchestration.assets.identification import identification
from capeval_pipeline.orchestration.stages import StageResult
from capeval_pipeline.stage_settings.identification import IdentificationSettings


class StubPart:
    """The few things a body asks of its part, from frames in memory."""

    benchmark_id = "quiz"

    def __init__(self, item_scores: pd.DataFrame, *, is_full: bool = False, spec: str = "threads") -> None:
        self.frames = {
            "intermediate.item_scores": item_scores,
            "raw.models": pd.DataFrame({"model_id": [], "look_alike_of": []}),
        }
        self.is_full = is_full
        self.spec = spec

    def read(self, key: str) -> pd.DataFrame:
        return self.frames[key]

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        with open_executor(self.spec, 2) as pool:
            yield pool


def quiz(n_models: int, n_items: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    scores = make_low_rank_world(n_items=n_items, n_models=n_models, rank=2, rng=rng).scores
    items, models = np.indices(scores.shape)
    return pd.DataFrame(
        {
            "item_id": [f"i{item:03}" for item in items.ravel()],
            "model_id": [f"m{model:03}" for model in models.ravel()],
            "quality": scores.ravel(),
        }
    )


def run(item_scores: pd.DataFrame, *, is_full: bool = False, spec: str = "threads", **settings: Any) -> StageResult:
    part = StubPart(item_scores, is_full=is_full, spec=spec)
    return identification.body(part, IdentificationSettings(**settings))


def test_a_benchmark_without_scored_answers_is_skipped_with_the_reason():
    with pytest.raises(StageSkipped, match="no complete block of at least 2 models"):
        run(quiz(4, 10).iloc[:0])


def test_a_single_model_is_nothing_to_choose_from():
    with pytest.raises(StageSkipped, match="1 model and 10 items left"):
        run(quiz(1, 10))


def test_scores_of_a_range_with_an_open_side_are_skipped_with_what_to_declare():
    scores = quiz(3, 10)
    scores["quality"] *= -40  # seconds, say: fewer are better, and there is no longest
    with pytest.raises(StageSkipped, match=r"compared on 0 to 1, .*declare score_range"):
        run(scores)


def test_gaps_that_do_not_occur_are_skipped_with_the_reason():
    with pytest.raises(StageSkipped, match="no two of the models"):
        run(quiz(8, 10), gap_range=(0.951, 0.999))


def test_only_policies_that_need_a_missing_predictor_leave_nothing_to_run():
    with pytest.raises(StageSkipped, match="teach a predictor, which needs 20"):
        run(quiz(8, 30), policies=("pulse",))


def test_few_models_are_all_arms_and_policies_with_predictions_are_left_out():
    result = run(quiz(9, 30), n_seeds=4)
    summary = result.tables["simulations.identification_summary"]
    assert summary["policy"].tolist() == ["uniform", "ucb_e", "successive_rejects_shared", "race"]
    assert (result.tables["simulations.identification_runs"]["n_arms"] == 9).all()
    assert "Left out: naive pooling (biased) and PULSE, because only " in result.verdicts[0].sentence
    assert "4 replays" in result.verdicts[0].sentence


def test_many_models_teach_a_predictor_and_the_rest_are_arms():
    result = run(quiz(80, 60), n_seeds=4)
    summary = result.tables["simulations.identification_summary"]
    n_training, n_arms = summary["n_training_models"][0], result.numbers["n_arms"]
    assert n_training >= 20
    assert n_training + n_arms == 80
    assert summary["policy"].tolist() == [
        "uniform",
        "ucb_e",
        "naive_pooling",
        "pulse",
        "successive_rejects_shared",
        "race",
    ]
    assert "PULSE needs" in result.verdicts[0].sentence


def test_full_runs_have_104_seeds_and_every_policy():
    result = run(quiz(70, 20), is_full=True)
    summary = result.tables["simulations.identification_summary"]
    assert (summary["n_runs"] == 104).all()
    assert len(summary) == 9


def test_the_same_inputs_give_the_same_tables_on_threads_and_processes():
    frame = quiz(80, 40)
    first = run(frame, n_seeds=4)
    shuffled = frame.sample(frac=1, random_state=1)
    for other in (run(shuffled, n_seeds=4), run(frame, n_seeds=4, spec="processes")):
        for key, table in first.tables.items():
            pd.testing.assert_frame_equal(
                table.drop(columns="seconds_per_run", errors="ignore"),
                other.tables[key].drop(columns="seconds_per_run", errors="ignore"),
            )


def test_settings_are_refused_by_name_and_range():
    with pytest.raises(ValueError, match="n_sedes"):
        IdentificationSettings(n_sedes=3)
    with pytest.raises(ValueError, match="gap_range"):
        IdentificationSettings(gap_range=(0.2, 0.1))
    with pytest.raises(ValueError, match="policies"):
        IdentificationSettings(policies=("pulsar",))
