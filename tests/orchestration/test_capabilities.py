"""The stage on small benchmarks: what the tables hold, that they agree with each other, and who is left out why."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError

from capeval_pipeline.embedders.cache import embed_cached
from capeval_pipeline.errors import StageSkipped, UsageError
from capeval_pipeline.methods.bradley_terry import fit_bradley_terry
from capeval_pipeline.orchestration.assets.capabilities import CAPABILITY_STEPS, ecc, item_embeddings, strengths
from capeval_pipeline.orchestration.assets.capability_uses import out_of_domain
from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings
from capeval_pipeline.storage.tables import TABLES
from tests.orchestration.memory_part import JUDGMENT_COLUMNS, MemoryPart, part_of, part_of_scores

QUICK = CapabilitiesSettings(
    n_resamples=100, n_profile_resamples=20, n_clusters=6, cluster_counts=(1, 2, 6), ridges=(1.0,)
)


@pytest.fixture(scope="module")
def made(shared: Path) -> MemoryPart:
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=1000)
    for step in CAPABILITY_STEPS:
        part.run(step, QUICK)
    return part


def test_mean_scores_are_those_of_a_plain_query(made):
    scores = made.arrow("intermediate.item_scores")
    connection = duckdb.connect()
    connection.register("item_scores", scores)
    expected = dict(connection.execute("select model_id, avg(score) from item_scores group by model_id").fetchall())
    found = made.read("estimates.strengths").set_index("model_id")["mean_score"]
    assert len(found) == len(expected)
    for model, mean in expected.items():
        assert abs(found[model] - mean) <= 1e-12


def test_ranks_fit_the_pairs(made):
    table, pairs = made.read("estimates.strengths"), made.read("estimates.model_pairs")
    better = pd.concat(
        [
            pairs[pairs["verdict"] == "a_better"]["model_b_id"],
            pairs[pairs["verdict"] == "b_better"]["model_a_id"],
        ]
    ).value_counts()
    for row in table.itertuples():
        assert row.rank_lower == 1 + better.get(row.model_id, 0)
        assert row.rank_lower <= row.rank <= row.rank_upper
    assert (pairs["p_adjusted"] >= pairs["p_value"]).all()


@pytest.mark.parametrize("method", ["ecc", "ecc_shrunk", "emb_only", "comp_only"])
def test_text_rows_can_be_recomputed_by_anybody_in_sql(made, method):
    connection = duckdb.connect()
    for key in ("estimates.cluster_responsibilities", "estimates.cluster_strengths", "intermediate.comparisons"):
        connection.register(key.split(".")[1], made.arrow(key))
    loss = connection.execute(
        """
        with predicted as (
            select c.item_id, c.model_a_id, c.model_b_id, any_value(c.outcome) as outcome,
                sum(r.responsibility / (1 + exp(b.strength - a.strength))) as p
            from comparisons as c
            inner join cluster_responsibilities as r on r.item_id = c.item_id and r.method = $method
            inner join cluster_strengths as a
                on a.method = $method and a.cluster_id = r.cluster_id and a.model_id = c.model_a_id
            inner join cluster_strengths as b
                on b.method = $method and b.cluster_id = r.cluster_id and b.model_id = c.model_b_id
            where c.split = 'test' and c.sample_rank > 0
            group by c.item_id, c.model_a_id, c.model_b_id
        )
        select -avg(ln(case when outcome = 1 then p else 1 - p end)), count(*) from predicted
        """,
        {"method": method},
    ).fetchone()
    rows = made.read("estimates.ecc_evaluation")
    row = rows[(rows["method"] == method) & (rows["inference"] == "emb") & (rows["pair_subset"] == "all")].iloc[0]
    assert loss[0] == pytest.approx(row["nll"], abs=1e-5)
    assert loss[1] == row["n_pairs"]


def test_every_item_has_responsibilities_that_sum_to_one_and_heaviest_clusters_come_first(made):
    frame = made.read("estimates.cluster_responsibilities")
    sums = frame.groupby(["method", "item_id"])["responsibility"].sum()
    assert len(sums) == 1000 * 4
    assert sums.to_numpy() == pytest.approx(np.ones(len(sums)), abs=1e-9)
    weights = frame.groupby(["method", "cluster_id"])["responsibility"].mean()
    clusters = made.read("estimates.clusters").set_index(["method", "cluster_id"])["weight"]
    for method in ("ecc", "ecc_shrunk", "emb_only", "comp_only"):
        assert clusters[method].to_numpy() == pytest.approx(weights[method].to_numpy(), abs=1e-9)
        assert (np.diff(weights[method]) <= 1e-9).all()


def test_dropped_items_are_counted(made):
    fits = made.read("estimates.ecc_fits")
    comparisons = made.read("intermediate.comparisons")
    n_kept = comparisons["item_id"].nunique()
    assert (fits["n_dropped_all_tied"] + fits["n_dropped_one_pair"] == 1000 - n_kept).all()
    assert (fits["n_items"] == comparisons[comparisons["split"] == "train"]["item_id"].nunique()).all()


def test_the_grid_holds_one_choice_and_it_was_fitted(made):
    grid, fits = made.read("estimates.ecc_grid"), made.read("estimates.ecc_fits").set_index("method")
    chosen = grid[grid["is_chosen"]]
    assert len(chosen) == 1
    assert chosen["n_clusters"].iloc[0] == fits.loc["ecc_shrunk", "n_clusters"]


def test_the_papers_probe_winner_is_perfect_on_zero_one_scores(made):
    routers = made.read("estimates.routing_evaluation").set_index(["router", "probe_policy"])
    assert routers.loc[("probe_winner", "paper"), "share_of_oracle_gain"] == 1.0
    assert routers.loc[("global_best", "none"), "share_of_oracle_gain"] == 0.0
    assert routers["mean_cost_usd"].isna().all()  # no cost is known, so none is made up


def test_the_sentences_hold_the_control(made):
    rows = made.read("estimates.ecc_evaluation").set_index(["method", "inference", "pair_subset"])
    control = rows.loc[("carry_over_control", "probe", "all"), "gain_percent"]
    sentences = {verdict.question: verdict.sentence for verdict in made.run(ecc, QUICK).verdicts}
    assert set(sentences) == {"clusters", "probe", "human_labels"}
    assert f"{control:.1f} %" in sentences["probe"]


def test_same_inputs_in_another_row_order_give_the_same_bytes(shared, made):
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=1000)
    for key, table in part.tables.items():
        part.tables[key] = table.take(np.random.default_rng(1).permutation(table.num_rows)) if table.num_rows else table
    for step in (strengths, item_embeddings, ecc):
        part.run(step, QUICK)
        for key in step.tables:
            clocks = list(TABLES[key].clock_columns)
            first, second = (p.tables[key].drop_columns(clocks) for p in (made, part))
            assert first.equals(second), key


def test_without_text_only_comparisons_cluster(shared):
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=300)
    items = part.tables["staging.stg_items"]
    silent = items.to_pandas().assign(prompt=None, embedding=None)
    part.tables["staging.stg_items"] = pa.Table.from_pandas(silent, schema=items.schema, preserve_index=False)
    with pytest.raises(StageSkipped, match="no item has a prompt or an embedding"):
        part.run(item_embeddings, QUICK)
    part.run(ecc, QUICK)
    assert set(part.read("estimates.ecc_fits")["method"]) == {"comp_only"}
    assert "emb" not in set(part.read("estimates.ecc_evaluation")["inference"])


def test_too_few_items_and_too_few_models_are_skipped_with_the_reason(shared):
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=40)
    part.run(item_embeddings, QUICK)
    with pytest.raises(StageSkipped, match="40 of 40; clusters take 50"):
        part.run(ecc, QUICK)
    scores = part.read("intermediate.item_scores")
    alone = scores[scores["model_id"] == scores["model_id"].iloc[0]]
    part.tables["intermediate.item_scores"] = pa.Table.from_pandas(alone, preserve_index=False)
    with pytest.raises(StageSkipped, match="1 model"):
        part.run(strengths, QUICK)


def test_judgments_alone_rank_by_strength(rng):
    rows = []
    for q in range(80):
        for a, b, p in (("a", "b", 0.9), ("b", "c", 0.6)):
            rows.append((f"q{q}", a, b, "judge", 0, float(rng.uniform() < p)))
    frame = pd.DataFrame(rows, columns=JUDGMENT_COLUMNS)
    part = MemoryPart({"staging.stg_judgments": pa.Table.from_pandas(frame, preserve_index=False)})
    part.tables["intermediate.item_scores"] = pa.Table.from_pandas(
        pd.DataFrame({"item_id": [], "model_id": [], "score": [], "quality": []}), preserve_index=False
    )
    part.run(strengths, QUICK)
    table = part.read("estimates.strengths").set_index("model_id")
    assert table["rank"].to_dict() == {"a": 1, "b": 2, "c": 3}
    wins = frame[frame["model_a_id"] == "a"]["outcome"].mean()
    assert table.loc["a", "mean_score"] == pytest.approx(wins)
    pairs = part.read("estimates.model_pairs").set_index(["model_a_id", "model_b_id"])
    assert pairs.loc[("a", "b"), "verdict"] == "a_better"
    # a and c were never judged against each other, but both against b.
    assert pairs.loc[("a", "c"), "n_shared_items"] == 0


def test_the_papers_preset_runs_every_step_with_the_papers_methods_alone(shared):
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=700)
    first = sorted(set(part.read("staging.stg_items")["category"]))[0]
    paper = QUICK.model_copy(update={"preset": "paper", "ood_test_categories": (first,)})
    for step in CAPABILITY_STEPS:
        part.run(step, paper)
    fits = part.read("estimates.ecc_fits").set_index("method")
    assert set(fits.index) == {"ecc", "emb_only", "comp_only"}
    assert (fits["n_restarts"] == 1).all()
    assert (fits["shrinkage"] == "zero").all()
    assert part.read("estimates.ecc_grid").empty
    assert set(part.read("estimates.ecc_evaluation")["inference"]) == {"emb", "probe", "emb_probe"}
    routers = set(part.read("estimates.routing_evaluation")["router"])
    assert routers == {"random", "global_best", "oracle", "probe_winner", "ecc", "emb_only", "comp_only"}
    assert set(part.read("estimates.probe_sensitivity")["draw"]) == set(range(7))
    assert set(part.read("estimates.probe_policies")["policy"]) == {"paper", "random", "eig", "fixed"}
    assert "authors_like" in set(part.read("estimates.cold_start_evaluation")["method"])
    domains = part.read("estimates.ood_evaluation")
    assert set(domains[domains["method"] == "ecc"]["n_clusters"]) == {10, 30, 100}
    told = {verdict.question for verdict in part.verdicts}
    assert told >= {"strengths", "clusters", "probe", "routing", "cold_start", "out_of_domain", "probe_policies"}


def test_the_default_preset_has_the_papers_rows_too(shared, made):
    part = part_of(shared / "cases" / "ecc_planted_b", n_items=1000)
    for step in (item_embeddings, ecc):
        part.run(step, QUICK.model_copy(update={"preset": "paper"}))
    keys = ["method", "inference", "pair_subset"]
    paper = part.read("estimates.ecc_evaluation").set_index(keys)
    both = made.read("estimates.ecc_evaluation").set_index(keys).loc[paper.index]
    assert both.equals(paper)


def test_configured_categories_are_predicted_together_from_the_named_others(shared, made):
    part = MemoryPart(dict(made.tables))
    names = sorted(set(part.read("staging.stg_items")["category"].dropna()))
    chosen = {"ood_test_categories": tuple(names[:2]), "ood_train_categories": tuple(names[2:5])}
    part.run(out_of_domain, QUICK.model_copy(update=chosen))
    rows = part.read("estimates.ood_evaluation")
    assert set(rows["test_categories"]) == {f"{names[0]}, {names[1]}"}
    items = part.read("staging.stg_items").set_index("item_id")["category"]
    votes = part.read("intermediate.comparisons")
    of_test = votes[votes["item_id"].map(items).isin(names[:2])]
    everything = rows[(rows["pair_subset"] == "all") & (rows["method"] == "ecc")]
    # Every item of the named categories is a test item, whatever its split: all its pairs but the probe.
    assert set(everything["n_pairs"]) == {int((of_test["sample_rank"] > 0).sum())}
    others = MemoryPart(dict(made.tables))
    others.run(out_of_domain, QUICK.model_copy(update={"ood_test_categories": tuple(names[:2])}))
    all_others = others.read("estimates.ood_evaluation")
    assert not all_others["nll"].equals(rows["nll"])  # more was fitted on


def test_a_configured_category_that_is_not_there_is_named(made):
    with pytest.raises(UsageError, match="category 'alchemy' is not in this benchmark; it has"):
        MemoryPart(dict(made.tables)).run(out_of_domain, QUICK.model_copy(update={"ood_test_categories": ("alchemy",)}))


def test_a_category_cannot_be_on_both_sides():
    with pytest.raises(ValidationError, match="is in ood_test_categories and in ood_train_categories"):
        CapabilitiesSettings(ood_test_categories=("a", "b"), ood_train_categories=("b",))
    with pytest.raises(ValidationError, match="name what to predict too"):
        CapabilitiesSettings(ood_train_categories=("b",))


def test_the_tie_margin_of_the_comparisons_reaches_the_strengths(rng):
    quality = np.round(rng.uniform(size=(60, 4)), 2)
    fine, coarse = (part_of_scores(quality, [None] * 60, tie_margin=margin) for margin in (1e-9, 0.5))
    fine.run(strengths, QUICK)
    coarse.run(strengths, QUICK)
    found = [part.read("estimates.strengths")["strength"].to_numpy() for part in (fine, coarse)]
    assert np.abs(found[0] - found[1]).max() > 0.01
    wins = np.zeros((4, 4))
    for row in quality:
        wins += row[:, None] - row[None, :] > 0.5
    assert found[1] == pytest.approx(fit_bradley_terry(wins, ridge=QUICK.strength_ridge).strengths, abs=1e-9)


def test_vectors_are_kept_by_their_texts(rng, tmp_path, monkeypatch):
    class Counting:
        name, version, calls = "counting", "1", 0

        def embed(self, texts):
            Counting.calls += 1
            return np.eye(len(texts), 3)

    first = embed_cached(Counting(), ["a", "b"], tmp_path)
    assert embed_cached(Counting(), ["a", "b"], tmp_path).tobytes() == first.tobytes()
    assert Counting.calls == 1
    embed_cached(Counting(), ["b", "a"], tmp_path)  # another order is another corpus
    monkeypatch.setattr(Counting, "version", "2")
    embed_cached(Counting(), ["a", "b"], tmp_path)
    assert Counting.calls == 3
    for file in tmp_path.glob("*.npy"):
        file.write_bytes(b"broken")
    assert embed_cached(Counting(), ["a", "b"], tmp_path).tobytes() == first.tobytes()
