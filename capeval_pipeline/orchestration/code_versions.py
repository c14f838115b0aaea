"""The version of a step's code, told by the code itself, so that nobody has to remember to raise a number.

It is a hash of the syntax trees of the step's body, of what it uses in its own module, and of every module of the
package it imports, directly or through others, docstrings and comments apart: a reworded comment keeps the version, a
changed expression changes it. The frame that runs steps is left out: it decides when a step runs, not what comes out.
"""

import ast
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capeval_pipeline import kept_beside_code

PACKAGE = "capeval_pipeline"
ROOT = Path(__file__).resolve().parents[1]
FOLLOWED = ("methods", "arrays", "embedders", "formats", "ingestion", "reporting.verdicts", "orchestration.assets",
            "orchestration.capability_inputs")  # fmt: skip
"""Where results come from; settings count by their values, tables by their contracts."""

SETTLED_SECONDS = 2.0
"""A file changed this recently may change again within the clock's grain, and to a text of the same length."""


def code_version(body: Callable[..., Any]) -> str:
    """Version of the code behind a module-level function, 16 hex digits."""
    module = body.__module__
    own = _facts(module, body.__name__)
    modules = sorted(_closure(_modules(own.imports)) - {module})
    parts = [own.digest, *(f"{name}={_facts(name).digest}" for name in modules)]
    _remembered.save()
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Facts:
    """Of a module, or of a function with what it uses there: hash of the code, names that may be imported modules."""

    digest: str
    imports: tuple[str, ...]


@cache
def _facts(module: str, function: str = "") -> Facts:
    path = _path(module)
    assert path is not None
    known = _remembered.get(path, function)
    if known:
        return known
    tree = _tree(module)
    if function:
        used, imported = _reached(tree, function)
        dump = "\n".join(f"{name}={ast.dump(node)}" for name, node in sorted(used.items()))
    else:
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        dump = ast.dump(tree)
    found = Facts(hashlib.sha256(dump.encode()).hexdigest(), tuple(sorted(_named(imported))))
    _remembered.put(path, function, found)
    return found


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


def _named(statements: Iterable[ast.stmt]) -> set[str]:
    """Names of the package's followed parts in import statements; `from a import b` may mean module a.b."""
    named: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    followed = tuple(f"{PACKAGE}.{name}" for name in FOLLOWED)
    return {name for name in named if name.startswith(followed)}


def _modules(names: Iterable[str]) -> set[str]:
    return {name for name in names if _path(name) is not None}


def _closure(modules: set[str]) -> set[str]:
    found: set[str] = set()
    pending = sorted(modules)
    while pending:
        module = pending.pop()
        if module not in found:
            found.add(module)
            pending += sorted(_modules(_facts(module).imports) - found)
    return found


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
    return _sources(ROOT).get(module)


@cache
def _sources(root: Path) -> dict[str, Path]:
    """Module → file of the package, looked up once: asking for each name whether there is a file takes longer."""
    found = {}
    for path in root.rglob("*.py"):
        inside = path.relative_to(root).with_suffix("").parts
        found[".".join((PACKAGE, *inside)).removesuffix(".__init__")] = path
    return found


class _Remembered:
    """Facts of files kept from one process to the next, as compiled modules are: beside the code, by size and time.

    Parsing the package takes longer than all else that loading the definitions does.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._entries: dict[str, dict[str, list[Any]]] = {}
        self._is_changed = False

    def get(self, path: Path, function: str) -> Facts | None:
        self._load()
        found = self._entries.get(_stamp(path), {}).get(function)
        return Facts(found[0], tuple(found[1])) if found else None

    def put(self, path: Path, function: str, facts: Facts) -> None:
        """Remember, unless the file is so new that it could change again without its time telling."""
        if time.time() - path.stat().st_ctime > SETTLED_SECONDS:
            self._entries.setdefault(_stamp(path), {})[function] = [facts.digest, list(facts.imports)]
            self._is_changed = True

    def save(self) -> None:
        if self._is_changed:
            self._is_changed = False
            kept_beside_code.write("code_versions", OWN_CODE, self._entries, ROOT)

    def _load(self) -> None:
        if self._root == ROOT:
            return
        self._root, self._entries, self._is_changed = ROOT, {}, False
        kept = kept_beside_code.read("code_versions", OWN_CODE, ROOT)
        if kept:
            there = {_stamp(path) for path in _sources(ROOT).values()}
            self._entries = {stamp: facts for stamp, facts in kept.items() if stamp in there}


def _stamp(path: Path) -> str:
    """What changes whenever the file does. The time is that of the inode: installers set the other one as they like."""
    stat = path.stat()
    return f"{path.relative_to(ROOT)}|{stat.st_size}|{stat.st_ctime_ns}"


OWN_CODE = kept_beside_code.key_of(Path(__file__))
_remembered = _Remembered()
