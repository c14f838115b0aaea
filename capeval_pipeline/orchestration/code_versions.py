"""The version of a step's code, told by the code itself, so that nobody has to remember to raise a number.

It is a hash of the syntax trees of the step's body, of what it uses in its own module, and of every module of the
package it imports, directly or through others, docstrings and comments apart: a reworded comment keeps the version, a
changed expression changes it. The frame that runs steps is left out: it decides when a step runs, not what comes out.
"""

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "capeval_pipeline"
ROOT = Path(__file__).resolve().parents[1]
FOLLOWED = ("methods", "arrays", "embedders", "formats", "ingestion", "reporting.verdicts", "orchestration.assets")
"""Where results come from; settings count by their values, tables by their contracts."""


def code_version(body: Callable[..., Any]) -> str:
    """Version of the code behind a module-level function, 16 hex digits."""
    module = body.__module__
    tree = _tree(module)
    used, imported = _reached(tree, body.__name__)
    parts = [f"{name}={ast.dump(node)}" for name, node in sorted(used.items())]
    modules = sorted(_closure(_targets(imported)) - {module})
    parts += [f"{name}={_module_hash(name)}" for name in modules]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _reached(tree: ast.Module, name: str) -> tuple[dict[str, ast.stmt], list[ast.stmt]]:
    """Statements of a module that a function reaches by name, itself included, and the imports among what it uses."""
    definitions = {bound: node for node in tree.body for bound in _bound(node)}
    used: dict[str, ast.stmt] = {}
    imported: list[ast.stmt] = []
    pending = [name]
    while pending:
        current = pending.pop()
        node = definitions.get(current)
        if node is None or current in used:
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported.append(node)
            continue
        used[current] = node
        imported += [inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)]
        pending += sorted({inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)})
    return used, imported


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names a module-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _targets(statements: Iterable[ast.stmt]) -> set[str]:
    """Followed modules of the package that import statements name; `from a import b` may mean module a.b."""
    named: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    followed = tuple(f"{PACKAGE}.{name}" for name in FOLLOWED)
    return {name for name in named if name.startswith(followed) and _path(name) is not None}


def _closure(modules: set[str]) -> set[str]:
    found: set[str] = set()
    pending = sorted(modules)
    while pending:
        module = pending.pop()
        if module not in found:
            found.add(module)
            pending += sorted(_imports(module) - found)
    return found


@cache
def _imports(module: str) -> frozenset[str]:
    imports = (node for node in ast.walk(_tree(module)) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset(_targets(imports))


@cache
def _module_hash(module: str) -> str:
    return hashlib.sha256(ast.dump(_tree(module)).encode()).hexdigest()


@cache
def _tree(module: str) -> ast.Module:
    """Syntax tree of a module without docstrings."""
    path = _path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


def _path(module: str) -> Path | None:
    inside = module.removeprefix(PACKAGE).strip(".").replace(".", "/")
    for path in (ROOT / f"{inside}.py", ROOT / inside / "__init__.py"):
        if path.is_file():
            return path
    return None
