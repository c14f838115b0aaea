"""Publishing: the link always points to a whole file, and nobody who holds one is in the way."""

import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from capeval_pipeline.errors import BrokenClaims, CapevalError
from capeval_pipeline.storage import publications
from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.publications import as_of
from capeval_pipeline.storage.sql_models import SqlProject, load_project
from capeval_pipeline.storage.warehouse import Warehouse, benchmarks_held_back, open_as_of, open_published

NO_MODELS = SqlProject(models={}, assertions=())
SCHEMAS = {
    "estimates.toy": pa.schema([("benchmark_id", pa.string()), ("value", pa.float64())]),
    "raw.toy": pa.schema([("benchmark_id", pa.string()), ("value", pa.float64())]),
    "estimates.unmade": pa.schema([("benchmark_id", pa.string())]),
}


class Published:
    def __init__(self, root: Path) -> None:
        self.lake = Lake(root / "lake")
        self.link = root / "capeval.duckdb"
        self.warehouse = Warehouse(self.link, root / "warehouse", ComputeLimits(), n_old=1)
        self.handed: dict[str, pa.Table] = {}

    def publish(self, value: float, project: SqlProject = NO_MODELS, benchmark: str = "arc") -> None:
        table = pa.table({"benchmark_id": [benchmark], "value": [value]})
        self.lake.write("estimates.toy", benchmark, table)
        self.lake.write("raw.toy", benchmark, table)
        schemas = SCHEMAS | {key: rows.schema for key, rows in self.handed.items()}
        self.warehouse.publish(self.lake, schemas, project, self.handed)

    def rows(self, key: str, column: str = "value") -> dict[str, Any]:
        with open_published(self.link) as connection:
            return dict(connection.execute(f"select benchmark_id, {column} from {key}").fetchall())

    def value(self) -> float:
        with open_published(self.link) as connection:
            row = connection.execute("select value from estimates.toy").fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def published(tmp_path: Path) -> Published:
    found = Published(tmp_path)
    found.publish(1.0)
    return found


def test_a_reader_after_a_publish_sees_the_new_tables(published):
    published.publish(2.0)
    assert published.value() == 2.0


def test_estimates_are_tables_and_raw_tables_are_views_over_the_lake(published):
    with open_published(published.link) as connection:
        query = "select table_schema || '.' || table_name, table_type from information_schema.tables"
        kinds = dict(connection.execute(query).fetchall())
    assert kinds["estimates.toy"] == "BASE TABLE"
    assert kinds["raw.toy"] == "VIEW"


def test_a_table_nobody_filled_is_there_and_empty(published):
    with open_published(published.link) as connection:
        assert connection.execute("select count(*) from estimates.unmade").fetchone() == (0,)


def test_old_files_are_kept_up_to_the_limit_and_unfinished_ones_swept(published, tmp_path):
    (tmp_path / "warehouse" / "capeval-dead.duckdb.building").write_bytes(b"half")
    for value in (2.0, 3.0, 4.0):
        published.publish(value)
    assert len(list((tmp_path / "warehouse").glob("*.duckdb*"))) == 2


def test_a_publication_is_noted_before_it_is_seen_and_not_if_it_is_not_seen(published, tmp_path, monkeypatch):
    before = publications.publications(tmp_path / "warehouse")

    def fails(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(publications, "note", fails)
        with pytest.raises(CapevalError, match="the published one is untouched"):
            published.publish(2.0)
        assert published.value() == 1.0
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "_point_link_to", fails)
        with pytest.raises(CapevalError, match="the published one is untouched"):
            published.publish(2.0)
    assert published.value() == 1.0
    assert publications.publications(tmp_path / "warehouse") == before


def test_nothing_published_is_said_in_one_sentence(tmp_path):
    with pytest.raises(CapevalError, match="nothing is published yet"):
        open_published(tmp_path / "capeval.duckdb")


def test_the_published_file_cannot_be_written_through_us(published):
    with open_published(published.link) as connection, pytest.raises(duckdb.Error):
        connection.execute("create table x (a int)")


ANALYSTS = {
    "reads": "con = duckdb.connect(path, read_only=True)",
    "may write": "con = duckdb.connect(path)",
    "has written": "con = duckdb.connect(path); con.execute('create table mine as select 1 as a')",
}


@pytest.mark.parametrize("does", ANALYSTS)
def test_an_analyst_in_another_process_never_makes_a_publish_fail(published, does):
    """The long table is more than is read when a file is opened: the analyst's next rows come from the old file."""
    long = np.random.default_rng(1).integers(0, 10**9, 400_000)
    published.handed["meta.long"] = pa.table({"n": long})
    published.publish(1.0)
    script = textwrap.dedent(
        f"""
        import duckdb, sys
        path = {str(published.link)!r}
        {ANALYSTS[does]}
        print("open", flush=True)
        sys.stdin.readline()
        print(con.execute("select value, (select sum(n) from meta.long) from estimates.toy").fetchone(), flush=True)
        """
    )
    analyst = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert analyst.stdin is not None
    assert analyst.stdout is not None
    assert analyst.stdout.readline() == "open\n"
    assert published.value() == 1.0, "others still read the file the analyst holds"
    published.handed["meta.long"] = pa.table({"n": long[::-1] + 1})
    published.publish(2.0)
    assert published.value() == 2.0
    assert not list(published.link.resolve().parent.glob(".reading-*"))
    seen, _ = analyst.communicate("go\n", timeout=30)
    assert seen == f"(1.0, {long.sum()})\n", "the analyst keeps the file that was opened"
    published.publish(3.0)
    assert published.value() == 3.0


