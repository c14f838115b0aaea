"""storage/sql_models: finding models, what they refer to, their versions, their claims."""

import textwrap

import duckdb
import pytest

from capeval_pipeline import kept_beside_code
from capeval_pipeline.errors import SqlModelError
from capeval_pipeline.storage import sql_reading
from capeval_pipeline.storage.sql_models import (
    LAYERS,
    KeptFacts,
    load_model,
    load_project,
    parameter_statements,
    sql_folder,
)
from capeval_pipeline.storage.sql_reading import find_parameters, find_references, parse_select, statement_version

YML = "description: One row per a.\ngrain: [a]\ncolumns:\n  - {name: a, description: the a, data_tests: [not_null]}\n"


def write(folder, name, sql, yml=YML):
    path = folder / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".sql").write_text(textwrap.dedent(sql))
    if yml is not None:
        path.with_suffix(".yml").write_text(textwrap.dedent(yml))
    (folder / "tests").mkdir(exist_ok=True)


def load(folder, known=("raw.things",)):
    return load_project(folder, known_tables=set(known))


def version(sql):
    return statement_version(parse_select(sql))


# references and versions


def test_references_are_tables_with_a_schema_and_ctes_are_none():
    sql = """
    with things as (select * from raw.things), counted as (select a, count(*) as n from things group by a)
    select counted.a, (select max(b) from staging.others) as b from counted
    join raw.things as again on again.a = counted.a, range(3) as steps
    """
    assert find_references(parse_select(sql)) == ("raw.things", "staging.others")


def test_a_table_without_a_schema_is_refused():
    with pytest.raises(SqlModelError, match="table 'things' has no schema"):
        find_references(parse_select("select a from things"))


def test_parameters_are_the_variables_that_are_read():
    tree = parse_select("select coalesce(getvariable('seed'), 0) as a, getvariable('tie_margin') as b from raw.things")
    assert find_parameters(tree) == ("seed", "tie_margin")


def test_layout_and_comments_keep_the_version():
    plain = version("select a, b + 1 as c from raw.things where a > 2")
    assert plain == version("-- why\nselect\n  a, /* ! */ b+1 AS c\nFROM raw.things\nwhere a>2 -- because\n")


@pytest.mark.parametrize(
    "other",
    [
        "select a, b + 2 as c from raw.things where a > 2",
        "select a, b + 1 as d from raw.things where a > 2",
        "select a, b + 1 as c from raw.things where a >= 2",
        "select a, b + 1 as c from raw.others where a > 2",
    ],
)
def test_an_expression_changes_the_version(other):
    assert version("select a, b + 1 as c from raw.things where a > 2") != version(other)


# finding models


def test_models_come_upstream_first(tmp_path):
    write(tmp_path, "marts/z", "select a from intermediate.y")
    write(tmp_path, "intermediate/y", "select a from staging.x")
    write(tmp_path, "intermediate/b", "select a from intermediate.y")
    write(tmp_path, "staging/x", "select a from raw.things")
    project = load(tmp_path)
    assert list(project.models) == ["staging.x", "intermediate.y", "intermediate.b", "marts.z"]
    assert project.upstream("marts.z") == ("intermediate.y", "raw.things", "staging.x")
    assert [model.name for model in project.by_layer["intermediate"]] == ["y", "b"]


def test_columns_follow_the_sql_whatever_the_order_of_their_descriptions(tmp_path):
    yml = """
    description: d
    grain: [a]
    columns:
      - {name: b, description: B, unit: USD}
      - {name: a, description: A}
    """
    write(tmp_path, "staging/x", "select a, b from raw.things", yml)
    model = load(tmp_path).models["staging.x"]
    assert model.column_names == ("a", "b")
    assert model.columns[1].unit == "USD"


