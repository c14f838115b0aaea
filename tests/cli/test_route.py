"""capeval route on a small published database: two kinds of items, a model that is good at each, and a dear one."""

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from capeval_pipeline.cli import main
from capeval_pipeline.embedders import EMBEDDERS
from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.tables import TABLES

MODELS = ("dear", "poet", "solver", "stranger")
COSTS = {"dear": 0.5, "poet": 0.002, "solver": 0.001, "stranger": None}
SUMS = ("solve the equation for x", "what is the sum of these numbers", "factor the polynomial over x")
VERSES = ("write a poem about the sea", "compose a verse of four lines", "rhyme a poem with the moon")
TEXTS = [f"{SUMS[i % 3]} task {i % 7}" if i % 2 == 0 else f"{VERSES[i % 3]} task {i % 7}" for i in range(60)]
STRENGTHS = {0: (1.0, -1.0, 2.0, 3.0), 1: (1.0, 2.0, -1.0, 3.0)}
"""The stranger was compared in no cluster: its strength is a prior's."""


def tables(benchmark: str, *, embedder: str, has_costs: bool) -> dict[str, list[dict]]:
    vectors = EMBEDDERS["tfidf_svd"].embed(TEXTS)
    items = [f"i{q:02d}" for q in range(len(TEXTS))]
    key = {"benchmark_id": benchmark}
    mixture = key | {"method": "ecc_shrunk"}
    cells = [(item, model) for item in items for model in MODELS]
    found = {
        "raw.benchmarks": [key | {"name": benchmark, "score_low": 0.0, "score_high": 1.0, "settings": "{}"}],
        "raw.items": [key | {"item_id": i, "prompt": t} for i, t in zip(items, TEXTS, strict=True)],
        "raw.models": [key | {"model_id": model} for model in MODELS],
        "raw.generations": [
            key
            | {"item_id": item, "model_id": model, "generation_id": 0, "status": "ok", "score": 1.0, "file_id": "f"}
            | {"cost_usd": COSTS[model] if has_costs else None, "cost_source": "reported"}
            for item, model in cells
        ],
        "estimates.ecc_fits": [
            mixture | {"n_clusters": 2, "embedding_weight": 3.0, "temperature": 0.1, "ridge": 1.0, "converged": True}
        ],
        "estimates.strengths": [
            key | {"model_id": model, "strength": s, "rank": r, "mean_score": 0.5}
            for model, s, r in zip(MODELS, (1.5, 0.5, 0.4, -2.4), (1, 2, 3, 4), strict=True)
        ],
        "estimates.clusters": [
            mixture | {"cluster_id": k, "weight": 0.5, "label": label} for k, label in enumerate(("sums", "poems"))
        ],
        "estimates.cluster_strengths": [
            mixture | {"cluster_id": k, "model_id": m, "strength": s, "is_compared": m != "stranger"}
            for k, row in STRENGTHS.items()
            for m, s in zip(MODELS, row, strict=True)
        ],
        "estimates.cluster_responsibilities": [
            mixture | {"item_id": i, "cluster_id": k, "responsibility": float(q % 2 == k), "basis": "fitted"}
            for q, i in enumerate(items)
            for k in (0, 1)
        ],
    }
    if embedder:
        found["estimates.item_embeddings"] = [
            key | {"item_id": i, "embedder": embedder, "embedding": v.tolist()}
            for i, v in zip(items, vectors, strict=True)
        ]
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("routes")
    cases = {
        "desk": ("tfidf_svd 1", True),
        "free": ("tfidf_svd 1", False),
        "given": ("given", True),
        "mute": ("", True),
    }
    cases["older"] = ("tfidf_svd 0", True)
    made = [tables(name, embedder=embedder, has_costs=costs) for name, (embedder, costs) in cases.items()]
    with duckdb.connect(str(folder / "capeval.duckdb")) as connection:
        for key, contract in TABLES.items():
            connection.execute(f"create schema if not exists {contract.schema}")
            rows = [dict.fromkeys(contract.column_names) | row for found in made for row in found.get(key, [])]
            connection.register("handed", pa.Table.from_pylist(rows, contract.arrow_schema))
            connection.execute(f"create table {key} as select * from handed")
            connection.unregister("handed")
        for key, model in load_project().models.items():
            connection.execute(f"create schema if not exists {model.schema}")
            connection.execute(f"create table {key} as {model.sql}")
    return folder


