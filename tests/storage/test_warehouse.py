"""Publishing: the link always points to a whole file, and nobody who holds one is in the way."""

import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from capeval_pipeline.errors import BrokenClaims, CapevalError
from capeval_pipeline.storage.connections import ComputeLimits
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.sql_models import SqlProject, load_project
from capeval_pipeline.storage.warehouse import Warehouse, open_published

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

    def publish(self, value: float, project: SqlProject = NO_MODELS) -> None:
        table = pa.table({"benchmark_id": ["arc"], "value": [value]})
        self.lake.write("estimates.toy", "arc", table)
        self.lake.write("raw.toy", "arc", table)
        self.warehouse.publish(self.lake, SCHEMAS, project, {})

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
    script = textwrap.dedent(
        f"""
        import duckdb, sys
        path = {str(published.link)!r}
        {ANALYSTS[does]}
        print("open", flush=True)
        sys.stdin.readline()
        print(con.execute("select value from estimates.toy").fetchone()[0], flush=True)
        """
    )
    analyst = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert analyst.stdin is not None
    assert analyst.stdout is not None
    assert analyst.stdout.readline() == "open\n"
    assert published.value() == 1.0, "others still read the file the analyst holds"
    published.publish(2.0)
    assert published.value() == 2.0
    assert not list(published.link.resolve().parent.glob(".reading-*"))
    seen, _ = analyst.communicate("go\n", timeout=30)
    assert seen == "1.0\n", "the analyst keeps the file that was opened"
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


def test_what_breaks_a_claim_is_not_published_and_says_where(published, small_values, tmp_path):
    published.publish(2.0, small_values)
    with pytest.raises(
        BrokenClaims, match=r"marts.toys: Across tables: Values are small: 1 rows break it, one is benchmark_id='arc'"
    ):
        published.publish(11.0, small_values)
    assert published.value() == 2.0
    assert list((tmp_path / "warehouse").glob("*.building*")) == []
    published.publish(3.0, small_values)
    assert published.value() == 3.0
