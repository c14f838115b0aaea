"""Finds the SQL models of dbt_like_sql: what they read, what they promise, in which order they run, their version.

A model is `models/<layer>/<name>.sql` with `<name>.yml` beside it; a claim across tables is
`tests/assert_<claim>.sql`. The SQL runs as it stands, so references are found by parsing and nothing is templated.
Running a model is not this module's business: it hands out SQL text and opens no connection.
"""

import graphlib
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from sqlglot import exp
from sqlglot.errors import SqlglotError

from capeval_pipeline.errors import CapevalError
from capeval_pipeline.storage.tables import TABLES

DIALECT = "duckdb"
LAYERS = ("staging", "intermediate", "marts")
MODEL_KEYS = {"description", "grain", "columns"}
COLUMN_KEYS = {"name", "description", "unit", "data_tests"}
DATA_TESTS = ("not_null", "unique", "accepted_values", "between")
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


class SqlModelError(CapevalError):
    """A SQL model does not say what it must, or refers to something that is not there."""


@dataclass(frozen=True)
class Claim:
    """A claim about one table or several; `sql` returns the rows that break it, so no rows means it holds.

    `references` are the tables it reads, as schema.name.
    """

    name: str
    sentence: str
    sql: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class SqlColumn:
    """A column as the .yml describes it; data_tests: (kind, argument), argument None where the kind takes none."""

    name: str
    description: str
    unit: str = ""
    data_tests: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class SqlModel:
    """A table that SQL derives.

    `sql` is one select statement as the file has it; `references` are the tables it reads (schema.name, sorted);
    `parameters` the variables it reads (sorted); `code_version` changes with the statement and with nothing else.
    """

    schema: str
    name: str
    sql: str
    description: str
    grain: tuple[str, ...]
    columns: tuple[SqlColumn, ...]
    claims: tuple[Claim, ...]
    references: tuple[str, ...]
    code_version: str
    parameters: tuple[str, ...] = ()
    path: Path = field(default=Path(), compare=False)

    @property
    def key(self) -> str:
        """Name in SQL: `schema.name`."""
        return f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns in the order the SQL gives them."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class SqlProject:
    """All models, upstream first, and the claims across tables."""

    models: Mapping[str, SqlModel]
    assertions: tuple[Claim, ...]

    @cached_property
    def by_layer(self) -> dict[str, tuple[SqlModel, ...]]:
        """The models of each layer, upstream first."""
        return {layer: tuple(m for m in self.models.values() if m.schema == layer) for layer in LAYERS}

    def upstream(self, key: str) -> tuple[str, ...]:
        """Every table the model depends on, directly or through other models, sorted; without itself."""
        found: set[str] = set()
        waiting = list(self.models[key].references)
        while waiting:
            reference = waiting.pop()
            if reference not in found:
                found.add(reference)
                waiting.extend(self.models[reference].references if reference in self.models else ())
        return tuple(sorted(found))


def sql_folder(folder: Path | None = None) -> Path:
    """The folder with models/ and tests/: the argument, else dbt_like_sql beside the package.

    The project is installed from its checkout (editable), so the folder beside the package is there. Raises
    SqlModelError where it is not.
    """
    chosen = folder if folder is not None else Path(__file__).resolve().parents[2] / "dbt_like_sql"
    if not (chosen / "models").is_dir():
        raise SqlModelError(f"{chosen}: no folder 'models' with SQL models; run from a checkout of the project")
    return chosen


def load_project(folder: Path | None = None, known_tables: Collection[str] | None = None) -> SqlProject:
    """Read all models and assertions and check that they fit together.

    known_tables are the tables that Python writes (default: all of the table contract). Raises SqlModelError, one
    sentence with file and place: a .yml missing, a column the SQL does not give, an unknown reference, a cycle.
    """
    root = sql_folder(folder)
    written = set(TABLES if known_tables is None else known_tables)
    models: dict[str, SqlModel] = {}
    for layer in LAYERS:
        sql_paths = sorted((root / "models" / layer).glob("*.sql"))
        described = {path.stem for path in (root / "models" / layer).glob("*.yml")}
        orphans = sorted(described - {path.stem for path in sql_paths})
        if orphans:
            raise SqlModelError(f"models/{layer}/{orphans[0]}.yml: no {orphans[0]}.sql beside it")
        for path in sql_paths:
            model = load_model(path)
            models[model.key] = model
    for model in models.values():
        _check_references(model.path.name, model.references, written, models)
    assertions = tuple(load_assertion(path) for path in sorted((root / "tests").glob("assert_*.sql")))
    for assertion in assertions:
        _check_references(f"tests/{assertion.name}.sql", assertion.references, written, models)
    return SqlProject(models={key: models[key] for key in _topological(models)}, assertions=assertions)


