"""What a SQL model's two files say: the statement parsed, the description checked against it. Plain values, for JSON.

Only this module parses SQL; sql_models.py asks it about files it does not know yet.
"""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from sqlglot import exp
from sqlglot.errors import SqlglotError

from capeval_pipeline.errors import SqlModelError

DIALECT = "duckdb"
MODEL_KEYS = {"description", "grain", "columns"}
COLUMN_KEYS = {"name", "description", "unit", "data_tests"}
DATA_TESTS = ("not_null", "unique", "accepted_values", "between")

Described = list[Any]
"""A column: name, description, unit, [kind, argument] of each of its tests."""


def read_model(path: Path) -> dict[str, Any]:
    """Facts of `<layer>/<name>.sql` and the `.yml` beside it; columns in the order the SQL gives them."""
    place = f"{path.parent.name}/{path.name}"
    tree = parse_select(path.read_text(encoding="utf-8"), place)
    description, grain, columns = read_description(path.with_suffix(".yml"))
    given = _output_columns(tree, place)
    described = [column[0] for column in columns]
    for name in described:
        if name not in given:
            raise SqlModelError(f"{place}: column {name!r} of the .yml is not in the SQL, which gives {given}")
    for name in given:
        if name not in described:
            raise SqlModelError(f"{place}: column {name!r} of the SQL is not described in {path.stem}.yml")
    return {
        "description": description,
        "grain": grain,
        "columns": sorted(columns, key=lambda column: given.index(column[0])),
        "references": list(find_references(tree, place)),
        "code_version": statement_version(tree),
        "parameters": list(find_parameters(tree)),
    }


def read_assertion(path: Path) -> dict[str, Any]:
    """Facts of `tests/assert_<claim>.sql`: the tables it reads."""
    place = f"tests/{path.name}"
    return {"references": list(find_references(parse_select(path.read_text(encoding="utf-8"), place), place))}


def parse_select(sql: str, place: str = "SQL") -> exp.Query:
    """Parse one select statement (with or without CTEs); raises SqlModelError naming the place."""
    try:
        statements = [statement for statement in sqlglot.parse(sql, read=DIALECT) if statement is not None]
    except SqlglotError as error:
        raise SqlModelError(f"{place}: cannot be parsed: {' '.join(str(error).split())[:200]}") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SqlModelError(f"{place}: {len(statements)} statements; expected one select")
    return statements[0]


def find_references(tree: exp.Query, place: str = "SQL") -> tuple[str, ...]:
    """Tables the statement reads, `schema.name`, sorted; names of CTEs apart."""
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    references = set()
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a table function such as range()
        if table.db:
            references.add(f"{table.db}.{table.name}")
        elif table.name not in ctes:
            raise SqlModelError(f"{place}: table {table.name!r} has no schema; expected schema.table or a CTE")
    return tuple(sorted(references))


def find_parameters(tree: exp.Query) -> tuple[str, ...]:
    """Names of the variables the statement reads with getvariable, sorted."""
    calls = (call for call in tree.find_all(exp.Anonymous) if call.name.lower() == "getvariable")
    return tuple(sorted({call.expressions[0].name for call in calls}))


def statement_version(tree: exp.Query) -> str:
    """Hash of the canonical SQL without comments: layout and comments keep it, an expression changes it."""
    return hashlib.sha256(tree.sql(dialect=DIALECT, comments=False).encode()).hexdigest()[:16]


def _output_columns(tree: exp.Query, place: str) -> list[str]:
    names = list(tree.named_selects)
    if "*" in names or "" in names:
        raise SqlModelError(f"{place}: the last select holds * or a column without a name; expected a list of columns")
    return names


def read_description(path: Path) -> tuple[str, list[str], list[Described]]:
    """Description, grain and columns of a .yml; raises SqlModelError with the offending key."""
    place = f"{path.parent.name}/{path.name}"
    if not path.is_file():
        raise SqlModelError(f"{place}: missing; expected description, grain and columns of {path.stem}.sql")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SqlModelError(f"{place}: is no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(content, dict):
        raise SqlModelError(f"{place}: holds {type(content).__name__}; expected description, grain and columns")
    _check_keys(place, content, MODEL_KEYS, MODEL_KEYS)
    columns = [_read_column(place, entry) for entry in content["columns"]]
    names = [column[0] for column in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SqlModelError(f"{place}: column {repeated[0]!r} is described twice; expected once")
    for name in content["grain"]:
        if name not in names:
            raise SqlModelError(f"{place}: grain column {name!r} is not described; described are {names}")
    return " ".join(str(content["description"]).split()), list(content["grain"]), columns


def _read_column(place: str, entry: Any) -> Described:
    if not isinstance(entry, dict):
        raise SqlModelError(f"{place}: a column is {entry!r}; expected name and description")
    _check_keys(f"{place}: column {entry.get('name')!r}", entry, COLUMN_KEYS, {"name", "description"})
    tests: list[list[Any]] = []
    for test in entry.get("data_tests", []):
        kind, argument = next(iter(test.items())) if isinstance(test, dict) else (test, None)
        if kind not in DATA_TESTS:
            raise SqlModelError(f"{place}: column {entry['name']!r}: data test {kind!r}; expected one of {DATA_TESTS}")
        if kind == "between" and not (isinstance(argument, list) and len(argument) == 2 and argument != [None, None]):
            raise SqlModelError(f"{place}: column {entry['name']!r}: between {argument!r}; expected [low, high]")
        if kind == "accepted_values" and not (isinstance(argument, list) and argument):
            raise SqlModelError(f"{place}: column {entry['name']!r}: accepted_values {argument!r}; expected a list")
        tests.append([kind, argument])
    return [str(entry["name"]), str(entry["description"]), str(entry.get("unit", "")), tests]


def _check_keys(place: str, content: Mapping[Any, Any], allowed: Collection[str], needed: Collection[str]) -> None:
    unknown = sorted(str(key) for key in content if key not in allowed)
    if unknown:
        raise SqlModelError(f"{place}: unknown key {unknown[0]!r}; expected {', '.join(sorted(allowed))}")
    missing = sorted(key for key in needed if not content.get(key))
    if missing:
        raise SqlModelError(f"{place}: {missing[0]} is missing; expected {', '.join(sorted(needed))}")
