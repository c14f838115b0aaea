"""docs/adding.md is carried out as it stands: its files into a copy of the project, its changes made, its tests run."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "adding.md"
NEEDED = ("capeval_pipeline", "dbt_like_sql", "tests", "pyproject.toml", "workspace.yaml", "dagster.yaml")
BLOCK = re.compile(r"(?:^`(?P<path>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
MOST_LINES_OF_A_FORMAT = 60


def steps() -> list[tuple[str, str, str, str]]:
    """(section, path, kind, text) of every block; a change without a path is of the file before it."""
    found, path = [], ""
    page = PAGE.read_text(encoding="utf-8")
    for block in BLOCK.finditer(page):
        path = block["path"] or path
        section = [heading[1] for heading in SECTION.finditer(page, 0, block.start())][-1]
        found.append((section, path, block["kind"], block["text"]))
    return found


def changed(source: str, change: str) -> str:
    """The source with a change made: lines that begin with a space must stand there, those with + are new."""
    lines = change.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] == " ")
    assert source.count(before) == 1, f"these lines stand {source.count(before)} times in the file:\n{before}"
    return source.replace(before, "".join(line[1:] for line in lines))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project after everything on the page was done to it."""
    root = tmp_path_factory.mktemp("adding") / "project"
    root.mkdir()
    leave_out = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in NEEDED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=leave_out)
        else:
            shutil.copy(source, root / name)
    for _, path, kind, text in steps():
        target = root / path
        if kind == "diff":
            target.write_text(changed(target.read_text(encoding="utf-8"), text), encoding="utf-8")
        else:
            assert not target.exists(), f"{path} is there already"
            target.write_text(text, encoding="utf-8")
    return root


def test_the_page_shows_a_format_a_policy_an_estimator_and_a_model_each_with_its_test():
    tests_of = {section: path for section, path, *_ in steps() if path.startswith("tests/")}
    assert set(tests_of) == {"A format", "An allocation policy", "An oracle estimator", "A SQL model"}


def test_what_the_page_adds_passes_its_tests_the_linter_and_the_type_checker(copy):
    paths = sorted({path for _, path, *_ in steps()})
    python = [path for path in paths if path.endswith(".py")]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    tests = [path for path in python if path.startswith("tests/")]
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider", *tests],
        ["ruff", "check", *python],
        ["ruff", "format", "--check", *python],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


def test_a_reader_and_its_test_take_fewer_than_sixty_lines():
    added = [
        line
        for section, _, kind, text in steps()
        if section == "A format"
        for line in text.splitlines()
        if line.strip() and not (kind == "diff" and line.startswith(" "))
    ]
    assert len(added) < MOST_LINES_OF_A_FORMAT, len(added)


def test_the_page_of_tables_is_that_of_the_contracts():
    spec = importlib.util.spec_from_file_location("docs_tables", PROJECT / "docs" / "tables.py")
    assert spec is not None and spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    assert written.PAGE.read_text(encoding="utf-8") == written.page(), "python docs/tables.py writes it"
    named = set(re.findall(r"^### (\S+)$", written.page(), re.MULTILINE))
    published = {*written.TABLES, *written.load_project().models}
    assert named == {key for key in published if not key.startswith("readings.")}


def test_the_table_that_the_readme_shows_is_read_as_it_says(tmp_path):
    from capeval_pipeline.formats import wide
    from tests.formats.reading import read_whole, write

    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```csv\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    found = read_whole(wide, write(tmp_path / "scores.csv", block))
    told = [(row["model"], row["score"], row["cost_reported_usd"]) for row in found.generations]
    assert told == [("lab/alder", 1.0, None), ("lab/birch", 0.0, 0.0021)]
    assert [row["prompt"] for row in found.items] == ["How do I reset my password?"]