def load_model(path: Path) -> SqlModel:
    """Read `<layer>/<name>.sql` and the `.yml` beside it; the layer is the name of the folder."""
    place = f"{path.parent.name}/{path.name}"
    if not _NAME.match(path.stem):
        raise SqlModelError(f"{place}: the name is {path.stem!r}; expected lower case letters, digits and _")
    sql = path.read_text(encoding="utf-8")
    tree = parse_select(sql, place)
    description, grain, columns = _read_description(path.with_suffix(".yml"))
    given = _output_columns(tree, place)
    described = [column.name for column in columns]
    for name in described:
        if name not in given:
            raise SqlModelError(f"{place}: column {name!r} of the .yml is not in the SQL, which gives {given}")
    for name in given:
        if name not in described:
            raise SqlModelError(f"{place}: column {name!r} of the SQL is not described in {path.stem}.yml")
    key = f"{path.parent.name}.{path.stem}"
    return SqlModel(
        schema=path.parent.name,
        name=path.stem,
        sql=sql,
        description=description,
        grain=grain,
        columns=tuple(sorted(columns, key=lambda column: given.index(column.name))),
        claims=render_claims(key, grain, columns),
        references=find_references(tree, place),
        code_version=statement_version(tree),
        parameters=find_parameters(tree),
        path=path,
    )


def load_assertion(path: Path) -> Claim:
    """Read `tests/assert_<claim>.sql`; the comment on top is the claim in a sentence."""
    sql = path.read_text(encoding="utf-8")
    comment = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").strip())
    if not comment:
        raise SqlModelError(f"tests/{path.name}: the first line is no comment; expected the claim in one sentence")
    references = find_references(parse_select(sql, f"tests/{path.name}"), f"tests/{path.name}")
    return Claim(name=path.stem, sentence=" ".join(comment), sql=sql, references=references)


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


def parameter_statements(values: Mapping[str, object]) -> list[str]:
    """`set variable` statements for numbers, texts, booleans and None (which leaves the default to the SQL)."""
    return [f"set variable {name} = {_literal(value)}" for name, value in sorted(values.items())]


def render_claims(key: str, grain: Sequence[str], columns: Iterable[SqlColumn]) -> tuple[Claim, ...]:
    """Claims of a model as queries that return the rows that break them, at most one of a kind.

    One query a kind and not one a column, because each becomes an asset check and a step's checks add up.
    """
    keys = ", ".join(grain)
    claims = [
        Claim(
            "grain_is_unique",
            f"{key} has one row per {keys}",
            f"select {keys}, count(*) as n_rows from {key} group by {keys} having count(*) > 1",
            (key,),
        )
    ]
    conditions: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        for kind, argument in column.data_tests:
            if kind == "unique":
                claims.append(
                    Claim(
                        f"{column.name}_is_unique",
                        f"{key}: no two rows have the same {column.name}",
                        f"select {column.name}, count(*) as n_rows from {key} group by 1 having count(*) > 1",
                        (key,),
                    )
                )
            else:
                conditions.setdefault(kind, []).append((column.name, _violation(column.name, kind, argument)))
    names = {"not_null": "columns_are_filled", "accepted_values": "values_are_known", "between": "values_are_in_range"}
    words = {"not_null": "never NULL", "accepted_values": "one of the known values", "between": "in range"}
    for kind, violations in conditions.items():
        broken = ", ".join(f"case when {condition} then '{name}' end" for name, condition in violations)
        anywhere = " or ".join(f"({condition})" for _, condition in violations)
        sentence = f"{key}: {', '.join(name for name, _ in violations)} {words[kind]}"
        sql = f"select {keys}, concat_ws(', ', {broken}) as broken_columns from {key} where {anywhere}"
        claims.append(Claim(names[kind], sentence, sql, (key,)))
    return tuple(claims)


