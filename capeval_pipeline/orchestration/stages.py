"""What a step is: a pure body from a benchmark's tables to tables, declared with what it reads and writes.

Bodies live in assets/, the Dagster assets they become in step_assets.py, the frame that runs them in step_runs.py.
Loaded with the definitions, so it imports no library that only a running step needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval_pipeline.orchestration.code_versions import code_version
from capeval_pipeline.orchestration.records import values_hash
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.storage.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from capeval_pipeline.storage.sql_models import SqlModel
    from capeval_pipeline.storage.stored_rows import StoredRows

OWNERS = ["team:capeval"]
CONTRACT_CHECK = "fits_its_contract"
CLAIMS_CHECK = "claims_hold"
FIT_CHECK = "fits_settled"


@dataclass(frozen=True)
class Verdict:
    """One sentence that answers a question about a benchmark, and the table its numbers stand in."""

    question: str
    sentence: str
    source_table: str


@dataclass(frozen=True)
class CheckOutcome:
    """Result of a check declared beside a table: passed or not, and what was found, as a sentence."""

    table: str
    name: str
    passed: bool
    description: str


@dataclass(frozen=True)
class StageResult:
    """What a body gives back: tables by key, sentences, numbers to plot over time, outcomes of declared checks.

    scratch: the folder in which tables given as stored rows lie; it goes once they are written. skipped_because: the
    sentence that says why there is no answer, of a step that does not apply to the benchmark.
    """

    tables: Mapping[str, pd.DataFrame | pa.Table | StoredRows]
    verdicts: Sequence[Verdict] = ()
    numbers: Mapping[str, float | int] = field(default_factory=dict)
    checks: Sequence[CheckOutcome] = ()
    scratch: Path | None = None
    skipped_because: str = ""


@dataclass(frozen=True)
class Part:
    """One benchmark's side of the workspace, as a body sees it."""

    benchmark_id: str
    workspace: Workspace
    benchmark: Mapping[str, Any]
    is_full: bool = False
    run_config: Mapping[str, Any] = field(default_factory=dict)
    input_versions: Mapping[str, str] = field(default_factory=dict)

    def arrow(self, key: str) -> pa.Table:
        """The benchmark's rows of a table; without rows, and where it was never made, empty with its columns."""
        from capeval_pipeline.storage.conformity import empty
        from capeval_pipeline.storage.older_parts import as_declared

        if key in TABLES and not self.workspace.lake.has_table(key):
            return empty(TABLES[key])
        rows = self.workspace.lake.read(key, self.benchmark_id)
        return as_declared(TABLES[key], rows, self.workspace.lake.uri(key)) if key in TABLES else rows

    def stored(self, key: str) -> StoredRows:
        """The benchmark's rows of a table as rows in the lake's files, for what is too big to be held."""
        from capeval_pipeline.storage.conformity import empty
        from capeval_pipeline.storage.older_parts import check_files

        rows = self.workspace.lake.stored(key, empty(TABLES[key]).schema, self.benchmark_id)
        check_files(TABLES[key], rows.paths, self.workspace.lake.uri(key))
        return rows

    def read(self, key: str) -> pd.DataFrame:
        """The same as a pandas frame."""
        return self.arrow(key).to_pandas()

    @property
    def cache_dir(self) -> Path:
        """Where a body may keep what can be made again at any time."""
        return self.workspace.settings.cache

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """The executor the settings name, closed when the body is done with it."""
        from capeval_pipeline.executors import open_executor

        with open_executor(self.workspace.settings.executor, self.workspace.settings.n_workers) as pool:
            yield pool


Body = Callable[[Part, Any], StageResult]


@dataclass(frozen=True)
class StageAsset:
    """Everything the graph needs to know of one step; `tables` are its outputs, `inputs` what it reads.

    question: what its verdict answers, "" if it gives none. is_long: made only when asked for (`--full`).
    uses_full: its size depends on `--full`. always_runs: reads what no record knows of (files), so it is never taken
    for fresh. tolerates_missing: asks to run though some of its inputs were never made. run_fields: further text
    fields of one run, name → meaning, handed to the body as part.run_config. check_names: table → checks the body
    reports beside the contract's own; warning_checks: those that do not block. sql_model: the SQL that the body runs.
    """

    name: str
    stage: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    body: Body
    code_version: str
    description: str
    question: str = ""
    is_long: bool = False
    uses_full: bool = False
    always_runs: bool = False
    tolerates_missing: bool = False
    run_fields: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset({"python", "deltalake"})
    check_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warning_checks: frozenset[str] = frozenset()
    table_descriptions: Mapping[str, str] = field(default_factory=dict)
    sql_model: SqlModel | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its tables and, where it answers a question, the table of its sentences."""
        return (*self.tables, f"verdicts.{self.name}") if self.question else self.tables

    def checks_of(self, key: str) -> tuple[str, ...]:
        """Names of a table's checks; a SQL model's contract are its claims, so it has one check and not two."""
        own = tuple(self.check_names.get(key, ()))
        return (CONTRACT_CHECK, *own) if key in TABLES else own

    def is_blocking(self, check_name: str) -> bool:
        """Whether a failure of the check stops what is downstream."""
        return check_name not in {FIT_CHECK, *self.warning_checks}

    def configured(self, workspace: Workspace, facts: Mapping[str, Any] | None) -> str:
        """Hash of the values it is configured with for a benchmark, overrides apart."""
        settings = workspace.stage_settings(self.stage, facts)
        return values_hash({} if settings is None else settings.model_dump(mode="json"))


def stage_asset(
    *,
    stage: str,
    tables: Sequence[str],
    inputs: Sequence[str],
    question: str = "",
    is_long: bool = False,
    uses_full: bool = False,
    always_runs: bool = False,
    tolerates_missing: bool = False,
    run_fields: Mapping[str, str] | None = None,
    kinds: Sequence[str] = ("python", "deltalake"),
    check_names: Mapping[str, Sequence[str]] | None = None,
    warning_checks: Sequence[str] = (),
) -> Callable[[Body], StageAsset]:
    """Declare a function of (part, settings) as a step; its docstring becomes the description in the UI."""

    def declare(body: Body) -> StageAsset:
        contracts = "|".join(TABLES[key].layout for key in tables)
        return StageAsset(
            name=body.__name__,
            stage=stage,
            tables=tuple(tables),
            inputs=tuple(inputs),
            body=body,
            code_version=f"{code_version(body)}-{values_hash({'contracts': contracts})[:8]}",
            description=inspect.getdoc(body) or "",
            question=question,
            is_long=is_long,
            uses_full=uses_full,
            always_runs=always_runs,
            tolerates_missing=tolerates_missing,
            run_fields=run_fields or {},
            kinds=frozenset(kinds),
            check_names=check_names or {},
            warning_checks=frozenset(warning_checks),
            table_descriptions={key: TABLES[key].description for key in tables},
        )

    return declare
