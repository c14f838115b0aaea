"""The frontier's step on small benchmarks: its tables fit their contracts, and each refusal is said."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from capeval_pipeline.errors import StageSkipped
from capeval_pipeline.methods.synthetic import make_generation_world
from capeval_pipeline.orchestration.assets.frontier import frontier
from capeval_pipeline.stage_settings.frontier import FrontierSettings
from capeval_pipeline.storage.conformity import conform, empty
from capeval_pipeline.storage.tables import TABLES

QUICK = FrontierSettings(n_simulations=10, n_splits=4, n_permutations=20, n_multipliers=100, n_refits=3)


class BenchmarkPart:
    """A part whose tables are frames in memory."""

    def __init__(self, *, n_generations=3, n_items=120, has_cost=True, has_clusters=False, seed=1):
        world = make_generation_world(
            "heterogeneous", n_items=n_items, n_models=4, n_generations=n_generations, rng=np.random.default_rng(seed)
        )
        item, model, generation = (axis.ravel() for axis in np.indices(world.scores.shape))
        self.benchmark = {"has_true_generations": True, "score_low": 0.0, "score_high": 1.0}
        self.frames = {
            "staging.stg_generations": pd.DataFrame(
                {
                    "item_id": [f"q{index:03d}" for index in item],
                    "model_id": [f"lab/m{index}" for index in model],
                    "generation_id": generation,
                    "quality": world.scores.ravel(),
                    "cost_usd": world.cost_usd.ravel() if has_cost else np.nan,
                    "latency_s": world.latency_s.ravel() if has_cost else np.nan,
                }
            ),
            "staging.stg_items": pd.DataFrame(
                {
                    "item_id": [f"q{index:03d}" for index in range(n_items)],
                    "category": [f"topic {topic}" for topic in world.topic],
                }
            ),
        }
        if has_clusters:
            self.frames["estimates.cluster_responsibilities"] = pd.DataFrame(
                {
                    "method": "ecc_shrunk",
                    "item_id": [f"q{index:03d}" for index in range(n_items)],
                    "cluster_id": world.topic,
                    "responsibility": 1.0,
                    "basis": "fitted",
                }
            )
            self.frames["intermediate.item_splits"] = pd.DataFrame(
                {
                    "item_id": [f"q{index:03d}" for index in range(n_items)],
                    "split": ["test" if index % 4 == 0 else "train" for index in range(n_items)],
                }
            )

    def read(self, key):
        if key in self.frames:
            return self.frames[key]
        return empty(TABLES[key]).to_pandas() if key in TABLES else pd.DataFrame({"item_id": [], "split": []})


def made(part):
    outcome = frontier.body(part, QUICK)
    tables = {key: conform(TABLES[key], frame, "b").to_pandas() for key, frame in outcome.tables.items()}
    return SimpleNamespace(outcome=outcome, **{key.split(".")[1]: frame for key, frame in tables.items()})


def test_all_tables_fit_their_contracts():
    result = made(BenchmarkPart(has_clusters=True))
    assert set(result.frontier_points["cost_axis"]) == {"usd", "latency_p95_s"}
    assert set(result.frontier_points["routing"]) == {
        "pre_hoc",
        "post_hoc_pay_all",
        "post_hoc_pay_kept",
        "post_hoc_stop",
        "constant",
        "cluster_router",
    }
    assert {verdict.question for verdict in result.outcome.verdicts} >= {"frontier"}
    router = result.frontier_headlines.query("routing == 'cluster_router'")
    assert len(router) == 1 and router["oracle_quality_at_matched_cost"].notna().all()
    assert (router["matched_cost_error_reduction_lower"] < router["matched_cost_error_reduction_upper"]).all()
    # 120 items, fewer than 200: the best model's quality on items that did not choose it stands beside its own.
    assert (result.frontier_headlines.query("routing == 'pre_hoc'")["best_quality_held_out"] < 1).all()
    limits = result.frontier_latency_limits
    assert limits["latency_limit_s"].tolist() == sorted(limits["latency_limit_s"]) and len(limits) == 3
    told = limits[limits["lower"].notna()]
    assert len(told) > 0 and (told["lower"] <= told["upper"]).all()
    diagnostics = result.frontier_diagnostics.iloc[0]
    assert (diagnostics["n_models"], diagnostics["n_generations"]) == (4, 3)
    assert set(result.oracle_bias_curve["source"]) == {"observed", "forecast"}


def test_a_model_without_latency_is_left_out_of_that_axis_alone():
    part = BenchmarkPart()
    generations = part.frames["staging.stg_generations"]
    generations.loc[generations["model_id"] == "lab/m1", "latency_s"] = np.nan
    result = made(part)
    models = result.frontier_models.set_index(["cost_axis", "model_id"])
    assert models["is_in_frontier"].sum() == 7
    out = models.loc["latency_p95_s", "lab/m1"]
    assert out["reason"] == "no latency on 100 % of its items" and np.isnan(out["cost_usd"])
    n_models = result.frontier_headlines.groupby("cost_axis")["n_models"].unique()
    assert (n_models["usd"].tolist(), n_models["latency_p95_s"].tolist()) == ([4], [3])
    assert "Left out, for want of latencies: lab/m1." in " ".join(v.sentence for v in result.outcome.verdicts)


def test_a_model_left_out_is_named_with_the_rule_of_the_setting():
    part = BenchmarkPart()
    generations = part.frames["staging.stg_generations"]
    without = (generations["model_id"] == "lab/m1") & (generations["item_id"] < "q012")  # a tenth of its items
    generations.loc[without, "cost_usd"] = np.nan
    strict = made(part).frontier_models.set_index(["cost_axis", "model_id"]).loc["usd", "lab/m1"]
    assert strict["reason"] == "no cost on 10 % of its items"
    lenient = frontier.body(part, QUICK.model_copy(update={"max_missing_share": 0.2}))
    models = lenient.tables["estimates.frontier_models"].set_index(["cost_axis", "model_id"])
    assert models.loc[("usd", "lab/m1"), "is_in_frontier"]


def test_without_costs_there_are_oracle_values_but_no_frontier():
    result = made(BenchmarkPart(has_cost=False))
    assert len(result.frontier_points) == 0
    assert len(result.frontier_headlines) == 0
    assert result.oracle_estimates["value"].notna().any()
    assert "Fewer than two models have costs" in result.outcome.verdicts[0].sentence


def test_one_draw_a_cell_leaves_the_naive_value_alone():
    result = made(BenchmarkPart(n_generations=1))
    valued = result.oracle_estimates[result.oracle_estimates["value"].notna()]
    assert set(valued["estimator"]) == {"naive"}
    assert result.frontier_diagnostics.iloc[0]["verdict"] == "upper_bound_only"
    points = result.frontier_points[result.frontier_points["quality"].notna()]
    assert set(points["estimator"]) == {"naive"}


def test_few_items_are_refused_with_the_number():
    result = made(BenchmarkPart(n_items=60))
    diagnostics = result.frontier_diagnostics.iloc[0]
    assert diagnostics["verdict"] == "bracket_only"
    assert "60 items" in diagnostics["reason"]
    headline = result.oracle_estimates.query("estimator == 'headline' and category == ''").iloc[0]
    assert np.isnan(headline["value"]) and headline["lower"] < headline["upper"]


def test_judgments_alone_have_no_frontier():
    part = BenchmarkPart()
    part.frames["staging.stg_generations"] = part.frames["staging.stg_generations"].iloc[:0]
    with pytest.raises(StageSkipped, match="judgments alone"):
        frontier.body(part, QUICK)


def test_one_model_has_nothing_to_mix():
    part = BenchmarkPart()
    frame = part.frames["staging.stg_generations"]
    part.frames["staging.stg_generations"] = frame[frame["model_id"] == "lab/m0"]
    with pytest.raises(StageSkipped, match="only model"):
        frontier.body(part, QUICK)


def test_an_open_range_has_no_error_reduction():
    part = BenchmarkPart()
    part.benchmark["score_high"] = None
    part.frames["staging.stg_generations"]["quality"] *= 7.0
    result = made(part)
    assert result.frontier_headlines["matched_cost_error_reduction"].isna().all()
    assert result.frontier_diagnostics.iloc[0]["verdict"] == "bracket_only"


def test_figures_of_an_open_range_are_not_told_as_shares():
    part = BenchmarkPart()
    part.benchmark["score_high"] = None
    part.frames["staging.stg_generations"]["quality"] *= 7.0
    (verdict,) = frontier.body(part, QUICK).verdicts
    assert "%" not in verdict.sentence and "right" not in verdict.sentence
    assert "score_range: [low, high]" in verdict.sentence


def test_the_same_answers_in_another_order_give_the_same_bytes():
    first, second = BenchmarkPart(), BenchmarkPart()
    shuffled = second.frames["staging.stg_generations"].sample(frac=1.0, random_state=3)
    second.frames["staging.stg_generations"] = shuffled
    for key, frame in frontier.body(first, QUICK).tables.items():
        pd.testing.assert_frame_equal(
            conform(TABLES[key], frame, "b").to_pandas(),
            conform(TABLES[key], frontier.body(second, QUICK).tables[key], "b").to_pandas(),
            check_exact=True,
        )


def test_real_agent_runs_are_refused_near_their_ceiling(shared):
    part = BenchmarkPart()
    results = pd.read_parquet(shared / "data" / "humaneval_agents" / "results.parquet")
    part.frames["staging.stg_generations"] = results.rename(
        columns={"model": "model_id", "generation": "generation_id", "score": "quality"}
    )
    part.frames["staging.stg_items"] = part.frames["staging.stg_items"].iloc[:0]
    result = made(part)
    diagnostics = result.frontier_diagnostics.iloc[0]
    assert (diagnostics["verdict"], diagnostics["n_models"], diagnostics["n_generations"]) == ("bracket_only", 26, 5)
    naive = result.oracle_estimates.query("estimator == 'naive' and category == ''").iloc[0]
    assert naive["value"] == pytest.approx(0.9866, abs=5e-5)
    best = result.frontier_headlines.query("cost_axis == 'usd'").iloc[0]
    assert best["best_quality"] == pytest.approx(0.9329, abs=5e-5)
    assert best["best_cost_usd"] == pytest.approx(0.0388, abs=5e-5)
    assert len(diagnostics["left_out"]) == 13


@pytest.mark.parametrize("n_items", [1, 2, 3])
@pytest.mark.parametrize("n_generations", [1, 2, 5])
def test_a_handful_of_items_gives_limits_in_order_and_no_warning(n_items, n_generations):
    result = made(BenchmarkPart(n_items=n_items, n_generations=n_generations, has_clusters=True, seed=n_items))
    for frame in (result.oracle_estimates, result.frontier_points):
        for low, high in (("lower", "upper"), ("lower_fixed", "upper_fixed")):
            assert not (frame[low] > frame[high] + 1e-9).any()
    assert result.frontier_diagnostics.iloc[0]["verdict"] in ("bracket_only", "upper_bound_only")