@pytest.fixture
def route(monkeypatch, capsys, workspace):
    """Run the command in this process: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(workspace), "route", *map(str, arguments)])
        monkeypatch.setenv("CAPEVAL_DATA", "")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def told(route, *arguments):
    code, out, err = route(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_a_prompt_goes_to_who_is_good_at_its_kind(route):
    sums = told(route, "desk", "solve the equation for x task 3")
    verse = told(route, "desk", "write a poem about the sea task 3")
    assert (sums["model_id"], verse["model_id"]) == ("solver", "poet")
    assert (sums["clusters"][0]["label"], verse["clusters"][0]["label"]) == ("sums", "poems")
    assert sums["clusters"][0]["responsibility"] > 0.9
    assert not sums["is_unlike_anything_measured"]
    assert sum(row["win_probability"] for row in sums["models"]) == pytest.approx(2.0)  # a half each of four
    code, out, _ = route("desk", "solve the equation for x task 3")
    assert code == 0
    assert "Send it to solver" in out
    assert "sums" in out


def test_a_model_that_was_hardly_compared_on_such_items_is_not_chosen_and_the_table_says_so(route):
    rows = {row["model_id"]: row for row in told(route, "desk", "solve the equation for x task 3")["models"]}
    assert rows["stranger"]["strength"] == max(row["strength"] for row in rows.values())
    assert not rows["stranger"]["is_known"]
    assert "hardly compared on such items" in route("desk", "solve the equation for x task 3")[1]


def test_a_cost_budget_leaves_out_what_is_dearer(route):
    found = told(route, "desk", "write a poem about the sea task 3", "--cost-budget", 0.0015)
    assert found["model_id"] == "solver"
    assert {row["model_id"] for row in found["models"] if row["is_affordable"]} == {"solver"}
    assert found["models"][0]["cost_usd"] == pytest.approx(0.001)
    assert found["model_id_without_budget"] == "poet"
    out = route("desk", "write a poem about the sea task 3", "--cost-budget", 0.0015)[1]
    assert "the best within $0.00150 a call; without a budget: poet ($0.00200)" in out
    assert "without a budget" not in route("desk", "write a poem about the sea task 3")[1]


def test_a_cost_budget_below_the_cheapest_is_refused_with_its_cost(route):
    code, _, err = route("desk", "a poem", "--cost-budget", 0.0001)
    assert code == 1
    assert "the cheapest of known cost is solver at $0.001" in err


def test_a_cost_budget_without_costs_is_refused(route):
    code, _, err = route("free", "a poem", "--cost-budget", 1)
    assert code == 1
    assert "no model has a known cost" in err
    assert told(route, "free", "a poem about the sea")["models"][0]["cost_usd"] is None


def test_a_prompt_unlike_anything_measured_gets_the_ranking_of_all_items(route):
    found = told(route, "desk", "zyzzyva quokka")
    assert found["is_unlike_anything_measured"]
    assert found["best_cosine"] < found["least_cosine"]
    assert found["model_id"] == "dear"  # first overall, first in neither cluster
    assert "unlike anything measured" in route("desk", "zyzzyva quokka")[1]


def test_an_observed_pair_moves_the_item(route):
    plain = told(route, "desk", "task")
    seen = told(route, "desk", "task", "--observed", "poet,solver")
    share = {entry["label"]: entry["responsibility"] for entry in seen["clusters"]}
    before = {entry["label"]: entry["responsibility"] for entry in plain["clusters"]}
    assert share["poems"] > before["poems"]
    assert sorted(plain["most_informative_pair"]) == ["poet", "solver"]


def test_an_item_of_the_benchmark_is_routed_by_its_vector(route):
    assert told(route, "given", "--item", "i00")["model_id"] == "solver"
    assert told(route, "given", "--item", "i01")["model_id"] == "poet"


def test_vectors_that_came_with_the_items_need_the_prompts_own(route, tmp_path):
    code, _, err = route("given", "a poem")
    assert code == 1
    assert "--vector" in err
    vector = EMBEDDERS["tfidf_svd"].embed(TEXTS)[1]
    (tmp_path / "v.json").write_text(json.dumps((7.0 * vector).tolist()))
    assert told(route, "given", "--vector", tmp_path / "v.json")["model_id"] == "poet"


@pytest.mark.parametrize("text", ["[1, 2]", "no json", '{"a": 1}', "[NaN, 1]"])
def test_a_vector_of_another_kind_is_wrong_use(route, tmp_path, text):
    (tmp_path / "v.json").write_text(text)
    code, _, err = route("given", "--vector", tmp_path / "v.json")
    assert code == 2
    assert f"a JSON list of {len(EMBEDDERS['tfidf_svd'].embed(TEXTS)[0])} numbers" in err


def test_items_without_vectors_and_vectors_of_another_release_are_refused(route):
    assert route("mute", "a poem")[0] == 1
    assert "no item has a vector" in route("mute", "a poem")[2]
    assert "capeval run" in route("older", "a poem")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("desk",), "give one of"),
        (("desk", "a poem", "--item", "i00"), "give one of"),
        (("desk", "   "), "empty"),
        (("desk", "--item", "nope"), "no such item"),
        (("desk", "a poem", "--observed", "poet"), "two different models"),
        (("desk", "a poem", "--observed", "poet,nobody"), "two different models"),
        (("nowhere", "a poem"), "nowhere"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_expected(route, arguments, said):
    code, out, err = route(*arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_prompt_is_read_from_standard_input(route, monkeypatch):
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("write a poem about the sea task 3\n"))
    assert told(route, "desk", "-")["model_id"] == "poet"


def test_the_same_call_gives_the_same_words(route):
    assert route("desk", "solve the equation for x task 3") == route("desk", "solve the equation for x task 3")
    assert np.isfinite(told(route, "desk", "solve the equation for x task 3")["best_cosine"])