@pytest.fixture
def small_values(tmp_path: Path) -> SqlProject:
    """A mart of the toy table, and the claim across tables that its values are small."""
    folder = tmp_path / "sql"
    (folder / "models" / "marts").mkdir(parents=True)
    (folder / "tests").mkdir()
    mart = folder / "models" / "marts" / "toys.sql"
    mart.write_text("select benchmark_id, value from estimates.toy")
    mart.with_suffix(".yml").write_text(
        "description: One row per benchmark.\ngrain: [benchmark_id]\ncolumns:\n"
        "  - {name: benchmark_id, description: benchmark}\n  - {name: value, description: a value}\n"
    )
    claim = "-- Values are small.\nselect benchmark_id, value from marts.toys where value > 10"
    (folder / "tests" / "assert_values_are_small.sql").write_text(claim)
    return load_project(folder, known_tables={"estimates.toy"})


def held(published: Published) -> dict[str, tuple[bool, str]]:
    return {entry.benchmark_id: (entry.is_left_out, entry.sentence) for entry in benchmarks_held_back(published.link)}


def test_a_benchmark_that_breaks_a_claim_keeps_its_last_sound_rows_and_others_move_on(published, small_values):
    """The sound rows stay through any number of publications, tables and views alike, until there are sound ones."""
    published.publish(2.0, small_values)
    published.publish(11.0, small_values)
    for value in (5.0, 6.0):
        published.publish(value, small_values, benchmark="mmlu")
        for key in ("estimates.toy", "raw.toy", "marts.toys"):
            assert published.rows(key) == {"arc": 2.0, "mmlu": value}, key
        is_left_out, sentence = held(published)["arc"]
        assert not is_left_out
        assert sentence == (
            "Shown as last published; what is there now contradicts itself: "
            "Values are small: 1 row breaks it, one is benchmark_id='arc', value=11.0."
        )
    published.publish(3.0, small_values)
    assert published.rows("marts.toys") == {"arc": 3.0, "mmlu": 6.0}
    assert held(published) == {}


def test_a_benchmark_without_sound_rows_is_left_out(published, small_values):
    published.publish(2.0, small_values)
    published.publish(11.0, small_values, benchmark="mmlu")
    assert published.rows("raw.toy") == published.rows("marts.toys") == {"arc": 2.0}
    is_left_out, sentence = held(published)["mmlu"]
    assert is_left_out
    assert sentence.startswith("Left out of the database, no sound rows of it are known: Values are small")
    published.publish(11.0, small_values)  # what was published once is sound, what never was is not
    assert published.rows("marts.toys") == {"arc": 2.0}
    assert {name: left_out for name, (left_out, _) in held(published).items()} == {"arc": False, "mmlu": True}


def test_rows_that_were_sound_under_an_older_claim_are_left_out_too(published, small_values):
    published.publish(11.0)
    published.publish(12.0, small_values)
    assert published.rows("marts.toys") == {}
    assert held(published)["arc"][0]


def test_what_breaks_a_claim_and_is_no_benchmark_s_is_not_published_and_says_where(published, small_values, tmp_path):
    published.publish(2.0, small_values)
    claim = tmp_path / "sql" / "tests" / "assert_values_are_small.sql"
    claim.write_text("-- Values are small.\nselect value from marts.toys where value > 10")
    project = load_project(tmp_path / "sql", known_tables={"estimates.toy"})
    with pytest.raises(
        BrokenClaims, match=r"marts.toys: Across tables: Values are small: 1 row breaks it, one is value=11.0"
    ):
        published.publish(11.0, project)
    assert published.value() == 2.0
    assert list((tmp_path / "warehouse").glob("*.building*")) == []
    published.publish(3.0, project)
    assert published.value() == 3.0


def test_tables_that_are_handed_over_keep_the_rows_of_what_is_held_back(published, small_values):
    def hand_over(version: str) -> None:
        rows = pa.table({"benchmark_id": ["arc", "mmlu"], "data_version": [version] * 2})
        schemas = SCHEMAS | {"meta.versions": rows.schema}
        published.warehouse.publish(published.lake, schemas, small_values, {"meta.versions": rows})

    published.publish(2.0, small_values)
    hand_over("old")
    published.lake.write("estimates.toy", "arc", pa.table({"benchmark_id": ["arc"], "value": [11.0]}))
    hand_over("new")
    assert published.rows("meta.versions", "data_version") == {"arc": "old", "mmlu": "new"}


def test_looking_back_shows_what_was_held_back_as_it_was_shown(published, small_values):
    published.publish(2.0, small_values)
    published.publish(11.0, small_values)
    published.publish(12.0, small_values, benchmark="mmlu")
    then = datetime.now(UTC)
    published.publish(4.0, small_values)
    publication = as_of(published.link.parent / "warehouse", then)
    assert sorted(publication.held_back) == ["arc", "mmlu"]
    with open_as_of(published.lake, publication, SCHEMAS, small_values, ComputeLimits()) as connection:
        assert connection.execute("select benchmark_id, value from marts.toys").fetchall() == [("arc", 2.0)]
        assert connection.execute("select benchmark_id, value from raw.toy").fetchall() == [("arc", 2.0)]
