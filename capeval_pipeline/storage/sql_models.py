"""Finds the SQL models of dbt_like_sql: what they read, what they promise, in which order they run, their version.

A model is `models/<layer>/<name>.sql` with `<name>.yml` beside it; a claim across tables is
`tests/assert_<claim>.sql`. The SQL runs as it stands, so references are found by parsing (sql_reading.py) and nothing
is templated. What parsing finds is kept under the hash of what was parsed: it takes longer than importing dagster.
Running a model is not this module's business: it hands out SQL text and opens no connection.
"""

import graphlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from capeval_pipeline import kept_beside_code
from capeval_pipeline.errors import SqlModelError
from capeval_pipeline.storage.tables import TABLES

LAYERS = ("staging", "intermediate", "marts")
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


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
    kept = KeptFacts() if folder is None else None
    written = set(TABLES if known_tables is None else known_tables)
    models: dict[str, SqlModel] = {}
    for layer in LAYERS:
        sql_paths = sorted((root / "models" / layer).glob("*.sql"))
        described = {path.stem for path in (root / "models" / layer).glob("*.yml")}
        orphans = sorted(described - {path.stem for path in sql_paths})
        if orphans:
            raise SqlModelError(f"models/{layer}/{orphans[0]}.yml: no {orphans[0]}.sql beside it")
        for path in sql_paths:
            model = load_model(path, kept)
            models[model.key] = model
    for model in models.values():
        _check_references(model.path.name, model.references, written, models)
    assertions = tuple(load_assertion(path, kept) for path in sorted((root / "tests").glob("assert_*.sql")))
    for assertion in assertions:
        _check_references(f"tests/{assertion.name}.sql", assertion.references, written, models)
    if kept is not None:
        kept.save()
    return SqlProject(models={key: models[key] for key in _topological(models)}, assertions=assertions)


class KeptFacts:
    """What reading found in files, from one process to the next: text of the files → facts.

    Under the hash of everything they were found from, the reading code and its libraries included, so that another
    text, code or library is read anew.
    """

    root = kept_beside_code.PACKAGE_ROOT

    def __init__(self) -> None:
        reading = Path(__file__).with_name("sql_reading.py")
        self._key = kept_beside_code.key_of(reading, version("sqlglot"), version("pyyaml"))
        self._before = kept_beside_code.read("sql_models", self._key, self.root)
        self._now: dict[str, Any] = {}

    def facts(self, texts: Sequence[bytes], read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The facts of the texts, read only if they are not known."""
        name = hashlib.sha256(b"\0".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()
        self._now[name] = self._before[name] if name in self._before else read()
        return dict(self._now[name])

    def save(self) -> None:
        """Keep what was asked for this time, and nothing else."""
        if set(self._now) != set(self._before):
            kept_beside_code.write("sql_models", self._key, self._now, self.root)


def load_model(path: Path, kept: KeptFacts | None = None) -> SqlModel:
    """Read `<layer>/<name>.sql` and the `.yml` beside it; the layer is the name of the folder."""
    if not _NAME.match(path.stem):
        raise SqlModelError(
            f"{path.parent.name}/{path.name}: the name is {path.stem!r}; expected lower case letters, digits and _"
        )
    described = path.with_suffix(".yml")
    texts = [path.read_bytes(), described.read_bytes() if described.is_file() else b""]
    found = _facts(kept, texts, lambda reading: reading.read_model(path))
    key = f"{path.parent.name}.{path.stem}"
    grain = tuple(found["grain"])
    columns = tuple(
        SqlColumn(name, description, unit, tuple((kind, argument) for kind, argument in tests))
        for name, description, unit, tests in found["columns"]
    )
    return SqlModel(
        schema=path.parent.name,
        name=path.stem,
        sql=texts[0].decode("utf-8"),
        description=found["description"],
        grain=grain,
        columns=columns,
        claims=render_claims(key, grain, columns),
        references=tuple(found["references"]),
        code_version=found["code_version"],
        parameters=tuple(found["parameters"]),
        path=path,
    )


def load_assertion(path: Path, kept: KeptFacts | None = None) -> Claim:
    """Read `tests/assert_<claim>.sql`; the comment on top is the claim in a sentence."""
    text = path.read_bytes()
    sql = text.decode("utf-8")
    comment = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").strip())
    if not comment:
        raise SqlModelError(f"tests/{path.name}: the first line is no comment; expected the claim in one sentence")
    found = _facts(kept, [text], lambda reading: reading.read_assertion(path))
    return Claim(name=path.stem, sentence=" ".join(comment), sql=sql, references=tuple(found["references"]))


def _facts(kept: KeptFacts | None, texts: Sequence[bytes], read: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    def read_now() -> dict[str, Any]:
        from capeval_pipeline.storage import sql_reading

        return read(sql_reading)

    return read_now() if kept is None else kept.facts(texts, read_now)


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
