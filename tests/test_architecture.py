"""Imports go one way: each layer may import those to its right, and a few libraries have one owner."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "capeval_pipeline"

LAYERS = (
    {"cli"},
    {"definitions"},
    {"orchestration"},
    {"ingestion"},
    {"formats", "embedders", "arrays", "executors", "reporting", "sessions"},
    {"storage", "methods"},
    {"stage_settings", "settings", "kernel_cache", "one_thread", "progress", "errors", "counting"},
)
"""From the shell inwards. `cli` launches through `definitions` and the driver."""

OWNERS = {
    "deltalake": {"storage/lake.py"},
    "dagster": {"definitions.py", "orchestration/"},
    "typer": {"cli/"},
    "rich": {"cli/"},
    "plotly": {"reporting/"},
}
PURE = ("methods/",)
IMPURE_LIBRARIES = {"dagster", "duckdb", "pandas", "deltalake", "pyarrow"}


def imports() -> Iterator[tuple[str, str]]:
    """(module's path inside the package, imported module) for every import statement, wherever it stands."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield inside, name.name
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield inside, node.module


def top(inside: str) -> str:
    return inside.split("/")[0].removesuffix(".py")


def layer_of(name: str) -> int:
    for index, names in enumerate(LAYERS):
        if name in names:
            return index
    raise AssertionError(f"{name!r} stands in no layer; add it where it belongs")


def test_no_module_imports_a_layer_further_out():
    wrong = [
        f"{inside} imports {module}"
        for inside, module in imports()
        if inside != "__init__.py"
        and module.startswith("capeval_pipeline.")
        and layer_of(module.split(".")[1]) < layer_of(top(inside))
    ]
    assert wrong == []


def test_storage_and_methods_do_not_know_each_other():
    pairs = {("storage", "methods"), ("methods", "storage")}
    wrong = [
        f"{inside} imports {module}"
        for inside, module in imports()
        if module.startswith("capeval_pipeline.") and (top(inside), module.split(".")[1]) in pairs
    ]
    assert wrong == []


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_imported_by_its_owner_alone(library):
    wrong = [
        inside
        for inside, module in imports()
        if module.split(".")[0] == library and not any(inside.startswith(owner) for owner in OWNERS[library])
    ]
    assert wrong == []


def test_methods_import_no_tables_and_no_frames():
    wrong = [
        f"{inside} imports {module}"
        for inside, module in imports()
        if inside.startswith(PURE) and module.split(".")[0] in IMPURE_LIBRARIES
    ]
    assert wrong == []


def test_no_module_is_called_helpers_or_utils():
    assert [path.name for path in PACKAGE.rglob("*.py") if path.stem in {"helpers", "utils", "misc", "helper"}] == []
