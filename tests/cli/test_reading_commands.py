"""Reading commands on a planted database: sentences, tables, JSON, and one line with the right code where it fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import capeval_pipeline.cli as commands
from capeval_pipeline.cli import main
from capeval_pipeline.cli.demo import command_name
from tests.reporting.published import BARE, HOSTILE_MODEL, QUIZ, publish

COMMANDS = ("leaderboard", "clusters", "frontier", "identify-study")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    publish(folder / "capeval.duckdb")
    return folder


@pytest.fixture
def capeval(monkeypatch, capsys):
    """Run the command in this process: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capeval", *map(str, arguments)])
        monkeypatch.setenv("CAPEVAL_DATA", "")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reading_command_prints_its_sentences_and_tables(capeval, workspace, command):
    code, out, _ = capeval("--data", workspace, command, "quiz")
    sentences = {
        "leaderboard": "is ahead by 2.1 points (0.4 to 3.8).",
        "clusters": "a rule without clusters reaches 50.0 %.",
        "frontier": "right 83.0 % (80.1–85.2).",
        "identify-study": "after 8,997 calls.",
    }
    assert code == 0
    assert sentences[command] in out
    assert "──" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_json_holds_the_sentences_and_every_row(capeval, workspace, command):
    code, out, _ = capeval("--data", workspace, command, QUIZ, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["benchmark_id"] == QUIZ
    assert all(set(entry) == {"question", "sentence", "is_computed", "source_table"} for entry in found["verdicts"])
    assert any(isinstance(rows, list) and rows for name, rows in found.items() if name != "verdicts")


def test_the_leaderboard_in_json_keeps_names_as_they_are(capeval, workspace):
    found = json.loads(capeval("--data", workspace, "leaderboard", "quiz", "--json")[1])
    assert found["leaderboard"][0]["model_id"] == HOSTILE_MODEL
    assert found["leaderboard"][0]["upper"] is None


def test_top_limits_rows_and_says_so(capeval, workspace):
    _, out, _ = capeval("--data", workspace, "leaderboard", "quiz", "--top", "3")
    assert "3 of 7 rows" in out


def test_a_benchmark_without_results_prints_the_reason_and_ends_well(capeval, workspace):
    code, out, _ = capeval("--data", workspace, "frontier", BARE)
    assert code == 0
    assert "no cost is known" in out


def test_an_unknown_benchmark_is_wrong_use_and_lists_what_there_is(capeval, workspace):
    code, _, err = capeval("--data", workspace, "leaderboard", "nosuch")
    assert code == 2
    assert err == f"capeval: no benchmark 'nosuch'; there are: {BARE}, {QUIZ}\n"


def test_nothing_published_is_one_line_and_code_one(capeval, tmp_path):
    code, _, err = capeval("--data", tmp_path, "clusters", "quiz")
    assert code == 1
    assert err.count("\n") == 1
    assert "nothing is published yet" in err


@pytest.mark.parametrize("arguments", [("leaderboard", "quiz", "--bogus"), ("nosuchcommand",), ("leaderboard",)])
def test_wrong_use_is_told_without_a_traceback(capeval, arguments):
    code, _, err = capeval(*arguments)
    assert code == 2
    assert "Traceback" not in err
    assert "Error" in err


def test_report_writes_every_page_and_an_index(capeval, workspace):
    code, out, _ = capeval("--data", workspace, "report", "--json")
    paths = [Path(path) for path in json.loads(out)]
    assert code == 0
    assert all(path.is_file() for path in paths)
    # a page of each of the two benchmarks, one of the studies, the index
    assert [path.name for path in paths][2:] == ["synthetic-worlds.html", "index.html"]
    assert [path.name.rsplit("-", 1)[0] for path in paths[:2]] == ["bare", "quiz_2"]  # quiz@2


def test_report_writes_one_page_where_it_is_told(capeval, workspace, tmp_path):
    target = tmp_path / "deep" / "one.html"
    code, _, _ = capeval("--data", workspace, "report", "--benchmark", "quiz", "--out", target)
    assert code == 0
    assert "<h1>quiz@2</h1>" in target.read_text(encoding="utf-8")


def test_one_file_for_several_benchmarks_is_wrong_use(capeval, workspace, tmp_path):
    code, _, err = capeval("--data", workspace, "report", "--out", tmp_path / "one.html")
    assert code == 2
    assert "name one with --benchmark" in err


def test_export_writes_a_file_a_table_and_lists_them(capeval, workspace, tmp_path):
    code, out, _ = capeval("--data", workspace, "export", QUIZ, "--to", tmp_path / "out", "--json")
    listed = {entry["table"]: entry for entry in json.loads(out)}
    assert code == 0
    assert {f"{path.parent.name}.{path.stem}" for path in (tmp_path / "out").rglob("*.parquet")} == set(listed)
    assert listed["marts.leaderboard"]["n_rows"] > 1


@pytest.mark.parametrize(("query", "told"), [("select 1", "1 row\n"), ("select 1 where false", "0 rows\n")])
def test_sql_says_how_many_rows(capeval, workspace, query, told):
    code, out, _ = capeval("--data", workspace, "sql", query)
    assert code == 0
    assert out.endswith(f"\n{told}")


@pytest.mark.parametrize("query", ["select modelid from marts.leaderboard", "selct 1", "drop table marts.leaderboard"])
def test_a_wrong_query_is_one_line_and_code_one(capeval, workspace, query):
    code, _, err = capeval("--data", workspace, "sql", query)
    assert code == 1
    assert err.startswith("capeval: the query failed: ")
    assert err.count("\n") == 1


def test_asking_for_the_status_of_a_mistyped_folder_makes_no_workspace_of_it(capeval, tmp_path):
    code, _, err = capeval("--data", tmp_path / "dta", "status")
    assert code == 1
    assert err.startswith(f"capeval: {tmp_path / 'dta'}: no such workspace; ")
    assert not (tmp_path / "dta").exists()


def test_an_interrupt_is_told_whoever_caught_it_first(capeval, monkeypatch):
    monkeypatch.setattr(commands, "app", lambda **_: 130)
    code, _, err = capeval("run")
    assert code == 130
    assert err.startswith("capeval: interrupted; ")


def test_the_demo_names_the_command_as_it_can_be_typed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert command_name(str(tmp_path / ".venv" / "bin" / "capeval")) == ".venv/bin/capeval"
    assert command_name("/opt/tools/capeval") == "/opt/tools/capeval"


def test_a_reading_command_loads_no_dagster(workspace):
    script = (
        "import sys; from capeval_pipeline.cli import app; "
        f"app(['--data', {str(workspace)!r}, 'leaderboard', 'quiz'], standalone_mode=False); "
        "sys.exit(sum(name.split('.')[0] in ('dagster', 'plotly', 'numba') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