@pytest.mark.parametrize(
    ("sql", "yml", "message"),
    [
        ("select a from raw.things", None, r"staging/x\.yml: missing; expected description, grain and columns"),
        ("select b from raw.things", YML, r"staging/x\.sql: column 'a' of the \.yml is not in the SQL"),
        ("select a, b from raw.things", YML, r"column 'b' of the SQL is not described in x\.yml"),
        ("select * from raw.things", YML, r"holds \* or a column without a name"),
        ("select a from raw.nothing", YML, r"x\.sql: reads raw\.nothing, which is neither a SQL model nor a table"),
        ("select a from staging.x", YML, r"in a circle: staging\.x → staging\.x"),
        ("select a from", YML, r"staging/x\.sql: cannot be parsed"),
        ("select a from raw.things; select 1", YML, r"2 statements; expected one select"),
        ("drop table raw.things", YML, r"expected one select"),
        ("select a from raw.things", YML.replace("grain", "grains"), r"x\.yml: unknown key 'grains'"),
        ("select a from raw.things", YML.replace("[a]", "[b]"), r"grain column 'b' is not described"),
        ("select a from raw.things", YML.replace("not_null", "not_nil"), r"column 'a': data test 'not_nil'"),
        ("select a from raw.things", YML.replace("not_null", "between: [1]"), r"between \[1\]; expected \[low, high\]"),
        (
            "select a from raw.things",
            YML.replace("description: the a", "unit: m"),
            r"column 'a': description is missing",
        ),
        ("select a from raw.things", "a: [", r"x\.yml: is no YAML"),
        ("select a from raw.things", "- a", r"x\.yml: holds list"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_in_a_sentence(tmp_path, sql, yml, message):
    write(tmp_path, "staging/x", sql, yml)
    with pytest.raises(SqlModelError, match=message) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_circle_over_two_models_is_named(tmp_path):
    write(tmp_path, "marts/x", "select a from marts.y")
    write(tmp_path, "marts/y", "select a from marts.x")
    with pytest.raises(SqlModelError, match="in a circle: marts"):
        load(tmp_path)


def test_a_description_without_sql_is_refused(tmp_path):
    write(tmp_path, "staging/x", "select a from raw.things")
    (tmp_path / "models" / "staging" / "lost.yml").write_text(YML)
    with pytest.raises(SqlModelError, match=r"lost\.yml: no lost\.sql beside it"):
        load(tmp_path)


def test_an_assertion_needs_its_claim_in_words(tmp_path):
    write(tmp_path, "staging/x", "select a from raw.things")
    path = tmp_path / "tests" / "assert_a_is_small.sql"
    path.write_text("-- No a is large,\n-- not even one.\nselect a from staging.x where a > 9\n")
    (claim,) = load(tmp_path).assertions
    assert (claim.name, claim.sentence) == ("assert_a_is_small", "No a is large, not even one.")
    assert claim.references == ("staging.x",)
    path.write_text("select a from staging.x where a > 9\n")
    with pytest.raises(SqlModelError, match="the first line is no comment"):
        load(tmp_path)


def test_a_folder_without_models_is_refused(tmp_path):
    with pytest.raises(SqlModelError, match="no folder 'models'"):
        sql_folder(tmp_path)


# claims

CLAIMS_YML = """
description: d
grain: [a, b]
columns:
  - {name: a, description: A, data_tests: [not_null]}
  - {name: b, description: B, data_tests: [not_null, {accepted_values: [x, "it's"]}]}
  - {name: c, description: C, data_tests: [unique, {between: [0, 1]}]}
  - {name: d, description: D, data_tests: [{between: [null, 5]}]}
"""


def broken(tmp_path, rows):
    """Claim → what its query returns over these rows."""
    write(tmp_path, "staging/x", "select a, b, c, d from raw.things", CLAIMS_YML)
    with duckdb.connect() as connection:
        connection.execute("create schema staging")
        connection.execute("create table staging.x (a integer, b varchar, c double, d double)")
        connection.executemany("insert into staging.x values (?, ?, ?, ?)", rows)
        claims = load(tmp_path).models["staging.x"].claims
        found = {claim.name: connection.execute(claim.sql).fetchall() for claim in claims}
    return {name: rows for name, rows in found.items() if rows}


def test_sound_rows_break_no_claim_and_null_breaks_only_not_null(tmp_path):
    assert broken(tmp_path, [(1, "x", 0.0, 5.0), (1, "it's", 1.0, -9.0), (2, "x", None, None)]) == {}


def test_each_claim_returns_the_rows_that_break_it(tmp_path):
    rows = [(1, "x", 0.5, 1.0), (1, "x", 0.5, 1.0), (None, "y", 2.0, float("nan"))]
    assert broken(tmp_path, rows) == {
        "grain_is_unique": [(1, "x", 2)],
        "c_is_unique": [(0.5, 2)],
        "columns_are_filled": [(None, "y", "a")],
        "values_are_known": [(None, "y", "b")],
        "values_are_in_range": [(None, "y", "c, d")],  # NaN is above every number
    }


# parameters


def test_parameters_are_set_as_what_they_are():
    values = {"seed": 3, "tie_margin": 1e-9, "source": "it's", "flag": True, "nothing": None}
    with duckdb.connect() as connection:
        for statement in parameter_statements(values):
            connection.execute(statement)
        read = ", ".join(f"getvariable('{name}')" for name in values)
        assert connection.execute(f"select {read}").fetchone() == (3, pytest.approx(1e-9), "it's", True, None)


# the project's own models


@pytest.fixture(scope="module")
def project():
    return load_project()


def test_every_model_of_the_contract_is_there(project):
    names = {layer: {model.name for model in project.by_layer[layer]} for layer in LAYERS}
    assert names == {
        "staging": {"stg_generations", "stg_items", "stg_judgments"},
        "intermediate": {"item_scores", "item_stats", "item_splits", "comparisons"},
        "marts": {
            "leaderboard",
            "model_pairs_verdicts",
            "cluster_leaderboard",
            "frontier",
            "budget_choices",
            "identification_savings",
            "routing_table",
            "coverage",
            "ingest_report",
            "cost_audit",
            "item_health",
            "order_bias",
            "rank_changes",
            "verdicts",
        },
    }


def test_staging_and_intermediate_read_nothing_that_methods_make(project):
    for layer in ("staging", "intermediate"):
        for model in project.by_layer[layer]:
            assert {key.split(".")[0] for key in project.upstream(model.key)} <= {"raw", "staging", "intermediate"}


def test_the_parameters_are_fields_of_the_stage_or_the_error_policy(project):
    from capeval_pipeline.stage_settings import STAGE_SETTINGS

    fields = set(STAGE_SETTINGS["derive"].model_fields)
    read = {name for model in project.models.values() for name in model.parameters}
    assert read == fields | {"error_policy"}


def test_defaults_in_the_sql_are_those_of_the_settings(project):
    from capeval_pipeline.stage_settings import STAGE_SETTINGS

    settings = STAGE_SETTINGS["derive"]()
    everything = " ".join(model.sql for model in project.models.values())
    for name in ("seed", "pairs_per_item", "tie_margin", "max_models", "test_share"):
        parts = everything.split(f"coalesce(getvariable('{name}'), ")[1:]
        assert {float(part.split(")")[0]) for part in parts} == {float(getattr(settings, name))}


def test_every_grain_leads_with_the_benchmark(project):
    without = [model.key for model in project.models.values() if model.grain[0] != "benchmark_id"]
    assert without == ["marts.ingest_report"]  # one file may hold several benchmarks


# what is kept from one process to the next


@pytest.fixture
def kept_in(tmp_path, monkeypatch):
    """Facts are kept in a folder of the test's own; returns the file."""
    file = tmp_path / "kept.json"
    monkeypatch.setattr(kept_beside_code, "_file", lambda name, key, root: file)
    return file


def test_what_was_kept_gives_the_same_project_and_nothing_is_parsed(kept_in, monkeypatch):
    first = load_project()
    assert kept_in.exists()
    monkeypatch.setattr(sql_reading, "parse_select", None)
    monkeypatch.setattr(sql_reading.yaml, "safe_load", None)
    assert load_project() == first


def test_another_text_is_read_anew_whatever_was_kept(kept_in, tmp_path):
    def model(sql, yml=YML):
        write(tmp_path, "marts/one", sql, yml)
        kept = KeptFacts()
        found = load_model(tmp_path / "models" / "marts" / "one.sql", kept)
        kept.save()
        return found

    first = model("select a from raw.things")
    assert model("select a from raw.things") == first
    assert model("select a + 1 as a from raw.things").code_version != first.code_version
    assert model("select a from raw.others").references == ("raw.others",)
    assert model("select a from raw.things", YML.replace("the a", "another")).columns[0].description == "another"
    assert model("select a from raw.things") == first


def test_facts_found_by_other_code_or_libraries_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(KeptFacts, "root", tmp_path)
    kept = KeptFacts()
    assert kept.facts([b"text"], lambda: {"found": 1}) == {"found": 1}
    kept.save()
    assert KeptFacts().facts([b"text"], lambda: {"found": 2}) == {"found": 1}
    monkeypatch.setattr("capeval_pipeline.storage.sql_models.version", lambda name: f"another {name}")
    assert KeptFacts().facts([b"text"], lambda: {"found": 2}) == {"found": 2}


def test_a_damaged_file_of_facts_is_as_none(kept_in):
    first = load_project()
    kept_in.write_text("[1, 2")
    assert load_project() == first
