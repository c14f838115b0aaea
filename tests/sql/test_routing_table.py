"""marts.routing_table: which model for which cluster."""

import math

import pytest


def cluster(method, cluster_id, **strengths):
    key = {"method": method, "cluster_id": cluster_id}
    return [{**key, "model_id": m, "strength": s, "is_compared": True} for m, s in strengths.items()]


def fill(tables, *methods):
    tables.fill("estimates.clusters", [{"method": method, "cluster_id": 0, "weight": 1.0} for method in methods])
    for method in methods:
        tables.fill("estimates.cluster_strengths", cluster(method, 0, a=0.0, b=1.0, c=3.0))
        tables.fill(
            "estimates.cluster_responsibilities",
            [
                {"method": method, "item_id": "i", "cluster_id": 0, "responsibility": 0.75, "basis": "fitted"},
                {"method": method, "item_id": "j", "cluster_id": 0, "responsibility": 0.25, "basis": "fitted"},
                {"method": method, "item_id": "k", "cluster_id": 0, "responsibility": 1e-9, "basis": "fitted"},
            ],
        )


def test_the_strongest_is_the_choice_and_its_win_probability_is_over_the_others(tables, pick):
    fill(tables, "ecc_shrunk")
    tables.run("marts.routing_table")
    rows = tables.rows("select * from marts.routing_table")
    assert pick(rows, "choice", "model_id") == [(1, "c"), (2, "b"), (3, "a")]
    sigmoid = [1 / (1 + math.exp(-gap)) for gap in (2.0, 3.0)]
    assert rows[0]["win_probability"] == pytest.approx(sum(sigmoid) / 2)
    assert sum(pick(rows, "win_probability")) == pytest.approx(1.5)  # three models: one half each on average
    assert tables.broken_claims("marts.routing_table") == []


def test_quality_and_cost_are_weighted_by_responsibility_and_unknown_costs_left_out(tables):
    fill(tables, "ecc")
    tables.fill(
        "intermediate.item_scores",
        [
            {"item_id": "i", "model_id": "a", "quality": 1.0, "cost_usd": 2.0},
            {"item_id": "j", "model_id": "a", "quality": 0.0, "cost_usd": None},
            {"item_id": "i", "model_id": "b", "quality": 1.0},
        ],
    )
    rows = {row["model_id"]: row for row in tables.run("marts.routing_table")}
    assert (rows["a"]["mean_quality"], rows["a"]["mean_cost_usd"]) == (0.75, 2.0)
    assert (rows["b"]["mean_quality"], rows["b"]["mean_cost_usd"]) == (1.0, None)
    assert (rows["c"]["mean_quality"], rows["c"]["mean_cost_usd"]) == (None, None)


@pytest.mark.parametrize(
    ("methods", "chosen"),
    [(("ecc", "ecc_shrunk", "emb_only"), "ecc_shrunk"), (("emb_only", "ecc"), "ecc"), (("comp_only",), "comp_only")],
)
def test_one_clustering_is_routed_by(tables, pick, methods, chosen):
    fill(tables, *methods)
    assert set(pick(tables.run("marts.routing_table"), "method")) == {chosen}