def _violation(name: str, kind: str, argument: Any) -> str:
    """Condition of the rows that break the claim; a NULL breaks only not_null."""
    if kind == "not_null":
        return f"{name} is null"
    if kind == "accepted_values":
        return f"{name} not in ({', '.join(_literal(value) for value in argument)})"
    low, high = argument
    sides = [f"{name} < {low}"] if low is not None else []
    return " or ".join(sides + ([f"{name} > {high}"] if high is not None else []))


def _literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def _output_columns(tree: exp.Query, place: str) -> list[str]:
    names = list(tree.named_selects)
    if "*" in names or "" in names:
        raise SqlModelError(f"{place}: the last select holds * or a column without a name; expected a list of columns")
    return names


def _check_references(
    place: str, references: Iterable[str], written: Collection[str], models: Mapping[str, SqlModel]
) -> None:
    for reference in references:
        if reference not in written and reference not in models:
            raise SqlModelError(f"{place}: reads {reference}, which is neither a SQL model nor a table Python writes")


def _topological(models: Mapping[str, SqlModel]) -> list[str]:
    """Keys, upstream first; among those that are ready at the same time, by layer and name."""
    sorter = graphlib.TopologicalSorter(
        {key: [reference for reference in model.references if reference in models] for key, model in models.items()}
    )
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise SqlModelError(f"SQL models read each other in a circle: {' → '.join(error.args[1])}") from error
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda key: (LAYERS.index(models[key].schema), key))
        order.extend(ready)
        sorter.done(*ready)
    return order


def _read_description(path: Path) -> tuple[str, tuple[str, ...], tuple[SqlColumn, ...]]:
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
    columns = tuple(_read_column(place, entry) for entry in content["columns"])
    names = [column.name for column in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SqlModelError(f"{place}: column {repeated[0]!r} is described twice; expected once")
    for name in content["grain"]:
        if name not in names:
            raise SqlModelError(f"{place}: grain column {name!r} is not described; described are {names}")
    return " ".join(str(content["description"]).split()), tuple(content["grain"]), columns


def _read_column(place: str, entry: Any) -> SqlColumn:
    if not isinstance(entry, dict):
        raise SqlModelError(f"{place}: a column is {entry!r}; expected name and description")
    _check_keys(f"{place}: column {entry.get('name')!r}", entry, COLUMN_KEYS, {"name", "description"})
    tests: list[tuple[str, Any]] = []
    for test in entry.get("data_tests", []):
        kind, argument = next(iter(test.items())) if isinstance(test, dict) else (test, None)
        if kind not in DATA_TESTS:
            raise SqlModelError(f"{place}: column {entry['name']!r}: data test {kind!r}; expected one of {DATA_TESTS}")
        if kind == "between" and not (isinstance(argument, list) and len(argument) == 2 and argument != [None, None]):
            raise SqlModelError(f"{place}: column {entry['name']!r}: between {argument!r}; expected [low, high]")
        if kind == "accepted_values" and not (isinstance(argument, list) and argument):
            raise SqlModelError(f"{place}: column {entry['name']!r}: accepted_values {argument!r}; expected a list")
        tests.append((kind, argument))
    return SqlColumn(str(entry["name"]), str(entry["description"]), str(entry.get("unit", "")), tuple(tests))


def _check_keys(place: str, content: Mapping[Any, Any], allowed: Collection[str], needed: Collection[str]) -> None:
    unknown = sorted(str(key) for key in content if key not in allowed)
    if unknown:
        raise SqlModelError(f"{place}: unknown key {unknown[0]!r}; expected {', '.join(sorted(allowed))}")
    missing = sorted(key for key in needed if not content.get(key))
    if missing:
        raise SqlModelError(f"{place}: {missing[0]} is missing; expected {', '.join(sorted(needed))}")
