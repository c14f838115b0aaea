"""What happens in every odd case of the capability stage, one line of the design's table a test, on whole steps."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from capeval_pipeline.arrays.ecc_tables import clusters_frame
from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.methods.ecc.fit import _Problem
from capeval_pipeline.orchestration.assets.capabilities import ecc, item_embeddings, strengths
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings
from tests.methods.ecc.worlds import planted_world
from tests.orchestration.memory_part import JUDGMENT_COLUMNS, MemoryPart, part_of_scores

QUICK = CapabilitiesSettings(n_resamples=60, n_profile_resamples=20, n_clusters=3, cluster_counts=(1, 2), ridges=(1.0,))
WORDS = ("sum of two numbers", "poem about the sea", "capital of a country")


def answers(rng: np.random.Generator, n_items: int = 120, n_models: int = 6) -> np.ndarray:
    """0/1 answers of models that are good at one kind of items and bad at another, with luck."""
    skill = np.where(np.arange(n_items)[:, None] % 2 == np.arange(n_models) % 2, 1.0, -1.0)
    return (rng.uniform(size=skill.shape) < 1 / (1 + np.exp(-skill))).astype(float)


def prompts(n_items: int) -> list[str | None]:
    return [f"{WORDS[q % 2]} number {q % 9}" for q in range(n_items)]


def run_all(part: MemoryPart, settings: CapabilitiesSettings = QUICK) -> MemoryPart:
    for step in (strengths, item_embeddings, ecc):
        part.run(step, settings)
    return part


def sentence(part: MemoryPart, question: str) -> str:
    return next(verdict.sentence for verdict in part.verdicts if verdict.question == question)


def test_a_missing_cell_makes_no_pair_and_is_counted(rng):
    quality = answers(rng)
    quality[:40, 2] = np.nan
    part = run_all(part_of_scores(quality, prompts(120)))
    votes = part.read("intermediate.comparisons")
    missing = {f"q{q:03d}" for q in range(40)}
    touched = votes[(votes["model_a_id"] == "m02") | (votes["model_b_id"] == "m02")]
    assert len(touched) > 0
    assert not set(touched["item_id"]) & missing
    assert part.read("estimates.strengths").set_index("model_id")["n_items"]["m02"] == 80


def test_an_all_tied_item_and_one_with_a_single_pair_are_dropped_with_the_reason_and_still_placed(rng):
    quality = answers(rng)
    quality[:10] = 1.0
    quality[10:14] = np.nan
    quality[10:14, 0], quality[10:14, 1] = 1.0, 0.0  # two models, one pair
    for q in range(14, 120):  # no other item is without two pairs
        quality[q, :3] = (1.0, 1.0, 0.0) if quality[q].mean() in (0.0, 1.0) else quality[q, :3]
    part = run_all(part_of_scores(quality, prompts(120)))
    fits = part.read("estimates.ecc_fits")
    assert set(fits["n_dropped_all_tied"]) == {10}
    assert set(fits["n_dropped_one_pair"]) == {4}
    placed = part.read("estimates.cluster_responsibilities")
    dropped = placed[placed["item_id"].isin([f"q{q:03d}" for q in range(14)])]
    assert set(dropped["basis"]) == {"embedding"}
    assert dropped.groupby(["method", "item_id"])["responsibility"].sum().to_numpy() == pytest.approx(1.0)
    assert "14 of 120 items had fewer than two pairs of models that differ" in sentence(part, "clusters")


def test_fewer_than_two_models_end_with_the_reason(rng):
    with pytest.raises(StageSkipped, match="1 model"):
        part_of_scores(answers(rng, n_models=1), prompts(120)).run(strengths, QUICK)


def test_fewer_than_fifty_kept_items_end_with_the_reason(rng):
    part = part_of_scores(answers(rng, n_items=49), prompts(49))
    part.run(item_embeddings, QUICK)
    with pytest.raises(StageSkipped, match=r"items with two pairs of models that differ: .* of 49; clusters take 50"):
        part.run(ecc, QUICK)


def test_without_text_there_are_strengths_and_clusters_of_comparisons_only(rng):
    part = part_of_scores(answers(rng), [None] * 120)
    part.run(strengths, QUICK)
    with pytest.raises(StageSkipped, match="no item has a prompt or an embedding"):
        part.run(item_embeddings, QUICK)
    part.run(ecc, QUICK)
    assert len(part.read("estimates.strengths")) == 6
    assert set(part.read("estimates.ecc_fits")["method"]) == {"comp_only"}
    assert set(part.read("estimates.ecc_evaluation")["inference"]) == {"probe"}


def test_more_clusters_than_a_fifth_of_the_items_are_not_tried_but_run_and_warned_of_when_asked_for(rng):
    asked = QUICK.model_copy(update={"preset": "paper", "n_clusters": 40})
    part = run_all(part_of_scores(answers(rng), prompts(120)), asked)
    assert "40 clusters are many for" in sentence(part, "clusters")
    tried = run_all(part_of_scores(answers(rng), prompts(120)), QUICK.model_copy(update={"cluster_counts": (1, 40)}))
    assert set(tried.read("estimates.ecc_grid")["n_clusters"]) == {1}


def test_a_model_never_compared_in_a_cluster_has_the_priors_value_and_interval(rng):
    quality = answers(rng)
    quality[:, 5] = np.nan
    quality[0, 5] = 1.0  # it has a score, but every other model ties with it there
    quality[0, :5] = 1.0
    part = run_all(part_of_scores(quality, prompts(120)))
    rows = part.read("estimates.cluster_strengths")
    own = rows[rows["model_id"] == "m05"]
    assert not own["is_compared"].any()
    ecc_rows = own[own["method"] == "ecc"]  # prior 0, ridge 1
    assert ecc_rows["strength"].to_numpy() == pytest.approx(0.0, abs=1e-6)
    assert ecc_rows["upper"].to_numpy() == pytest.approx(1.959964, abs=1e-5)
    assert "m05" not in set(part.read("estimates.clusters")["best_model_id"])


def test_one_sided_evidence_in_a_cluster_stays_finite_and_is_kept(rng):
    quality = answers(rng)
    quality[:, 0] = 1.0  # never loses
    part = run_all(part_of_scores(quality, prompts(120)))
    rows = part.read("estimates.cluster_strengths")
    own = rows[(rows["model_id"] == "m00") & (rows["method"] == "ecc")]
    assert np.isfinite(own["strength"]).all()
    assert (own["strength"] > 0).all()
    assert own["is_compared"].all()
    overall = part.read("estimates.strengths").set_index("model_id").loc["m00"]
    assert overall["is_separated"]
    assert math.isnan(overall["upper"])
    assert not math.isnan(overall["lower"])


def test_an_empty_cluster_keeps_its_old_centre(rng):
    world = planted_world(rng, n_items=50)
    problem = _Problem(world.votes, world.embeddings, 3.0, 0.1, 1.0, np.zeros(8), True, True, 10)
    responsibilities = np.column_stack([np.ones(50), np.zeros(50)])
    old = np.vstack([world.embeddings[0], world.embeddings[1]])
    moved = problem.best_centres(responsibilities, old)
    assert moved[1].tolist() == old[1].tolist()
    assert moved[0] == pytest.approx(world.embeddings.sum(axis=0) / np.linalg.norm(world.embeddings.sum(axis=0)))


def test_an_empty_cluster_is_reported_with_weight_0_and_no_best_model():
    frame = clusters_frame(
        "ecc", np.column_stack([np.ones(5), np.zeros(5)]), np.eye(2), np.ones((2, 2), dtype=bool),
        items=list("abcde"), models=["x", "y"], top_items=[[0], []], top_terms=[["sum"], []],
        lift=np.full((2, 1), np.nan), categories=["c"],
    )  # fmt: skip
    assert frame["weight"].tolist() == [1.0, 0.0]
    assert frame["best_model_id"].iloc[0] == "x"
    assert pd.isna(frame["best_model_id"].iloc[1])
    assert frame["label"].tolist() == ["sum", "cluster 1"]


def test_duplicate_prompts_are_on_one_side(rng):
    part = part_of_scores(answers(rng), prompts(120))
    splits = part.read("intermediate.item_splits").merge(part.read("staging.stg_items"), on="item_id")
    assert (splits.groupby("prompt")["split"].nunique() == 1).all()
    assert splits["split"].nunique() == 2


def test_a_subset_of_fewer_than_thirty_pairs_has_no_gain(rng):
    part = run_all(part_of_scores(answers(rng, n_items=90, n_models=4), prompts(90)))
    rows = part.read("estimates.ecc_evaluation")
    few = rows[rows["n_pairs"] < 30]
    assert len(few) > 0
    assert few[["gain_percent", "gain_lower", "gain_upper"]].isna().all(axis=None)
    assert rows[rows["n_pairs"] >= 30]["gain_percent"].notna().all()


def judged(rows: list[tuple[str, str, str, str, int, float]]) -> MemoryPart:
    frame = pd.DataFrame(rows, columns=JUDGMENT_COLUMNS)
    part = MemoryPart({"staging.stg_judgments": pa.Table.from_pandas(frame, preserve_index=False)})
    nothing = pd.DataFrame({"item_id": [], "model_id": [], "score": [], "quality": []})
    part.tables["intermediate.item_scores"] = pa.Table.from_pandas(nothing, preserve_index=False)
    return part


def test_judgments_without_scores_rank_by_strength_and_compare_strengths():
    # b beats c always but meets a, the best, half of the time; c only ever meets b.
    rows = [(f"q{q:02d}", "a", "b", "judge", 0, 1.0 if q % 10 else 0.5) for q in range(40)]
    rows += [(f"q{q:02d}", "b", "c", "judge", 0, float(q % 5 > 0)) for q in range(40)]
    part = judged(rows)
    part.run(strengths, QUICK)
    table = part.read("estimates.strengths").set_index("model_id")
    assert table["mean_score"].to_dict() == pytest.approx({"a": 0.95, "b": (0.05 + 0.8) / 2, "c": 0.2})
    assert (table["score_lower"] < table["mean_score"]).all()
    assert (table["score_upper"] > table["mean_score"]).all()
    assert table.sort_values("rank").index.tolist() == table.sort_values("strength", ascending=False).index.tolist()
    pairs = part.read("estimates.model_pairs").set_index(["model_a_id", "model_b_id"])
    assert pairs["n_shared_items"].to_dict() == {("a", "b"): 40, ("a", "c"): 0, ("b", "c"): 40}
    gap = table["strength"]["a"] - table["strength"]["c"]
    assert pairs.loc[("a", "c"), "difference"] == pytest.approx(gap)
    assert (pairs["p_adjusted"] >= pairs["p_value"]).all()
    assert pairs.loc[("b", "c"), "verdict"] == "a_better"


def test_judgments_that_contradict_each_other_are_separate_draws_and_the_agreement_is_printed():
    rows = [(f"q{q:02d}", "a", "b", judge, 0, float(judge == "x" or q % 2)) for q in range(40) for judge in ("x", "y")]
    part = judged(rows)
    part.run(strengths, QUICK)
    assert "50" in sentence(part, "strengths")  # the judges agree on every second item
    assert "agree" in sentence(part, "strengths")
